"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
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
        a_axes, b_axes = _tensordot_axes(a, b.shape.rank, axes)
        a_rank, b_rank = a.shape.rank, b.shape.rank
        if a_rank is None or b_rank is None:
            raise ValueError("tensordot needs arguments of known rank")
        a_axes, b_axes = [i % a_rank for i in a_axes], [i % b_rank for i in b_axes]
        if len(a_axes) != len(b_axes):
            raise ValueError(f"Different number of contraction axes `a` and `b`, {len(a_axes)} != {len(b_axes)}.")
        for i, j in zip(a_axes, b_axes):
            known = a.shape.is_fully_defined() and b.shape.is_fully_defined()
            if known and not a.shape[i : i + 1].is_compatible_with(b.shape[j : j + 1]):
                raise ValueError(f"Dimensions must be equal: axis {i} of {a.shape} and axis {j} of {b.shape}")
        a_free = [i for i in range(a_rank) if i not in a_axes]
        b_free = [i for i in range(b_rank) if i not in b_axes]
        a_shape, b_shape = array_ops.shape(a), array_ops.shape(b)
        left = array_ops.transpose(a, a_free + a_axes)
        right = array_ops.transpose(b, b_axes + b_free)
        inner = reduce_prod(array_ops.gather(a_shape, a_axes)) if a_axes else constant(1)
        left = array_ops.reshape(left, array_ops.stack([-1, inner]))
        right = array_ops.reshape(right, array_ops.stack([inner, -1]))
        parts = [array_ops.gather(a_shape, a_free)] if a_free else []
        parts += [array_ops.gather(b_shape, b_free)] if b_free else []
        product = matmul(left, right)
        wanted = array_ops.concat(parts, 0) if parts else constant([], dtypes.int32)
        out = apply_op("Reshape", scope, tensor=product, shape=wanted)
        a_dims, b_dims = a.shape.dims_or_none, b.shape.dims_or_none
        if a_dims is not None and b_dims is not None:
            out.set_shape([a_dims[i] for i in a_free] + [b_dims[i] for i in b_free])
        return out


def _tensordot_axes(a: Tensor, b_rank: int | None, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        n, rank = int(axes), a.shape.rank
        if n < 0 or rank is None or n > rank or n > (n if b_rank is None else b_rank):
            raise ValueError(f"`axes` must be between 0 and the rank of `a`, got {axes}")
        return list(range(rank - n, rank)), list(range(n))
    first, second = axes
    return (
        [int(first)] if isinstance(first, (int, np.integer)) else [int(i) for i in first],
        [int(second)] if isinstance(second, (int, np.integer)) else [int(i) for i in second],
    )


def trace(x: Any, name: str | None = None) -> Tensor:
    """Add up the diagonal of (each) matrix."""
    with name_scope(name, "Trace") as scope:
        return reduce_sum(apply_op("MatrixDiagPart", input=x), axis=[-1], name=scope)
