"""Ragged tensors in what a step prints."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.logging_ops import print_v2
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
from dtfctl.runtime.ops.ragged_ops.strings import as_text
from dtfctl.runtime.ops.string_ops import string_format


def print_ragged(*inputs: Any, sep: str = " ", summarize: int = 3, **kwargs: Any) -> Any:
    """Print like `tf.print`, ragged tensors as nested lists."""
    shown: list[Any] = []
    for value in inputs:
        if isinstance(value, RaggedTensorValue):
            value = convert_to_tensor_or_ragged_tensor(value)
        if isinstance(value, RaggedTensor):
            shown.append(as_text(value, summarize))
        elif isinstance(value, Tensor):
            shown.append(string_format("{}", value, summarize=summarize))
        else:
            shown.append(constant(str(value)))
    return print_v2(apply_op("StringJoin", inputs=shown, separator=sep), **kwargs)
