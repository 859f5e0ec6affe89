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


@register_gradient("RaggedTensorToTensor")
def _to_tensor(op: Operation, grad: Tensor) -> Any:
    """Take each value's gradient from where it went; the default's is the sum of all others."""
    values, default = op.inputs[1:3]
    rows = array_ops.shape(values)[0]
    # Which value stands at each place: the same op, of their numbers.
    outer = op.outputs[0].shape.rank
    inner = values.shape.rank
    if inner is None or outer is None:
        raise ValueError("The gradient of RaggedTensorToTensor needs values and a result of known rank")
    ragged = outer - inner + 1
    numbers = apply_op(
        "RaggedTensorToTensor",
        shape=array_ops.shape(grad)[:ragged],
        values=apply_op("Range", start=0, limit=rows, delta=1),
        default_value=-1,
        row_partition_tensors=list(op.inputs[3:]),
        row_partition_types=op.attr("row_partition_types"),
    )
    numbers.set_shape([None] * ragged)
    real = apply_op("GreaterEqual", x=numbers, y=0)
    coordinates = apply_op("Where", input=real)
    at = apply_op("GatherNd", params=numbers, indices=coordinates)
    given = apply_op("GatherNd", params=grad, indices=coordinates)
    back = apply_op("UnsortedSegmentSum", data=given, segment_ids=at, num_segments=rows)
    rest = apply_op("GatherNd", params=grad, indices=apply_op("Where", input=apply_op("LogicalNot", x=real)))
    size = default.shape.rank
    if size is None:
        raise ValueError("The gradient of RaggedTensorToTensor needs a default value of known rank")
    filled = apply_op(
        "Sum", input=rest, reduction_indices=list(range(rest.shape.rank - size if rest.shape.rank else 1))
    )
    known = default.shape.dims_or_none or ()
    single = [i for i, d in enumerate(known) if d == 1]
    if single:
        filled = apply_op("Sum", input=filled, reduction_indices=single, keep_dims=True)
    return [None, back, filled] + [None] * (len(op.inputs) - 3)


@register_gradient("RaggedTensorFromVariant")
def _from_variant(op: Operation, *grads: Any) -> Any:
    splits = list(op.outputs[:-1])
    if not splits or op.inputs[0].shape.rank != 1:
        raise ValueError("The gradient of RaggedTensorFromVariant is that of a vector of variants")
    return apply_op("RaggedTensorToVariant", rt_nested_splits=splits, rt_dense_values=grads[-1], batched_input=True)


@register_gradient("RaggedTensorToVariant")
def _to_variant(op: Operation, grad: Tensor) -> Any:
    values = op.inputs[-1]
    nested = list(op.inputs[:-1])
    batched = op.attr("batched_input")
    # The kernel adds up what each row's variant has; row splits tell it which are whose.
    flat_splits = constant_splits(nested, batched)
    back = apply_op(
        "RaggedTensorToVariantGradient",
        encoded_ragged_grad=grad,
        row_splits=flat_splits,
        dense_values_shape=array_ops.shape(values),
        Tvalues=values.dtype.base_dtype,
    )
    back.set_shape(values.shape)
    return [None] * len(nested) + [back]


def constant_splits(nested: list[Tensor], batched: bool) -> Any:
    """Tell where the values of each outermost row begin; empty where there is one variant, or one a value."""
    from dtfctl.runtime.framework.convert import constant

    if not batched or not nested:
        return constant([], "int64" if not nested else nested[0].dtype.base_dtype)
    splits = nested[0]
    for inner in nested[1:]:
        splits = array_ops.gather(inner, splits)
    return splits
