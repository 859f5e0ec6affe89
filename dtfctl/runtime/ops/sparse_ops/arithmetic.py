"""Sums, products, extremes, reductions and the operators of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.sparse_ops.common import as_sparse


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None, name: str | None = None) -> Any:
    """Add tensors: sparse + sparse stays sparse; with a dense argument the sum is dense."""
    threshold = thresh if threshold is None else threshold
    threshold = 0 if threshold is None else threshold
    a_sparse, b_sparse = (hasattr(t, "dense_shape") and hasattr(t, "indices") for t in (a, b))
    if not a_sparse and not b_sparse:
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if a_sparse and b_sparse:
        a, b = as_sparse(a), as_sparse(b)
        real = a.dtype.real_dtype
        out = apply_op_outputs(
            "SparseAdd",
            name,
            a_indices=a.indices,
            a_values=a.values,
            a_shape=a.dense_shape,
            b_indices=b.indices,
            b_values=b.values,
            b_shape=b.dense_shape,
            thresh=convert_to_tensor(threshold, real),
        )
        return SparseTensor(*out)
    if b_sparse:
        a, b = b, a
    a = as_sparse(a)
    return apply_op(
        "SparseTensorDenseAdd",
        name,
        a_indices=a.indices,
        a_values=a.values,
        a_shape=a.dense_shape,
        b=convert_to_tensor(b, a.dtype.base_dtype),
    )


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Multiply a sparse and a dense matrix, in either order."""
    if hasattr(b, "dense_shape"):
        # A dense times a sparse matrix, through its adjoint.
        product = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return array_ops.matrix_transpose(product, conjugate=True)
    sp = as_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul"):
        return apply_op(
            "SparseTensorDenseMatMul",
            a_indices=sp.indices,
            a_values=sp.values,
            a_shape=sp.dense_shape,
            b=convert_to_tensor(b, sp.dtype.base_dtype, name="b"),
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )


matmul = sparse_tensor_dense_matmul


def _reduction(op_type: str, sparse: bool) -> Callable[..., Any]:
    def function(
        sp_input: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        reduction_axes: Any = None,
        keep_dims: bool | None = None,
        name: str | None = None,
    ) -> Any:
        sp = as_sparse(sp_input)
        axis = reduction_axes if axis is None else axis
        if axis is None:
            rank = sp.dense_shape.shape.num_elements()
            axes: Any = (
                np.arange(rank, dtype=np.int32) if rank is not None else math_ops.range(array_ops.size(sp.dense_shape))
            )
        else:
            axes = axis
        out = apply_op_outputs(
            op_type,
            name,
            input_indices=sp.indices,
            input_values=sp.values,
            input_shape=sp.dense_shape,
            reduction_axes=axes,
            keep_dims=bool(keep_dims if keepdims is None else keepdims),
        )
        return SparseTensor(*out) if sparse else out[0]

    function.__name__ = function.__qualname__ = op_type
    return function


sparse_reduce_sum, sparse_reduce_max = _reduction("SparseReduceSum", False), _reduction("SparseReduceMax", False)


sparse_reduce_sum_sparse = _reduction("SparseReduceSumSparse", True)


sparse_reduce_max_sparse = _reduction("SparseReduceMaxSparse", True)


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Compute the softmax over the stored elements of each row."""
    sp = as_sparse(sp_input)
    values = apply_op("SparseSoftmax", name, sp_indices=sp.indices, sp_values=sp.values, sp_shape=sp.dense_shape)
    return SparseTensor(sp.indices, values, sp.dense_shape)


def _extremum(op_type: str) -> Callable[..., SparseTensor]:
    def function(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
        a, b = as_sparse(sp_a), as_sparse(sp_b)
        indices, values = apply_op_outputs(
            op_type,
            name,
            a_indices=a.indices,
            a_values=a.values,
            a_shape=a.dense_shape,
            b_indices=b.indices,
            b_values=b.values,
            b_shape=b.dense_shape,
        )
        return SparseTensor(indices, values, a.dense_shape)

    function.__name__ = function.__qualname__ = op_type
    return function


sparse_maximum, sparse_minimum = _extremum("SparseSparseMaximum"), _extremum("SparseSparseMinimum")


def _cwise(op_type: str) -> Callable[[SparseTensor, Any], SparseTensor]:
    def operator(self: SparseTensor, other: Any) -> SparseTensor:
        values = apply_op(
            op_type,
            sp_indices=self.indices,
            sp_values=self.values,
            sp_shape=self.dense_shape,
            dense=convert_to_tensor(other, self.dtype.base_dtype),
        )
        return SparseTensor(self.indices, values, self.dense_shape)

    return operator


for _name, _op_type in {
    "__mul__": "SparseDenseCwiseMul",
    "__rmul__": "SparseDenseCwiseMul",
    "__truediv__": "SparseDenseCwiseDiv",
}.items():
    setattr(SparseTensor, _name, _cwise(_op_type))
