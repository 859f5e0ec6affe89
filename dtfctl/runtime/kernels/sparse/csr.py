"""Sparse matrices in compressed rows, alone or in a batch: they travel as one variant."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, object_scalar, register_variant
from dtfctl.runtime.kernels.array.common import ints, text
from dtfctl.runtime.kernels.pieces import repeat, update_at
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse.common import in_bounds, validate

TYPE_NAME = "tensorflow::CSRSparseMatrix"
_TYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
# A bool, padded, and the type's number.
_METADATA = struct.Struct("<?3xi")


@dataclass(frozen=True, eq=False)
class CsrMatrix:
    """Matrices [rows, columns], or a batch [batch, rows, columns] of them.

    Attributes:
        batch_pointers: int32 [batch + 1], where each matrix's values start.
        row_pointers: int32 [batch * (rows + 1)], where each row's values start, counted from its matrix's.
        columns, values: int32 and T [number of values].
    """

    dense_shape: tuple[int, ...]
    batch_pointers: Any
    row_pointers: Any
    columns: Any
    values: Any

    @property
    def dtype(self) -> DType:
        return dtypes.as_dtype(self.values.dtype)

    @property
    def batch(self) -> int:
        return self.dense_shape[0] if len(self.dense_shape) == 3 else 1

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of one matrix."""
        return self.dense_shape[-2], self.dense_shape[-1]

    def indices(self) -> Any:
        """int64 [number of values, 3]: batch, row and column of each value."""
        rows = self.size[0]
        counts = np.diff(self.row_pointers.reshape(self.batch, rows + 1).astype(np.int64), axis=1).reshape(-1)
        where = repeat(np.arange(self.batch * rows), counts)
        return np.stack([where // max(rows, 1), where % max(rows, 1), self.columns.astype(np.int64)], axis=1)

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        metadata = _METADATA.pack(True, int(self.dtype.as_datatype_enum))
        proto = tensor_pb2.VariantTensorDataProto(type_name=TYPE_NAME, metadata=metadata)
        parts = (self.batch_pointers, self.row_pointers, self.columns, self.values)
        proto.tensors.extend(encode_tensor(p) for p in (np.array(self.dense_shape, np.int64), *parts))
        return proto

    def conjugate_variant(self) -> CsrMatrix:
        return replace(self, values=self.values.conj())

    def zeros_like_variant(self) -> CsrMatrix:
        none = np.zeros(0, np.int32)
        pointers = np.zeros_like(self.batch_pointers), np.zeros_like(self.row_pointers)
        return CsrMatrix(self.dense_shape, *pointers, none, np.zeros(0, self.values.dtype))

    def add_variant(self, other: Any) -> CsrMatrix:
        """Add another matrix, for AddN.

        Raises:
            InvalidArgumentError: `other` is no matrix of the same shape and type.
        """
        if not isinstance(other, CsrMatrix) or other.dtype is not self.dtype or other.dense_shape != self.dense_shape:
            raise InvalidArgumentError("Only sparse matrices of one type and shape can be added")
        indices = np.concatenate([self.indices(), other.indices()])
        return _summed(indices, np.concatenate([self.values, other.values]), self.dense_shape)


def _decode(proto: tensor_pb2.VariantTensorDataProto) -> CsrMatrix:
    if len(proto.tensors) != 5:
        raise InvalidArgumentError(f"A CSRSparseMatrix has 5 tensors, not {len(proto.tensors)}")
    shape, *parts = (decode_tensor(t) for t in proto.tensors)
    if shape.ndim != 1 or any(p.ndim != 1 for p in parts):
        raise InvalidArgumentError("The parts of a CSRSparseMatrix must be vectors")
    matrix = CsrMatrix(ints(shape), *parts)
    _validate(matrix)
    return matrix


def _validate(matrix: CsrMatrix) -> None:
    """Raise InvalidArgumentError unless the pointers lead to existing values."""
    rank, count = len(matrix.dense_shape), len(matrix.values)
    if rank not in (2, 3) or min(matrix.dense_shape) < 0:
        raise InvalidArgumentError(f"A CSRSparseMatrix has rank 2 or 3, not shape {text(matrix.dense_shape)}")
    rows, columns = matrix.size
    batches, starts = matrix.batch_pointers, matrix.row_pointers
    fits = len(batches) == matrix.batch + 1 and len(starts) == matrix.batch * (rows + 1)
    fits = fits and len(matrix.columns) == count and batches[0] == 0 and batches[-1] == count
    if fits:
        table = starts.reshape(matrix.batch, rows + 1)
        fits = bool((np.diff(table, axis=1) >= 0).all() and (table[:, 0] == 0).all())
        fits = fits and bool((table[:, -1] == np.diff(batches)).all())
    if not fits or (count and (matrix.columns.min() < 0 or matrix.columns.max() >= columns)):
        raise InvalidArgumentError("Malformed CSRSparseMatrix: its pointers do not fit its values")


register_variant(TYPE_NAME, _decode)


def _from_indices(indices: Any, values: Any, dense_shape: tuple[int, ...]) -> CsrMatrix:
    """Make a matrix from [n, 3] indices in row-major order."""
    rows = dense_shape[-2]
    batch = dense_shape[0] if len(dense_shape) == 3 else 1
    counts = np.bincount(indices[:, 0] * rows + indices[:, 1], minlength=batch * rows).reshape(batch, rows)
    starts = np.zeros((batch, rows + 1), np.int32)
    np.cumsum(counts, axis=1, out=starts[:, 1:])
    batches = np.zeros(batch + 1, np.int32)
    np.cumsum(counts.sum(axis=1), out=batches[1:])
    return CsrMatrix(dense_shape, batches, starts.reshape(-1), indices[:, 2].astype(np.int32), values)


def _sorted(indices: Any, values: Any, dense_shape: tuple[int, ...]) -> CsrMatrix:
    order = np.lexsort((indices[:, 2], indices[:, 1], indices[:, 0]))
    return _from_indices(indices[order], values[order], dense_shape)


def _summed(indices: Any, values: Any, dense_shape: tuple[int, ...]) -> CsrMatrix:
    """Make a matrix from [n, 3] indices in any order; values at one place are added."""
    rows, columns = dense_shape[-2:]
    flat = (indices[:, 0] * rows + indices[:, 1]) * columns + indices[:, 2]
    places, which = np.unique(flat, return_inverse=True)
    total = np.zeros(len(places), values.dtype)
    update_at(np.add, total, which, values)
    unique = np.stack([places // max(rows * columns, 1), places // max(columns, 1) % max(rows, 1)], axis=1)
    unique = np.concatenate([unique, (places % max(columns, 1))[:, None]], axis=1)
    return _from_indices(unique, total, dense_shape)


def _batched(indices: Any) -> Any:
    """[n, 2] or [n, 3] indices with a batch column."""
    if indices.shape[1] == 3:
        return indices
    return np.concatenate([np.zeros((len(indices), 1), indices.dtype), indices], axis=1)


def _matrix(value: Any, what: str = "input") -> CsrMatrix:
    held = value.item() if getattr(value, "ndim", 1) == 0 else None
    if not isinstance(held, CsrMatrix):
        raise InvalidArgumentError(f"Could not retrieve CSR matrix from {what}: it is no CSRSparseMatrix")
    return held


def _of_type(value: Any, wanted: DType, what: str = "input") -> CsrMatrix:
    matrix = _matrix(value, what)
    if matrix.dtype is not wanted:
        raise InvalidArgumentError(f"dtype of {what} is not equal to 'type': {matrix.dtype.name} vs. {wanted.name}")
    return matrix


@register_kernel("DenseToCSRSparseMatrix", T=_TYPES)
def _dense_to_csr(k: KernelBuild) -> Kernel:
    def kernel(dense: Any, indices: Any) -> Any:
        if dense.ndim not in (2, 3):
            raise InvalidArgumentError(f"params must have rank == 2 or 3; but saw shape: {text(dense.shape)}")
        if indices.ndim != 2:
            raise InvalidArgumentError(f"indices must be a matrix, but saw shape: {text(indices.shape)}")
        if indices.shape[1] != dense.ndim:
            raise InvalidArgumentError(
                f"indices.shape[1] must be equal to the rank of params, but saw: {indices.shape[1]} vs. {dense.ndim}"
            )
        in_bounds(indices, dense.shape)
        return object_scalar(_from_indices(_batched(indices), dense[tuple(indices.T)], dense.shape))

    return kernel


@register_kernel("SparseTensorToCSRSparseMatrix", T=_TYPES)
def _coo_to_csr(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, dense_shape: Any) -> Any:
        dims = validate(indices, values, dense_shape)
        if len(dims) not in (2, 3):
            raise InvalidArgumentError(f"SparseTensor must have rank 2 or 3; but indices has rank: {len(dims)}")
        return object_scalar(_from_indices(_batched(indices), values, dims))

    return kernel


@register_kernel("CSRSparseMatrixToSparseTensor", type=_TYPES)
def _csr_to_coo(k: KernelBuild) -> Kernel:
    dtype = k.dtype("type")

    def kernel(value: Any) -> Any:
        matrix = _of_type(value, dtype)
        rank = len(matrix.dense_shape)
        return matrix.indices()[:, 3 - rank :], matrix.values, np.array(matrix.dense_shape, np.int64)

    return kernel


@register_kernel("CSRSparseMatrixToDense", type=_TYPES)
def _csr_to_dense(k: KernelBuild) -> Kernel:
    dtype = k.dtype("type")

    def kernel(value: Any) -> Any:
        matrix = _matrix(value)
        if matrix.dtype is not dtype:
            raise InvalidArgumentError(
                f"Asked for a CSRSparseMatrix of type {dtype.name} but saw dtype: {matrix.dtype.name}"
            )
        return _dense(matrix)

    return kernel


def _dense(matrix: CsrMatrix) -> Any:
    out = np.zeros((matrix.batch, *matrix.size), matrix.values.dtype)
    out[tuple(matrix.indices().T)] = matrix.values
    return out.reshape(matrix.dense_shape)


@register_kernel("CSRSparseMatrixComponents", type=_TYPES)
def _components(k: KernelBuild) -> Kernel:
    dtype = k.dtype("type")

    def kernel(value: Any, index: Any) -> Any:
        matrix = _of_type(value, dtype)
        if index.ndim:
            raise InvalidArgumentError(f"index should be a scalar, but saw: shape {text(index.shape)}")
        at, rows = int(index), matrix.size[0]
        if not 0 <= at < matrix.batch:
            raise InvalidArgumentError(f"index ({at}) not in [0, {matrix.batch})")
        low, high = (int(p) for p in matrix.batch_pointers[at : at + 2])
        pointers = matrix.row_pointers[at * (rows + 1) : (at + 1) * (rows + 1)]
        return pointers, matrix.columns[low:high], matrix.values[low:high]

    return kernel


@register_kernel("SparseMatrixNNZ")
def _count(k: KernelBuild) -> Kernel:
    def kernel(value: Any) -> Any:
        matrix = _matrix(value)
        counts = np.diff(matrix.batch_pointers)
        return counts if len(matrix.dense_shape) == 3 else counts[0]

    return kernel


def _transposed(matrix: CsrMatrix, conjugate: bool) -> CsrMatrix:
    values = matrix.values.conj() if conjugate else matrix.values
    *batch, rows, columns = matrix.dense_shape
    return _sorted(matrix.indices()[:, [0, 2, 1]], values, (*batch, columns, rows))


@register_kernel("SparseMatrixTranspose", type=_TYPES)
def _transpose(k: KernelBuild) -> Kernel:
    dtype, conjugate = k.dtype("type"), bool(k.attr("conjugate"))
    return lambda value: object_scalar(_transposed(_of_type(value, dtype), conjugate))


def _flags(k: KernelBuild, side: str) -> tuple[bool, bool]:
    """Read whether an operand is transposed, and conjugated."""
    transpose, adjoint = bool(k.attr(f"transpose_{side}")), bool(k.attr(f"adjoint_{side}"))
    if transpose and adjoint:
        raise InvalidArgumentError(f"Only one of adjoint_{side} and transpose_{side} may be true.", k.node.name)
    return transpose or adjoint, adjoint


@register_kernel("SparseMatrixMatMul", T=_TYPES)
def _times_dense(k: KernelBuild) -> Kernel:
    turn_a, conjugate_a = _flags(k, "a")
    turn_b, conjugate_b = _flags(k, "b")
    turn_out, conjugate_out = bool(k.attr("transpose_output")), bool(k.attr("conjugate_output"))
    dtype = k.dtype("T")

    def kernel(value: Any, b: Any) -> Any:
        a = _matrix(value, "a")
        if a.dtype is not dtype:
            raise InvalidArgumentError(
                f"Input types don't match.  a.dtype == {a.dtype.name} vs. b.dtype == {dtype.name}"
            )
        if b.ndim != len(a.dense_shape):
            raise InvalidArgumentError(f"Ranks of a and b must match, saw: {len(a.dense_shape)} vs. {b.ndim}.")
        if b.ndim == 3 and b.shape[0] != a.batch:
            raise InvalidArgumentError(f"Batch sizes of a and b must match, saw: {a.batch} vs. {b.shape[0]}")
        b = b.swapaxes(-1, -2) if turn_b else b
        b = b.conj() if conjugate_b else b
        rows, inner = a.size[::-1] if turn_a else a.size
        if inner != b.shape[-2]:
            raise InvalidArgumentError(
                "Inner product dimensions of A and B do not agree.  Shapes are: "
                f"{text(a.dense_shape)} vs. {text(b.shape)}"
            )
        out = _product(_transposed(a, conjugate_a) if turn_a else a, b.reshape(a.batch, inner, b.shape[-1]), rows)
        out = out.swapaxes(1, 2) if turn_out else out
        out = out.conj() if conjugate_out else out
        return np.ascontiguousarray(out.reshape(out.shape[3 - b.ndim :]))

    return kernel


def _product(a: CsrMatrix, b: Any, rows: int) -> Any:
    """[batch, rows, columns of b]: sums over each row's values at once."""
    out = np.zeros((a.batch * rows, b.shape[2]), b.dtype)
    if len(a.values):
        indices = a.indices()
        terms = a.values[:, None] * b[indices[:, 0], indices[:, 2]]
        at = indices[:, 0] * rows + indices[:, 1]
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        out[at[starts]] = np.add.reduceat(terms, starts, axis=0)
    return out.reshape(a.batch, rows, b.shape[2])


@register_kernel("SparseMatrixSparseMatMul", type=_TYPES)
def _times_sparse(k: KernelBuild) -> Kernel:
    turn_a, conjugate_a = _flags(k, "a")
    turn_b, conjugate_b = _flags(k, "b")
    dtype = k.dtype("type")

    def kernel(left: Any, right: Any) -> Any:
        a, b = _of_type(left, dtype, "a"), _of_type(right, dtype, "b")
        if a.batch != b.batch:
            raise InvalidArgumentError(
                f"Batch sizes of A and B are not compatible.  Batch sizes are: {a.batch} vs. {b.batch}"
            )
        a = _transposed(a, conjugate_a) if turn_a else a
        b = _transposed(b, conjugate_b) if turn_b else b
        if a.size[1] != b.size[0]:
            raise InvalidArgumentError(
                "Inner product dimensions of A and B do not agree.  Shapes are: "
                f"{text(a.dense_shape)} vs. {text(b.dense_shape)}"
            )
        return object_scalar(_sparse_product(a, b))

    return kernel


def _sparse_product(a: CsrMatrix, b: CsrMatrix) -> CsrMatrix:
    """Multiply sparse matrices: each value of `a` meets the whole row of `b` its column names."""
    indices, rows = a.indices(), b.size[0]
    first = indices[:, 0] * (rows + 1) + indices[:, 2]
    low = b.row_pointers[first].astype(np.int64)
    counts = b.row_pointers[first + 1] - low
    low += b.batch_pointers[indices[:, 0]]
    mine = repeat(np.arange(len(indices)), counts)
    theirs = np.arange(len(mine)) - repeat(np.cumsum(counts) - counts, counts) + repeat(low, counts)
    places = np.stack([indices[mine, 0], indices[mine, 1], b.columns[theirs].astype(np.int64)], axis=1)
    shape = (*a.dense_shape[:-1], b.size[1])
    return _summed(places, a.values[mine] * b.values[theirs], shape)
