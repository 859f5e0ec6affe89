"""What clients ask, as arrays: tensors of messages, Examples, and recorded requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol.example_pb2 import Example
from dtfctl.protocol.serving_pb2 import Input
from dtfctl.protocol.tensor_pb2 import TensorProto
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, object_array
from dtfctl.runtime.train.tf_record import tf_record_iterator
from dtfctl.serve.signatures import CLASSIFY, REGRESS, Signature

Array = np.ndarray[Any, Any]


def tensors(sent: Mapping[str, TensorProto]) -> dict[str, Array]:
    """Decode tensors by name.

    Raises:
        OpError: one is malformed.
    """
    return {name: decode_tensor(proto) for name, proto in sent.items()}


def examples(signature: Signature, sent: Input) -> dict[str, Array]:
    """Make the one input of a signature that takes serialized Examples.

    Raises:
        InvalidArgumentError: there are no Examples.
    """
    kind = sent.WhichOneof("kind")
    if kind == "example_list_with_context":
        context = sent.example_list_with_context.context
        found = [_with_context(one, context) for one in sent.example_list_with_context.examples]
    else:
        found = list(sent.example_list.examples)
    if not found:
        raise InvalidArgumentError("Input is empty.")
    packed = [one.SerializeToString() for one in found]
    return {signature.inputs[0].alias: object_array(packed, (len(packed),))}


def _with_context(example: Example, context: Example) -> Example:
    both = Example()
    both.CopyFrom(context)
    both.MergeFrom(example)
    return both


def check_method(signature: Signature, method: str) -> None:
    """Refuse to classify or regress by a signature that is for something else.

    Raises:
        InvalidArgumentError.
    """
    word = {CLASSIFY: "classification", REGRESS: "regression"}[method]
    if signature.method != method:
        raise InvalidArgumentError(
            f"Expected {word} signature method_name to be {method}. Was: {signature.method or 'empty'}"
        )
    if len(signature.inputs) != 1:
        raise InvalidArgumentError(f"Expected one input Tensor in a {word} signature, not {len(signature.inputs)}")
    names = {port.alias for port in signature.outputs}
    allowed = {"classes", "scores"} if method == CLASSIFY else {"outputs"}
    if not names or names - allowed:
        raise InvalidArgumentError(
            f"Expected the outputs of a {word} signature to be {' and '.join(sorted(allowed))}, not {sorted(names)}"
        )


def classes(found: Mapping[str, Array], rows: int) -> list[list[tuple[str, float]]]:
    """Pair labels and scores of each example, each [rows, classes]; what there is not is empty or 0.

    Raises:
        InvalidArgumentError: they have other shapes.
    """
    for name, value in found.items():
        if value.ndim != 2 or value.shape[0] != rows:
            raise InvalidArgumentError(f"Expected {name} to be of shape [{rows}, ?], not {list(value.shape)}")
    labels, scores = found.get("classes"), found.get("scores")
    if labels is not None and scores is not None and labels.shape != scores.shape:
        raise InvalidArgumentError("Expected the same number of classes and scores")
    width = next(iter(found.values())).shape[1]
    return [
        [
            (
                "" if labels is None else bytes(labels[row, column]).decode("utf-8", "replace"),
                0.0 if scores is None else float(scores[row, column]),
            )
            for column in range(width)
        ]
        for row in range(rows)
    ]


def regressions(found: Mapping[str, Array], rows: int) -> list[float]:
    """Read one number for each example, from [rows] or [rows, 1].

    Raises:
        InvalidArgumentError: they are of another shape.
    """
    value = found["outputs"]
    if value.shape not in ((rows,), (rows, 1)):
        raise InvalidArgumentError(f"Expected outputs to be of shape [{rows}] or [{rows}, 1], not {list(value.shape)}")
    return [float(one) for one in value.reshape(-1)]


def records(file: Path) -> Iterator[bytes]:
    """Read a TFRecord file."""
    return iter(tf_record_iterator(str(file)))
