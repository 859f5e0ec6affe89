"""Print, print and timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor

_STREAMS = {"tf.logging.info": "log(info)", "tf.logging.warning": "log(warning)", "tf.logging.error": "log(error)"}


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Pass on `input_`, unchanged; when it is computed, `data` is written to the task's stderr."""
    return apply_op(
        "Print",
        name,
        input=input_,
        data=list(data),
        message=message or "",
        first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize,
    )


def print_v2(*inputs: Any, **kwargs: Any) -> Operation:
    """Make an op that writes its inputs, formatted, to the task's stderr (or `output_stream`)."""
    import sys

    stream = kwargs.pop("output_stream", sys.stderr)
    summarize, separator = kwargs.pop("summarize", 3), kwargs.pop("sep", " ")
    end, name = kwargs.pop("end", "\n"), kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    target = "stdout" if stream is sys.stdout else "stderr" if stream is sys.stderr else str(stream)
    first = inputs[0] if len(inputs) == 1 else None
    if isinstance(first, Tensor) and first.dtype is dtypes.string and first.shape.rank == 0:
        return make_op("PrintV2", name, input=first, output_stream=target, end=end)
    templates, tensors = [], []
    for item in inputs:
        leaves = nest.flatten(item)
        if any(isinstance(leaf, Tensor) for leaf in leaves):
            holders = ["{}" if isinstance(leaf, Tensor) else str(leaf) for leaf in leaves]
            templates.append(holders[0] if not nest.is_nested(item) else f"[{', '.join(holders)}]")
            tensors += [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        else:
            templates.append(str(item))
    text = separator.join(templates)
    if tensors:
        line = apply_op("StringFormat", inputs=tensors, template=text, placeholder="{}", summarize=summarize)
    else:
        line = convert_to_tensor(text, dtypes.string)
    return make_op("PrintV2", name, input=line, output_stream=_STREAMS.get(target, target), end=end)
