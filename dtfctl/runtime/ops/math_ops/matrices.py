"""Products of matrices and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.math_ops import sequences
from dtfctl.runtime.ops.math_ops.reductions import reduce_prod, reduce_sum
from dtfctl.runtime.ops.operands import conj, second_operand, typed_pair


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply matrices, or batches of them; the product is of output_type if it is given.

    `grad_a` and `grad_b` tell TensorFlow which operand is a gradient; the product is the same.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of `transpose` and `adjoint` can be True.")
    a, b = typed_pair(a, b)
    b = second_operand("MatMul", a, b)
    rank_a, rank_b = a.shape.rank, b.shape.rank
    kind = None if output_type is None else dtypes.as_dtype(output_type)
    wider = kind not in (None, a.dtype.base_dtype)
    if wider and (a_is_sparse or b_is_sparse):
        raise ValueError("a product of another output_type needs operands that are not sparse: cast it instead")
    if wider or (rank_a is None or rank_a > 2) or (rank_b is None or rank_b > 2):
        if transpose_a:
            a, adjoint_a = conj(a), True
        if transpose_b:
            b, adjoint_b = conj(b), True
        if wider:
            return apply_op("BatchMatMulV3", name, x=a, y=b, adj_x=adjoint_a, adj_y=adjoint_b, Tout=kind)
        return apply_op("BatchMatMulV2", name or "MatMul", x=a, y=b, adj_x=adjoint_a, adj_y=adjoint_b)
    if adjoint_a:
        a, transpose_a = conj(a), True
    if adjoint_b:
        b, transpose_b = conj(b), True
    sparse_types = (dtypes.bfloat16, dtypes.float32)
    if (a_is_sparse or b_is_sparse) and a.dtype.base_dtype in sparse_types:
        return apply_op(
            "SparseMatMul",
            name,
            a=a,
            b=b,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
    return apply_op("MatMul", name, a=a, b=b, transpose_a=transpose_a, transpose_b=transpose_b)


def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply matrices of which many elements are zero."""
    kinds = {"a_is_sparse": a_is_sparse, "b_is_sparse": b_is_sparse}
    return apply_op("SparseMatMul", name, a=a, b=b, transpose_a=transpose_a, transpose_b=transpose_b, **kinds)


batch_matmul = matmul


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply matrices by vectors."""
    with name_scope(name, "MatVec"):
        column = apply_op("ExpandDims", input=b, dim=-1)
        out = matmul(a, column, transpose_a, False, adjoint_a, False, a_is_sparse, b_is_sparse)
        return apply_op("Squeeze", input=out, squeeze_dims=[-1])


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Contract a and b over axes: a number, or a pair of (lists of) axes."""

    with name_scope(name, "Tensordot") as scope:
        a, b = typed_pair(a, b)
        b = second_operand("MatMul", a, b)
        a_axes, b_axes = _tensordot_axes(a, axes)
        left, a_free, a_dims = _as_matrix(a, a_axes, last=True)
        right, b_free, b_dims = _as_matrix(b, b_axes, last=False)
        product = matmul(left, right)
        if a_dims is None or b_dims is None:
            return apply_op("Reshape", scope, tensor=product, shape=array_ops.concat([a_free, b_free], 0))
        dims = a_dims + b_dims
        if None not in dims:
            done = product.shape.as_list() == dims and a.shape.is_fully_defined() and b.shape.is_fully_defined()
            return product if done else apply_op("Reshape", scope, tensor=product, shape=dims)
        out = apply_op("Reshape", scope, tensor=product, shape=array_ops.concat([a_free, b_free], 0))
        out.set_shape(dims)
        return out


def _tensordot_axes(a: Tensor, axes: Any) -> tuple[Any, Any]:
    """Find the axes of each operand: numbers, or a tensor where they depend on a rank that is not known."""
    if isinstance(axes, (int, np.integer)):
        n, rank = int(axes), a.shape.rank
        if n < 0 or (rank is not None and n > rank):
            raise ValueError(f"`axes` must be between 0 and the rank of `a`, got {axes}")
        if rank is not None:
            return list(range(rank - n, rank)), list(range(n))
        last = array_ops.rank(a)
        return sequences.range(last - n, last), list(range(n))
    if isinstance(axes, Tensor):
        return axes[0], axes[1]
    if len(axes) != 2:
        raise ValueError(f"`axes` must be an integer or have length 2, got {axes}")
    first, second = ([int(i)] if isinstance(i, (int, np.integer)) else [int(j) for j in i] for i in axes)
    if len(first) != len(second):
        raise ValueError(f"Different number of contraction axes `a` and `b`, {len(first)} != {len(second)}.")
    return first, second


def _as_matrix(x: Tensor, axes: Any, last: bool) -> tuple[Tensor, Any, list[int | None] | None]:
    """Bring axes together at one end: the matrix, and the other axes' sizes, as a tensor and as they are known."""
    rank = x.shape.rank
    if rank is None or isinstance(axes, Tensor):
        return _as_matrix_by_rank(x, axes, last)
    axes = [i if i >= 0 else i + rank for i in axes]
    free = [i for i in range(rank) if i not in axes]
    dims = x.shape.as_list()
    over, rest = [dims[i] for i in axes], [dims[i] for i in free]
    order = free + axes if last else axes + free
    moved = x if order == list(range(rank)) else array_ops.transpose(x, order)
    sizes: Any = rest
    if None in rest:
        sizes = array_ops.gather(array_ops.shape(x), free)
    n_over, n_rest = (None if None in part else math.prod(part) for part in (over, rest))
    if n_over is None and n_rest is None:
        n_over = reduce_prod(array_ops.gather(array_ops.shape(x), axes))
    if n_over == 0 or n_rest == 0:
        n_over, n_rest = (
            reduce_prod(array_ops.gather(array_ops.shape(x), part)) if n is None else n
            for n, part in ((n_over, axes), (n_rest, free))
        )
    shape = [-1 if n is None else n for n in ((n_rest, n_over) if last else (n_over, n_rest))]
    if moved.shape.as_list() == shape:
        return moved, sizes, rest
    known = all(isinstance(n, int) for n in shape)
    return apply_op("Reshape", tensor=moved, shape=shape if known else array_ops.stack(shape)), sizes, rest


def _as_matrix_by_rank(x: Tensor, axes: Any, last: bool) -> tuple[Tensor, Tensor, None]:
    rank, shape = array_ops.rank(x), array_ops.shape(x)
    axes = convert_to_tensor(axes, dtypes.int32)
    axes = array_ops.where(axes >= 0, axes, axes + rank)
    free, _ = array_ops.setdiff1d(sequences.range(rank), axes)
    sizes = array_ops.gather(shape, free)
    over, rest = reduce_prod(array_ops.gather(shape, axes)), reduce_prod(sizes)
    order, matrix = ([free, axes], [rest, over]) if last else ([axes, free], [over, rest])
    moved = array_ops.transpose(x, array_ops.concat(order, 0))
    return apply_op("Reshape", tensor=moved, shape=array_ops.stack(matrix)), sizes, None


def trace(x: Any, name: str | None = None) -> Tensor:
    """Add up the diagonal of (each) matrix."""
    with name_scope(name, "Trace") as scope:
        return reduce_sum(array_ops.matrix_diag_part(x), axis=[-1], name=scope)
