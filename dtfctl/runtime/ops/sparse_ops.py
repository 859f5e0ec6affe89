"""Functions on SparseTensors with TF1's names, and their operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension
from dtfctl.runtime.ops import array_ops, math_ops


class SparseTensorValue(NamedTuple):
    """A sparse tensor's arrays: what fetching a SparseTensor gives and what feeding one takes."""

    indices: Any
    values: Any
    dense_shape: Any


def _sparse(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    if hasattr(value, "indices") and hasattr(value, "dense_shape"):
        return SparseTensor.from_value(value)
    raise TypeError(f"Input must be a SparseTensor, got {value!r}")


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A dense tensor with values at coordinates and a default elsewhere."""
    values = convert_to_tensor(sparse_values, name="sparse_values")
    indices = convert_to_tensor(sparse_indices, name="sparse_indices")
    return apply_op(  # type: ignore[no-any-return]
        "SparseToDense",
        name,
        sparse_indices=indices,
        output_shape=convert_to_tensor(output_shape, indices.dtype.base_dtype),
        sparse_values=values,
        default_value=convert_to_tensor(default_value, values.dtype.base_dtype),
        validate_indices=validate_indices,
    )


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """A SparseTensor as a dense tensor."""
    sp = _sparse(sp_input)
    if default_value is None:
        default_value = {dtypes.string: "", dtypes.bool_: False}.get(sp.dtype.base_dtype, 0)
    return sparse_to_dense(sp.indices, sp.dense_shape, sp.values, default_value, validate_indices, name)


def sparse_add(a: Any, b: Any, threshold: Any = None, name: str | None = None, thresh: Any = None) -> Any:
    """Sparse + sparse stays sparse; with a dense argument the sum is dense."""
    threshold = thresh if threshold is None else threshold
    threshold = 0 if threshold is None else threshold
    a_sparse, b_sparse = (hasattr(t, "dense_shape") and hasattr(t, "indices") for t in (a, b))
    if not a_sparse and not b_sparse:
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if a_sparse and b_sparse:
        a, b = _sparse(a), _sparse(b)
        real = a.dtype.real_dtype
        out = apply_op(
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
    a = _sparse(a)
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
    """The product of a sparse and a dense matrix."""
    if hasattr(b, "dense_shape"):
        # A dense times a sparse matrix, through its adjoint.
        product = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return array_ops.matrix_transpose(product, conjugate=True)
    sp = _sparse(sp_a)
    return apply_op(  # type: ignore[no-any-return]
        "SparseTensorDenseMatMul",
        name,
        a_indices=sp.indices,
        a_values=sp.values,
        a_shape=sp.dense_shape,
        b=convert_to_tensor(b, sp.dtype.base_dtype),
        adjoint_a=adjoint_a,
        adjoint_b=adjoint_b,
    )


matmul = sparse_tensor_dense_matmul


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The SparseTensor with its indices in row-major order."""
    sp = _sparse(sp_input)
    indices, values = apply_op(
        "SparseReorder", name, input_indices=sp.indices, input_values=sp.values, input_shape=sp.dense_shape
    )
    return SparseTensor(indices, values, sp.dense_shape)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another dense shape."""
    sp = _sparse(sp_input)
    wanted = convert_to_tensor(shape if isinstance(shape, Tensor) else np.asarray(shape, np.int64), name="shape")
    indices, dense = apply_op(
        "SparseReshape",
        name,
        input_indices=sp.indices,
        input_shape=sp.dense_shape,
        new_shape=math_ops.cast(wanted, dtypes.int64),
    )
    return SparseTensor(indices, array_ops.identity(sp.values), dense)


def sparse_concat(
    axis: int,
    sp_inputs: Sequence[Any],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
) -> SparseTensor:
    """SparseTensors put one after the other along an axis."""
    axis = axis if concat_dim is None else concat_dim
    parts = [_sparse(s) for s in sp_inputs]
    if len(parts) == 1:
        return parts[0]
    shapes = [p.dense_shape for p in parts]
    if expand_nonconcat_dim:
        largest = apply_op("Max", input=array_ops.stack(shapes), reduction_indices=[0])
        rank = shapes[0].shape.num_elements()
        if rank is None:
            raise ValueError("expand_nonconcat_dim needs sparse tensors of known rank")
        at = axis % rank
        shapes = [array_ops.concat([largest[:at], s[at : at + 1], largest[at + 1 :]], 0) for s in shapes]
    out = apply_op(
        "SparseConcat",
        name,
        indices=[p.indices for p in parts],
        values=[p.values for p in parts],
        shapes=shapes,
        concat_dim=axis,
    )
    return SparseTensor(*out)


def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """A SparseTensor cut into parts along an axis."""
    axis = split_dim if axis is None else axis
    if sp_input is None or num_split is None or axis is None:
        raise ValueError("sparse_split needs sp_input, num_split and axis by keyword")
    sp = _sparse(sp_input)
    indices, values, shapes = apply_op(
        "SparseSplit",
        name,
        split_dim=convert_to_tensor(axis, dtypes.int64),
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        num_split=num_split,
    )
    return [SparseTensor(*t) for t in zip(indices, values, shapes)]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of `size` elements from `start` along each axis."""
    sp = _sparse(sp_input)
    out = apply_op(
        "SparseSlice",
        name,
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        start=convert_to_tensor(start, dtypes.int64),
        size=convert_to_tensor(size, dtypes.int64),
    )
    return SparseTensor(*out)


def _reduction(op_type: str, sparse: bool) -> Callable[..., Any]:
    def function(
        sp_input: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        reduction_axes: Any = None,
        keep_dims: bool | None = None,
        name: str | None = None,
    ) -> Any:
        sp = _sparse(sp_input)
        axis = reduction_axes if axis is None else axis
        if axis is None:
            rank = sp.dense_shape.shape.num_elements()
            axes: Any = (
                np.arange(rank, dtype=np.int32) if rank is not None else math_ops.range(array_ops.size(sp.dense_shape))
            )
        else:
            axes = axis
        out = apply_op(
            op_type,
            name,
            input_indices=sp.indices,
            input_values=sp.values,
            input_shape=sp.dense_shape,
            reduction_axes=axes,
            keep_dims=bool(keep_dims if keepdims is None else keepdims),
        )
        return SparseTensor(*out) if sparse else out

    function.__name__ = function.__qualname__ = op_type
    return function


sparse_reduce_sum, sparse_reduce_max = _reduction("SparseReduceSum", False), _reduction("SparseReduceMax", False)
sparse_reduce_sum_sparse = _reduction("SparseReduceSumSparse", True)
sparse_reduce_max_sparse = _reduction("SparseReduceMaxSparse", True)


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """softmax over the stored elements of each row."""
    sp = _sparse(sp_input)
    values = apply_op("SparseSoftmax", name, sp_indices=sp.indices, sp_values=sp.values, sp_shape=sp.dense_shape)
    return SparseTensor(sp.indices, values, sp.dense_shape)


def _extremum(op_type: str) -> Callable[..., SparseTensor]:
    def function(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
        a, b = _sparse(sp_a), _sparse(sp_b)
        indices, values = apply_op(
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


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """The tensor with a default entry in each empty row, and which rows were empty."""
    sp = _sparse(sp_input)
    default = convert_to_tensor(default_value, sp.dtype.base_dtype)
    indices, values, empty, _ = apply_op(
        "SparseFillEmptyRows",
        name,
        indices=sp.indices,
        values=sp.values,
        dense_shape=sp.dense_shape,
        default_value=default,
    )
    return SparseTensor(indices, values, sp.dense_shape), empty


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Only the values where `to_retain` is true."""
    sp = _sparse(sp_input)
    keep = convert_to_tensor(to_retain)
    where = array_ops.reshape(apply_op("Where", input=keep), [-1])
    return SparseTensor(array_ops.gather(sp.indices, where), array_ops.gather(sp.values, where), sp.dense_shape)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same entries in another (or the tightest) dense shape."""
    sp = _sparse(sp_input)
    indices, values = array_ops.identity(sp.indices), array_ops.identity(sp.values)
    if new_shape is None:
        tight = apply_op("Max", input=indices, reduction_indices=[0])
        shape = apply_op("Maximum", x=constant(0, dtypes.int64), y=tight + constant(1, dtypes.int64))
    else:
        shape = convert_to_tensor(new_shape, dtypes.int64)
    return SparseTensor(indices, values, shape)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The SparseTensor with its dimensions permuted (reversed by default)."""
    sp = _sparse(sp_input)
    with name_scope(name, "SparseTranspose"):
        if perm is None:
            rank = sp.dense_shape.shape.num_elements()
            if rank is None:
                perm = array_ops.rank(sp) - 1 - math_ops.range(array_ops.rank(sp))
            else:
                perm = np.arange(rank - 1, -1, -1, dtype=np.int32)
        indices = array_ops.transpose(array_ops.gather(array_ops.transpose(sp.indices), perm))
        return sparse_reorder(SparseTensor(indices, sp.values, array_ops.gather(sp.dense_shape, perm)))


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """A dimension of size 1 inserted at `axis`."""
    sp = _sparse(sp_input)
    rank = sp.dense_shape.shape.num_elements()
    if rank is None:
        raise ValueError("sparse_expand_dims needs a sparse tensor of known rank")
    at = -1 if axis is None else int(axis)
    at = at + rank + 1 if at < 0 else at
    with name_scope(name, "ExpandDims"):
        column = array_ops.zeros_like(sp.indices[:, :1])
        indices = array_ops.concat([sp.indices[:, :at], column, sp.indices[:, at:]], 1)
        one = constant([1], dtypes.int64)
        return SparseTensor(indices, sp.values, array_ops.concat([sp.dense_shape[:at], one, sp.dense_shape[at:]], 0))


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Tensor:
    """Which ids of 0..vocab_size-1 each row holds."""
    sp = _sparse(sp_input)
    with name_scope(name, "SparseToIndicator") as scope:
        ones = array_ops.ones_like(sp.values, dtype=dtypes.bool_)
        merged = sparse_merge(sp, SparseTensor(sp.indices, ones, sp.dense_shape), vocab_size)
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False, name=scope)


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Values placed by their ids: the last dimension becomes the vocabulary."""
    ids = [_sparse(s) for s in (sp_ids if isinstance(sp_ids, list) else [sp_ids])]
    sizes = list(vocab_size) if isinstance(vocab_size, (list, tuple)) else [vocab_size]
    values = _sparse(sp_values)
    with name_scope(name, "SparseMerge"):
        columns = [array_ops.expand_dims(math_ops.cast(s.values, dtypes.int64), 1) for s in ids]
        indices = array_ops.concat([ids[0].indices[:, :-1], *columns], 1)
        last = [array_ops.reshape(math_ops.cast(convert_to_tensor(v), dtypes.int64), [1]) for v in sizes]
        merged = SparseTensor(indices, values.values, array_ops.concat([ids[0].dense_shape[:-1], *last], 0))
        return merged if already_sorted else sparse_reorder(merged)


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The entries of a dense tensor that are not zero (not empty)."""
    with name_scope(name, "dense_to_sparse"):
        x = convert_to_tensor(tensor)
        zero = constant("" if x.dtype.base_dtype is dtypes.string else x.dtype.as_numpy_dtype(0), x.dtype.base_dtype)
        indices = apply_op("Where", input=math_ops.not_equal(x, zero))
        return SparseTensor(indices, array_ops.gather_nd(x, indices), array_ops.shape(x, out_type=dtypes.int64))


def sparse_eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """A sparse identity matrix."""
    with name_scope(name, "eye"):
        columns = num_rows if num_columns is None else num_columns
        places = np.arange(min(num_rows, columns), dtype=np.int64)
        values = array_ops.ones([len(places)], dtype)
        return SparseTensor(np.stack([places, places], axis=1), values, np.array([num_rows, columns], np.int64))


def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """An IndexedSlices without the rows named."""
    from dtfctl.runtime.framework.convert import IndexedSlices

    with name_scope(name, "sparse_mask"):
        kept, where = array_ops.setdiff1d(a.indices, mask_indices)
        return IndexedSlices(array_ops.gather(a.values, where), kept, a.dense_shape)


# --- serialization ---


def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """A SparseTensor as a vector of three serialized tensors."""
    sp = _sparse(sp_input)
    return apply_op(  # type: ignore[no-any-return]
        "SerializeSparse",
        name,
        sparse_indices=sp.indices,
        sparse_values=sp.values,
        sparse_shape=sp.dense_shape,
        out_type=out_type,
    )


def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Each row of a SparseTensor as three serialized tensors."""
    sp = _sparse(sp_input)
    return apply_op(  # type: ignore[no-any-return]
        "SerializeManySparse",
        name,
        sparse_indices=sp.indices,
        sparse_values=sp.values,
        sparse_shape=sp.dense_shape,
        out_type=out_type,
    )


def _deserialized(parts: list[Tensor], rank: int | Dimension | None) -> SparseTensor:
    indices, values, shape = parts
    size = rank.value if isinstance(rank, Dimension) else rank
    indices.set_shape([None, size])
    shape.set_shape([size])
    return SparseTensor(indices, values, shape)


def deserialize_sparse(serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None) -> SparseTensor:
    """The SparseTensor of its three serialized tensors."""
    return _deserialized(apply_op("DeserializeSparse", name, serialized_sparse=serialized_sparse, dtype=dtype), rank)


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None
) -> SparseTensor:
    """The SparseTensor of rows serialized one by one."""
    parts = apply_op("DeserializeManySparse", name, serialized_sparse=serialized_sparse, dtype=dtype)
    return _deserialized(parts, rank)


# --- sets ---


def _set_operation(operation: str, a: Any, b: Any, validate: bool) -> SparseTensor:
    a_sparse, b_sparse = hasattr(a, "dense_shape"), hasattr(b, "dense_shape")
    common: dict[str, Any] = {"set_operation": operation, "validate_indices": validate}
    if a_sparse and b_sparse:
        x, y = _sparse(a), _sparse(b)
        out = apply_op(
            "SparseToSparseSetOperation",
            set1_indices=x.indices,
            set1_values=x.values,
            set1_shape=x.dense_shape,
            set2_indices=y.indices,
            set2_values=y.values,
            set2_shape=y.dense_shape,
            **common,
        )
    elif b_sparse:
        y = _sparse(b)
        out = apply_op(
            "DenseToSparseSetOperation",
            set1=a,
            set2_indices=y.indices,
            set2_values=y.values,
            set2_shape=y.dense_shape,
            **common,
        )
    elif a_sparse:
        flipped = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
        return _set_operation(flipped, b, a, validate)
    else:
        out = apply_op("DenseToDenseSetOperation", set1=a, set2=b, **common)
    return SparseTensor(*out)


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The elements of each row of a that are in that of b."""
    return _set_operation("intersection", a, b, validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The elements in a row of a or of b."""
    return _set_operation("union", a, b, validate_indices)


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """The elements of each row of a that are not in that of b, or the other way round."""
    return _set_operation("a-b" if aminusb else "b-a", a, b, validate_indices)


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """The number of distinct elements in each row."""
    sp = _sparse(a)
    return apply_op(  # type: ignore[no-any-return]
        "SetSize",
        set_indices=sp.indices,
        set_values=sp.values,
        set_shape=sp.dense_shape,
        validate_indices=validate_indices,
    )


# --- operators ---


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


for _name, _op_type in {"__mul__": "SparseDenseCwiseMul", "__truediv__": "SparseDenseCwiseDiv"}.items():
    setattr(SparseTensor, _name, _cwise(_op_type))
SparseTensor.__rmul__ = _cwise("SparseDenseCwiseMul")  # type: ignore[attr-defined]
