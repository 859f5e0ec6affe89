"""Segment reductions: sorted, unsorted, sparse (through indices), and the sparse ones' gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision, scalar, text
from dtfctl.runtime.kernels.array.scatter import add_up, group_starts, scatter_into
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_UFUNC: dict[str, Any] = {"Sum": np.add, "Mean": np.add, "Prod": np.multiply, "Max": np.maximum, "Min": np.minimum}


def _check_sorted(ids: Any, rows: int) -> int:
    """Validate sorted segment ids; the number of segments they span.

    Raises:
        InvalidArgumentError: they are not a nonnegative, non-decreasing vector of `rows` items.
    """
    if ids.ndim != 1:
        raise InvalidArgumentError("segment_ids should be a vector.")
    if ids.shape[0] != rows:
        raise InvalidArgumentError("segment_ids should be the same size as dimension 0 of input.")
    if rows == 0:
        return 0
    count = int(ids[-1]) + 1
    if count <= 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    if int(ids[0]) < 0 or np.any(ids[1:] < ids[:-1]):
        # Segments are looked at one after the other: what is wrong with the first of them is told.
        runs = ids[group_starts(ids)]
        falls = np.append(runs[:-1] > runs[1:], False)
        first = int(np.argmax(falls | (runs < 0) | (runs >= count)))
        if falls[first]:
            raise InvalidArgumentError("segment ids are not increasing")
        raise InvalidArgumentError(
            f"Segment id {int(runs[first])} out of range [0, {count}), possibly because 'segment_ids' input is not "
            "sorted."
        )
    return count


def _check_size(count: int, inner: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError when the output would have more elements than can be counted."""
    total = count
    for size in inner:
        if total * size >= 2**63:
            raise InvalidArgumentError(f"Encountered overflow when multiplying {total} with {size}, result: -1")
        total *= size


def neutral_value(kind: str, dtype: DType) -> Any:
    """Return what an unsorted segment without members holds."""
    if kind in ("Sum", "Mean"):
        return dtype.np.type(0)
    if kind == "Prod":
        return dtype.np.type(1)
    return dtype.np.type(dtype.min if kind == "Max" else dtype.max)


def _reduce_sorted(data: Any, ids: Any, count: int, kind: str, gap: Any) -> Any:
    dtype = data.dtype
    out = np.full((count, *data.shape[1:]), gap, dtype)
    if len(ids) == 0 or data.size == 0:
        return out
    starts = group_starts(ids)
    work = data.astype(np.float32) if is_low_precision(dtype) and kind in ("Sum", "Mean", "Prod") else data
    sums = _UFUNC[kind].reduceat(work, starts, axis=0, dtype=work.dtype)
    if kind == "Mean":
        sizes = np.diff(starts, append=len(ids)).reshape(-1, *(1,) * (data.ndim - 1))
        if dtype.kind in "iu":
            sums = np.trunc(sums / sizes)
        else:
            sums = sums / sizes.astype(work.real.dtype)
    out[ids[starts]] = sums.astype(dtype, copy=False)
    return out


@register_kernel(("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"))
def _segment(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("Segment")
    gap = k.dtype("T").np.type(1 if kind == "Prod" else 0)

    def kernel(data: Any, ids: Any) -> Any:
        if data.ndim < 1:
            raise InvalidArgumentError("Shape must be at least rank 1")
        return _reduce_sorted(data, ids, _check_sorted(ids, data.shape[0]), kind, gap)

    return kernel


@register_kernel(("SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2"))
def _segment_v2(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("Segment").removesuffix("V2")
    gap = neutral_value(kind, k.dtype("T"))

    def kernel(data: Any, ids: Any, num_segments: Any) -> Any:
        if data.ndim < 1:
            raise InvalidArgumentError("Shape must be at least rank 1")
        need, count = _check_sorted(ids, data.shape[0]), scalar(num_segments, "num_segments")
        if count < 0:
            raise InvalidArgumentError(f"Input num_segments == {count} must not be negative.")
        if need > count:
            raise InvalidArgumentError("segment ids must be < num_segments")
        return _reduce_sorted(data, ids, count, kind, gap)

    return kernel


@register_kernel(("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"))
def _unsorted_segment(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("UnsortedSegment")
    neutral, ufunc = neutral_value(kind, k.dtype("T")), _UFUNC[kind]

    def kernel(data: Any, ids: Any, num_segments: Any) -> Any:
        if num_segments.ndim != 0:
            raise InvalidArgumentError(f"num_segments should be a scalar, not shape {text(num_segments.shape)}")
        count = int(num_segments)
        if data.shape[: ids.ndim] != ids.shape:
            raise InvalidArgumentError(
                f"data.shape = {text(data.shape)} does not start with segment_ids.shape = {text(ids.shape)}"
            )
        if count < 0:
            raise InvalidArgumentError(f"Input num_segments == {count} must not be negative.")
        inner = data.shape[ids.ndim :]
        _check_size(count, inner)
        out = np.full((count, *inner), neutral, data.dtype)
        if data.size == 0:
            return out
        flat = ids.reshape(-1)
        rows = data.reshape(flat.shape[0], *inner)
        if flat.min() < 0:
            kept = flat >= 0
            flat, rows = flat[kept], rows[kept]
        if flat.size and flat.max() >= count:
            where = int(np.flatnonzero(ids.reshape(-1) >= count)[0])
            position = ",".join(map(str, np.unravel_index(where, ids.shape)))
            raise InvalidArgumentError(
                f"segment_ids[{position}] = {int(ids.reshape(-1)[where])} is out of range [0, {count})"
            )
        if ufunc is np.add and out.dtype in (np.float32, np.float64) and count <= 16 * flat.size:
            return add_up(flat, rows, count)
        return scatter_into(out, flat, rows, ufunc)

    return kernel


def _sparse_checks(data: Any, indices: Any, ids: Any) -> None:
    if indices.ndim != 1:
        raise InvalidArgumentError("indices should be a vector.")
    if ids.ndim != 1:
        raise InvalidArgumentError("segment_ids should be a vector.")
    if indices.shape != ids.shape:
        raise InvalidArgumentError("segment_ids and indices should have same size.")
    if data.ndim < 1:
        raise InvalidArgumentError("Shape must be at least rank 1")


_SPARSE = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")


@register_kernel(_SPARSE + tuple(f"{op}WithNumSegments" for op in _SPARSE))
def _sparse_segment(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    zero = k.dtype("T").np.type(0)

    def kernel(data: Any, indices: Any, ids: Any, num_segments: Any = None) -> Any:
        _sparse_checks(data, indices, ids)
        count = _check_sorted(ids, indices.shape[0])
        if num_segments is not None:
            if num_segments.ndim != 0:
                raise InvalidArgumentError(f"num_segments should be a scalar, not shape {text(num_segments.shape)}")
            wanted = int(num_segments)
            if wanted < count:
                raise InvalidArgumentError("segment ids must be < num_segments")
            count = wanted
        _check_size(count, data.shape[1:])
        limit = data.shape[0]
        if indices.size and (indices.min() < 0 or indices.max() >= limit):
            where = int(np.flatnonzero((indices < 0) | (indices >= limit))[0])
            raise InvalidArgumentError(f"Bad: indices[{where}] == {int(indices[where])} out of range [0, {limit})")
        rows = data[indices]
        if kind == "SqrtN" and len(ids):
            low = is_low_precision(data.dtype)
            sums = _reduce_sorted(rows.astype(np.float32) if low else rows, ids, count, "Sum", 0)
            sizes = np.sqrt(np.bincount(ids, minlength=count).clip(1)).astype(sums.dtype)
            return (sums / sizes.reshape(-1, *(1,) * (data.ndim - 1))).astype(data.dtype)
        return _reduce_sorted(rows, ids, count, "Sum" if kind == "SqrtN" else kind, zero)

    return kernel


def _check_grad(kind: str, grad: Any, indices: Any, ids: Any, rows: int) -> None:
    """Raise InvalidArgumentError for the first id or index that leads nowhere."""
    count = grad.shape[0]
    if int(ids[-1]) + 1 > count:
        raise InvalidArgumentError("Invalid number of segments")
    no_segment = np.flatnonzero((ids < 0) | (ids >= count))
    no_row = np.flatnonzero((indices < 0) | (indices >= rows))
    if no_segment.size and (kind != "Sum" or not no_row.size or no_segment[0] < no_row[0]):
        raise InvalidArgumentError(f"Segment id {int(ids[no_segment[0]])} out of range [0, {count}).")
    if no_row.size:
        raise InvalidArgumentError(f"Index {int(indices[no_row[0]])} out of range [0, {rows}).")


def _spread(kind: str, grad: Any, ids: Any) -> Any:
    """Give each index its share of its segment's gradient, in float32 for the low precision types."""
    if is_low_precision(grad.dtype):
        grad = grad.astype(np.float32)
    if kind != "Sum":
        sizes = np.bincount(ids, minlength=grad.shape[0]).clip(1).astype(np.float64)
        scale = (1.0 / sizes if kind == "Mean" else 1.0 / np.sqrt(sizes)).astype(grad.dtype)
        grad = grad * scale.reshape(-1, *(1,) * (grad.ndim - 1))
    return grad[ids]


@register_kernel(tuple(f"{op}Grad" for op in _SPARSE))
def _sparse_segment_grad(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("SparseSegment").removesuffix("Grad")

    def kernel(grad: Any, indices: Any, ids: Any, output_dim0: Any) -> Any:
        _sparse_checks(grad, indices, ids)
        if output_dim0.ndim != 0:
            raise InvalidArgumentError("output_dim0 should be a scalar.")
        rows = int(output_dim0)
        if len(ids) == 0:
            return np.zeros((rows, *grad.shape[1:]), grad.dtype)
        _check_grad(kind, grad, indices, ids, rows)
        shares = _spread(kind, grad, ids)
        out = np.zeros((rows, *grad.shape[1:]), shares.dtype)
        return scatter_into(out, indices, shares, np.add).astype(grad.dtype, copy=False)

    return kernel


@register_kernel(tuple(f"{op}GradV2" for op in _SPARSE))
def _sparse_segment_grad_v2(k: KernelBuild) -> Kernel:
    kind = k.node.op.removeprefix("SparseSegment").removesuffix("GradV2")

    def kernel(grad: Any, indices: Any, ids: Any, dense_output_dim0: Any) -> Any:
        _sparse_checks(grad, indices, ids)
        rows = scalar(dense_output_dim0, "dense_output_dim0")
        if len(ids) == 0:
            return np.zeros((0, *grad.shape[1:]), grad.dtype), np.zeros(0, indices.dtype)
        _check_grad(kind, grad, indices, ids, rows)
        shares = _spread(kind, grad, ids)
        unique, position = np.unique(indices, return_inverse=True)
        out = np.zeros((len(unique), *grad.shape[1:]), shares.dtype)
        return scatter_into(out, position.reshape(-1), shares, np.add).astype(grad.dtype, copy=False), unique

    return kernel
