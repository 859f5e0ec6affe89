"""What clients ask of a model by: its signatures, and for a graph without any one made of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from dtfctl.protocol.graph_pb2 import GraphDef
from dtfctl.protocol.meta_graph_pb2 import SignatureDef, TensorInfo
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.op_signature import find_signature
from dtfctl.serve.sources import NoModel
from dtfctl.values import value

DEFAULT = "serving_default"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
_HIDDEN = ("__saved_model_init_op", "__saved_model_train_op")


@value
class Port:
    """An input or output of a signature."""

    alias: str
    tensor: str
    dtype: Any
    shape: tuple[int | None, ...] | None
    """None: not even the number of dimensions is known."""


@value
class Signature:
    """A way to use a model: which tensors are fed and fetched, by the names that clients know."""

    name: str
    method: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    batches: bool
    """Whether the first dimension of each input and output is the number of examples, as far as shapes tell."""

    def check(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Check names, types and shapes of inputs.

        Raises:
            InvalidArgumentError: something is missing, too much, or does not fit.
        """
        wanted = {port.alias for port in self.inputs}
        missing, strange = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        if missing or strange:
            parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"knows no {', '.join(strange)}"] * bool(strange)
            raise InvalidArgumentError(
                f"the request {' and '.join(parts)}: signature {self.name} has the inputs {', '.join(sorted(wanted))}"
            )
        for port in self.inputs:
            _check_one(port, values[port.alias])


def _check_one(port: Port, given: np.ndarray[Any, Any]) -> None:
    if port.dtype.as_numpy_dtype != given.dtype:
        raise InvalidArgumentError(f"input {port.alias} has to be {port.dtype.name}, not {given.dtype}")
    if port.shape is None:
        return
    fits = len(port.shape) == given.ndim and all(a is None or a == b for a, b in zip(port.shape, given.shape))
    if not fits:
        wanted = ", ".join("?" if size is None else str(size) for size in port.shape)
        raise InvalidArgumentError(f"input {port.alias} has to be of shape [{wanted}], not {list(given.shape)}")


def of_definitions(found: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """Read the signatures of a model; those that feed what is no plain tensor are left out."""
    read = {}
    for name, definition in found.items():
        if name in _HIDDEN or any(
            info.WhichOneof("encoding") != "name"
            for info in (*definition.inputs.values(), *definition.outputs.values())
        ):
            continue
        inputs, outputs = _ports(definition.inputs), _ports(definition.outputs)
        batches = all(port.shape and port.shape[0] is None for port in (*inputs, *outputs))
        read[name] = Signature(name, definition.method_name, inputs, outputs, bool(inputs) and batches)
    return read


def _ports(infos: Mapping[str, TensorInfo]) -> tuple[Port, ...]:
    return tuple(_port(alias, infos[alias]) for alias in sorted(infos))


def _port(alias: str, info: TensorInfo) -> Port:
    shape = info.tensor_shape
    known = None if shape.unknown_rank else tuple(None if d.size < 0 else int(d.size) for d in shape.dim)
    return Port(alias, info.name, tf.as_dtype(info.dtype), known)


def of_graph(graph: Any, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, SignatureDef]:
    """Make the one signature of a graph that has none.

    Args:
        inputs, outputs: names of tensors, `NAME=TENSOR` for another name than the tensor's. None: all placeholders, and
            what nothing of the graph takes.

    Raises:
        NoModel: the graph has no such tensor, or nothing that could be meant.
    """
    fed = _named(graph, inputs) or {op.name: op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"}
    given = _named(graph, outputs) or _ends(graph, fed)
    if not fed or not given:
        raise NoModel("it cannot be told what the graph's inputs and outputs are: name them by --inputs and --outputs")
    made = tf.saved_model.predict_signature_def(fed, given)
    return {DEFAULT: made}


def _named(graph: Any, wanted: Sequence[str]) -> dict[str, Any]:
    found = {}
    for text in wanted:
        alias, _, name = text.rpartition("=")
        try:
            tensor = graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
        except (KeyError, ValueError):
            raise NoModel(f"the graph has no tensor {name}") from None
        found[alias or name.partition(":")[0]] = tensor
    return found


def _ends(graph: Any, fed: Mapping[str, Any]) -> dict[str, Any]:
    """Find what depends on inputs, and is used by nothing."""
    reached = {tensor.op.name for tensor in fed.values()}
    ends = {}
    for op in graph.get_operations():
        if op.name not in reached and any(tensor.op.name in reached for tensor in op.inputs):
            reached.add(op.name)
            if op.outputs and not any(tensor.consumers() for tensor in op.outputs):
                ends[op.name] = op.outputs[0]
    return ends


def strip_devices(graph: GraphDef, container: str) -> None:
    """Have all of a graph lie on the device that it is imported to, with its state apart from that of other models."""
    bodies = [function.node_def for function in graph.library.function]
    for nodes in (graph.node, *bodies):
        for node in nodes:
            node.device = ""
            if _has_container(node.op):
                node.attr["container"].s = container.encode()


@cache
def _has_container(op: str) -> bool:
    # Graphs leave attributes out that have their defaults.
    known = find_signature(op)
    return known is not None and any(attr.name == "container" for attr in known.attrs)
