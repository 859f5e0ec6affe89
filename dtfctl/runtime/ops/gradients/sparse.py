"""Gradients of the sparse family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops


@register_gradient("SparseReorder")
def _reorder(op: Operation, _: Any, grad: Tensor) -> Any:
    """Reorder row numbers along with the indices, which tells where each value went."""
    indices, values, shape = op.inputs
    count = array_ops.shape(values)[0]
    _, moved = apply_op_outputs(
        "SparseReorder", input_indices=indices, input_values=math_ops.range(count), input_shape=shape
    )
    inverse = array_ops.invert_permutation(moved)
    return [None, array_ops.gather(grad, inverse), None]


@register_gradient("SparseAdd")
def _add(op: Operation, *grads: Any) -> Any:
    a, b = op.inputs[0], op.inputs[3]
    ga, gb = apply_op_outputs(
        "SparseAddGrad", backprop_val_grad=grads[1], a_indices=a, b_indices=b, sum_indices=op.outputs[0]
    )
    ga.set_shape(op.inputs[1].shape)
    gb.set_shape(op.inputs[4].shape)
    return [None, ga, None, None, gb, None, None]


@register_gradient("SparseReduceSum")
def _reduce_sum(op: Operation, grad: Tensor) -> Any:
    indices, _, shape, axes = op.inputs
    rank = array_ops.size(shape)
    # Reshape to the kept form and divide the indices of reduced dimensions away.
    places = (array_ops.reshape(math_ops.cast(axes, dtypes.int32), [-1]) + rank) % rank
    ones = array_ops.ones_like(places, dtype=dtypes.int64)
    every = math_ops.range(rank)
    kept = apply_op("DynamicStitch", indices=[every, places], data=[shape, ones])
    reduced = apply_op("Reshape", tensor=grad, shape=kept)
    scale = shape // math_ops.cast(kept, dtypes.int64)
    return [None, apply_op("GatherNd", params=reduced, indices=indices // scale), None, None]


@register_gradient("SparseSlice")
def _slice(op: Operation, *grads: Any) -> Any:
    out = apply_op(
        "SparseSliceGrad",
        backprop_val_grad=grads[1],
        input_indices=op.inputs[0],
        input_start=op.inputs[3],
        output_indices=op.outputs[0],
    )
    out.set_shape(op.inputs[1].shape)
    return [None, out, None, None, None]


@register_gradient("SparseTensorDenseMatMul")
def _matmul(op: Operation, grad: Tensor) -> Any:
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attr("adjoint_a"), op.attr("adjoint_b")
    gb = apply_op(
        "SparseTensorDenseMatMul", a_indices=indices, a_values=values, a_shape=shape, b=grad, adjoint_a=not adjoint_a
    )
    if adjoint_b:
        gb = array_ops.matrix_transpose(gb, conjugate=True)
    rows, columns = indices[:, 0], indices[:, 1]
    parts_a = array_ops.gather(grad, columns if adjoint_a else rows)
    dense = array_ops.matrix_transpose(b, conjugate=True) if adjoint_b else b
    parts_b = array_ops.gather(dense, rows if adjoint_a else columns)
    if adjoint_a:
        gv = math_ops.reduce_sum(math_ops.conj(parts_a) * parts_b, axis=1)
    else:
        gv = math_ops.reduce_sum(parts_a * math_ops.conj(parts_b), axis=1)
    return [None, gv, None, gb]


def _sum_to_dense(values: Tensor, indices: Tensor, dense: Tensor, shape: Tensor) -> Tensor:
    """Sum what flows back to the broadcast dense argument of a cwise op."""
    dims = array_ops.shape(dense, out_type=dtypes.int64)
    lead = array_ops.size(shape) - array_ops.size(dims)
    ones = array_ops.fill(array_ops.expand_dims(lead, 0), array_ops.ones([], dtypes.int64))
    full = array_ops.concat([ones, dims], 0)
    scale = shape // full
    place = indices // scale
    summed = apply_op("ScatterNd", indices=place, updates=values, shape=full)
    return apply_op("Reshape", tensor=summed, shape=dims)


def _dense_at(dense: Tensor, indices: Tensor, shape: Tensor) -> Tensor:
    dims = array_ops.shape(dense, out_type=dtypes.int64)
    lead = array_ops.size(shape) - array_ops.size(dims)
    ones = array_ops.fill(array_ops.expand_dims(lead, 0), array_ops.ones([], dtypes.int64))
    full = array_ops.concat([ones, dims], 0)
    return apply_op(
        "GatherNd", params=apply_op("Reshape", tensor=dense, shape=full), indices=indices // (shape // full)
    )


@register_gradient("SparseDenseCwiseAdd")
def _cwise_add(op: Operation, grad: Tensor) -> Any:
    raise NotImplementedError("Gradient for SparseDenseCwiseAdd is not implemented.")


@register_gradient("SparseDenseCwiseMul")
def _cwise_mul(op: Operation, grad: Tensor) -> Any:
    indices, values, shape, dense = op.inputs
    dv = grad * math_ops.conj(_dense_at(dense, indices, shape))
    return [None, dv, None, _sum_to_dense(grad * math_ops.conj(values), indices, dense, shape)]


@register_gradient("SparseDenseCwiseDiv")
def _cwise_div(op: Operation, grad: Tensor) -> Any:
    indices, values, shape, dense = op.inputs
    at = math_ops.conj(_dense_at(dense, indices, shape))
    by_dense = grad * (-math_ops.conj(values) / (at * at))
    return [None, grad / at, None, _sum_to_dense(by_dense, indices, dense, shape)]


@register_gradient("SparseSoftmax")
def _softmax(op: Operation, grad: Tensor) -> Any:
    indices, _, shape = op.inputs
    y = op.outputs[0]
    product = y * grad
    rank = array_ops.size(shape)
    sums = apply_op(
        "SparseReduceSum",
        input_indices=indices,
        input_values=product,
        input_shape=shape,
        reduction_axes=array_ops.expand_dims(rank - 1, 0),
        keep_dims=True,
    )
    at = apply_op("GatherNd", params=sums, indices=indices[:, :-1])
    at = array_ops.reshape(at, [-1])
    return [None, (grad - at) * y, None]


@register_gradient("SparseSparseMaximum")
def _maximum(op: Operation, _: Any, grad: Tensor) -> Any:
    raise NotImplementedError("Gradient for SparseSparseMaximum is currently not implemented yet.")


@register_gradient("SparseSparseMinimum")
def _minimum(op: Operation, _: Any, grad: Tensor) -> Any:
    raise NotImplementedError("Gradient for SparseSparseMinimum is currently not implemented yet.")


@register_gradient("SparseFillEmptyRows")
def _fill_empty_rows(op: Operation, _i: Any, grad: Tensor, _e: Any, _r: Any) -> Any:
    dv, dd = apply_op_outputs("SparseFillEmptyRowsGrad", reverse_index_map=op.outputs[3], grad_values=grad)
    return [None, dv, None, dd]


@register_gradient("SparseToDense")
def _to_dense(op: Operation, grad: Tensor) -> Any:
    indices, values = op.inputs[0], op.inputs[2]
    rank = indices.shape.rank
    place = indices if rank == 2 else array_ops.expand_dims(indices, -1)
    if rank == 0:
        place = array_ops.reshape(indices, [1, 1])
    picked = apply_op("GatherNd", params=grad, indices=place)
    dv = math_ops.reduce_sum(picked) if values.shape.rank == 0 else array_ops.reshape(picked, array_ops.shape(values))
    zeros = array_ops.zeros_like(picked)
    rest = apply_op("TensorScatterUpdate", tensor=grad, indices=place, updates=zeros)
    return [None, None, dv, math_ops.reduce_sum(rest)]
