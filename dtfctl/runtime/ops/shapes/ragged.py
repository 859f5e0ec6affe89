"""Static shapes of the ragged family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape


@register_shape("RaggedRange")
def _range(op: Operation) -> Any:
    return [[None], [None]]


@register_shape("RaggedTensorToSparse")
def _to_sparse(op: Operation) -> Any:
    return [[None, None], [None], [None]]


@register_shape("RaggedGather")
def _gather(op: Operation) -> Any:
    return [[None]] * (len(op.outputs) - 1) + [None]
