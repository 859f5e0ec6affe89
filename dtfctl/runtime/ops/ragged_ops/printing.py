"""Ragged tensors in what a step prints."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.ops.logging_ops import print_v2
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
from dtfctl.runtime.ops.ragged_ops.strings import as_text


def print_ragged(*inputs: Any, **kwargs: Any) -> Any:
    """Print like `tf.print`, ragged tensors as nested lists."""
    summarize = kwargs.get("summarize", 3)
    shown = []
    for value in inputs:
        if isinstance(value, RaggedTensorValue):
            value = convert_to_tensor_or_ragged_tensor(value)
        shown.append(as_text(value, summarize) if isinstance(value, RaggedTensor) else value)
    return print_v2(*shown, **kwargs)
