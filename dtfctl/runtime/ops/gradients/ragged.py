"""Gradients of the ragged family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops


@register_gradient("RaggedTensorToSparse")
def _to_sparse(op: Operation, _i: Any, grad: Tensor, _s: Any) -> Any:
    values = op.inputs[-1]
    back = apply_op("Reshape", tensor=grad, shape=array_ops.shape(values))
    return [None] * (len(op.inputs) - 1) + [back]


@register_gradient("RaggedFillEmptyRows")
def _fill_empty_rows(op: Operation, _i: Any, grad: Tensor, _e: Any, _r: Any) -> Any:
    dv, dd = apply_op_outputs("RaggedFillEmptyRowsGrad", reverse_index_map=op.outputs[3], grad_values=grad)
    return [None, dv, None, dd]


@register_gradient("RaggedGather")
def _gather(op: Operation, *grads: Any) -> Any:
    """Gather row numbers the same way, which tells which value each output came from."""
    rank = op.attr("PARAMS_RAGGED_RANK")
    nested, values, indices = op.inputs[:rank], op.inputs[rank], op.inputs[rank + 1]
    shape = array_ops.shape(values)
    numbers = apply_op("Range", start=0, limit=shape[0], delta=1)
    outputs = apply_op_nested(
        "RaggedGather",
        params_nested_splits=list(nested),
        params_dense_values=numbers,
        indices=indices,
        OUTPUT_RAGGED_RANK=op.attr("OUTPUT_RAGGED_RANK"),
    )
    return [None] * rank + [IndexedSlices(grads[-1], outputs[-1], shape), None]
