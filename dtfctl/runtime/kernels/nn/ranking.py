"""The largest elements: TopK, InTopK, NthElement, and isotonic regression (topk_op, in_topk_op, nth_element_op)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import shape_text
from dtfctl.runtime.kernels.pieces import each
from dtfctl.runtime.kernels.registry import FLOATS, INDICES, REALS, Kernel, KernelBuild, register_kernel

# Rows longer than this are cut to the candidates by a partition before they are sorted.
_SORT_WHOLE = 1 << 11


def _descending(x: Any) -> Any:
    """Order of the last axis from the largest down, the first of equals first."""
    reversed_order = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return x.shape[-1] - 1 - reversed_order


def top_k(x: Any, count: int) -> tuple[Any, Any]:
    """Values and int64 positions of the `count` largest along the last axis."""
    size = x.shape[-1]
    lead = x.shape[:-1]
    if count == 0 or x.size == 0:
        return np.zeros((*lead, count), x.dtype), np.zeros((*lead, count), np.int64)
    if count == 1:
        index = x.argmax(axis=-1)[..., None]
    elif size <= _SORT_WHOLE or count * 4 > size:
        index = _descending(x)[..., :count]
    else:
        rows = x.reshape(-1, size)
        index = np.empty((rows.shape[0], count), np.int64)
        for i, row in enumerate(rows):
            threshold = np.partition(row, size - count)[size - count]
            candidates = np.flatnonzero(~(row < threshold))
            index[i] = candidates[_descending(row[candidates])[:count]]
        index = index.reshape(*lead, count)
    return np.take_along_axis(x, index, axis=-1), index


def _checked(x: Any, count: int) -> None:
    if count < 0:
        raise InvalidArgumentError(f"Need k >= 0, got {count}")
    if x.ndim < 1:
        raise InvalidArgumentError(f"input must be >= 1-D, got shape {shape_text(x.shape)}")
    if x.shape[-1] < count:
        raise InvalidArgumentError(f"input must have at least k columns. Had {x.shape[-1]}, needed {count}")


@register_kernel("TopK", T=REALS)
def top_k_v1(k: KernelBuild) -> Kernel:
    count = k.attr("k")

    def kernel(x: Any) -> tuple[Any, Any]:
        _checked(x, count)
        values, index = top_k(x, count)
        return values, index.astype(np.int32)

    return kernel


@register_kernel("TopKV2", T=REALS)
def top_k_v2(k: KernelBuild) -> Kernel:
    index_type = k.dtype("index_type").np

    def kernel(x: Any, wanted: Any) -> tuple[Any, Any]:
        if wanted.ndim:
            raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(wanted.shape)}")
        _checked(x, int(wanted))
        values, index = top_k(x, int(wanted))
        return values, index.astype(index_type)

    return kernel


@register_kernel("ApproxTopK", T=(dtypes.bfloat16, dtypes.float16, dtypes.float32))
def approx_top_k(k: KernelBuild) -> Kernel:
    """Exact here, which any recall target allows."""
    count, axis, largest = k.attr("k"), k.attr("reduction_dimension", -1), k.attr("is_max_k", True)

    def kernel(x: Any) -> tuple[Any, Any]:
        rows = np.moveaxis(x, axis, -1)
        _checked(rows, count)
        values, index = top_k(rows if largest else -rows, count)
        values = values if largest else -values
        return np.moveaxis(values, -1, axis), np.moveaxis(index.astype(np.int32), -1, axis)

    return kernel


def _in_top_k(predictions: Any, targets: Any, count: int) -> Any:
    if predictions.ndim != 2:
        raise InvalidArgumentError("predictions must be 2-dimensional")
    if targets.ndim != 1:
        raise InvalidArgumentError("targets must be 1-dimensional")
    if predictions.shape[0] != targets.shape[0]:
        raise InvalidArgumentError(
            f"First dimension of predictions {predictions.shape[0]} must match length of targets {targets.shape[0]}"
        )
    batch, classes = predictions.shape
    if not batch or not classes:
        return np.zeros(batch, bool)
    inside = (targets >= 0) & (targets < classes)
    own = predictions[np.arange(batch), np.where(inside, targets, 0)]
    finite = np.isfinite(predictions).all(axis=1)
    better = (predictions > own[:, None]).sum(axis=1)
    return inside & finite & (better < count)


@register_kernel("InTopK", T=INDICES)
def in_top_k(k: KernelBuild) -> Kernel:
    count = k.attr("k")
    return lambda predictions, targets: _in_top_k(predictions, targets, count)


@register_kernel("InTopKV2", T=INDICES)
def in_top_k_v2(k: KernelBuild) -> Kernel:
    def kernel(predictions: Any, targets: Any, count: Any) -> Any:
        if count.ndim:
            raise InvalidArgumentError(f"k must be 0-D, got shape {shape_text(count.shape)}")
        return _in_top_k(predictions, targets, int(count))

    return kernel


@register_kernel("NthElement", T=REALS)
def nth_element(k: KernelBuild) -> Kernel:
    reverse = k.attr("reverse", False)

    def kernel(x: Any, n: Any) -> Any:
        if n.ndim:
            raise InvalidArgumentError(f"N must be scalar but has rank {n.ndim}")
        position = int(n)
        if position < 0:
            raise InvalidArgumentError(f"n must be non-negative but is {position}")
        if x.ndim < 1:
            raise InvalidArgumentError("Input must be at least rank 1 but is rank 0")
        if x.shape[-1] <= position:
            raise InvalidArgumentError(f"Input must have last dimension > n = {position}")
        at = x.shape[-1] - 1 - position if reverse else position
        return np.array(np.partition(x, at, axis=-1)[..., at])

    return kernel


@register_kernel("IsotonicRegression", pieces=True, T=REALS, output_dtype=FLOATS)
def isotonic_regression(k: KernelBuild) -> Kernel:
    """Nonincreasing least-squares fit of each row, by pooling adjacent violators."""
    dtype = k.dtype("output_dtype").np

    def kernel(x: Any) -> tuple[Any, Any]:
        if x.ndim != 2:
            raise InvalidArgumentError("IsotonicRegression expects a matrix")
        out = np.empty(x.shape, np.float64)
        segments = np.empty(x.shape, np.int32)
        for i, row in enumerate(x.astype(np.float64)):
            sums: list[float] = []
            sizes: list[int] = []
            for value in each(row):
                total, size = value, 1
                while sums and sums[-1] * size < total * sizes[-1]:
                    total += sums.pop()
                    size += sizes.pop()
                sums.append(total)
                sizes.append(size)
            out[i] = np.repeat(np.array(sums) / np.array(sizes), sizes) if sums else 0
            segments[i] = np.repeat(np.arange(len(sizes)), sizes)
        return out.astype(dtype), segments

    return kernel
