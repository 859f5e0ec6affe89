"""Ranges, bins and histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import scalar, text
from dtfctl.runtime.kernels.pieces import repeat, update_at
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.result_sizes.values import SOBOL_MOST


def _range_scalar(value: Any, name: str) -> Any:
    """Unpack a tensor of one item; vectors of length 1 are taken too, as TensorFlow does."""
    if value.ndim > 1 or value.size != 1:
        raise InvalidArgumentError(f"{name} must be a scalar, not shape {text(value.shape)}")
    return value.reshape(())[()]


@register_kernel("Range")
def _range(k: KernelBuild) -> Kernel:
    dtype = k.dtype("Tidx").np
    is_integer = dtype.kind in "iu"

    def kernel(start: Any, limit: Any, delta: Any) -> Any:
        first, end, step = (_range_scalar(v, n) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
        if step == 0:
            raise InvalidArgumentError(f"Requires delta != 0: {step:g}")
        if step > 0 and not first <= end:
            raise InvalidArgumentError(f"Requires start <= limit when delta > 0: {first:g}/{end:g}")
        if step < 0 and not first >= end:
            raise InvalidArgumentError(f"Requires start >= limit when delta < 0: {first:g}/{end:g}")
        if is_integer:
            return np.arange(int(first), int(end), int(step), dtype=dtype)
        size = float(np.abs((end - first) / step))
        if not size < 2**62:
            raise InvalidArgumentError(f"Requires ((limit - start) / delta) <= {2**63 - 1}")
        steps = np.arange(math.ceil(size))
        return (first + steps.astype(dtype) * step).astype(dtype)

    return kernel


@register_kernel("LinSpace")
def _linspace(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def kernel(start: Any, stop: Any, num: Any) -> Any:
        for value, name in ((start, "start"), (stop, "stop"), (num, "num")):
            if value.ndim != 0:
                raise InvalidArgumentError(f"{name} must be a scalar, not shape {text(value.shape)}")
        count = int(num)
        if count <= 0:
            raise InvalidArgumentError(f"Requires num > 0: {count}")
        out = np.full(count, start, dtype)
        if count > 1:
            step = ((stop - start) / dtype.type(count - 1)).astype(dtype)
            out += np.arange(count).astype(dtype) * step
            out[-1] = stop
        return out

    return kernel


@register_kernel("Bucketize")
def _bucketize(k: KernelBuild) -> Kernel:
    boundaries = np.array(k.attr("boundaries") or (), np.float32)
    if np.any(boundaries[1:] < boundaries[:-1]):
        raise InvalidArgumentError("Expected sorted boundaries", k.node.name)
    return lambda x: np.searchsorted(boundaries, x, side="right").astype(np.int32)


@register_kernel("HistogramFixedWidth")
def _histogram_fixed_width(k: KernelBuild) -> Kernel:
    out = k.dtype("dtype").np

    def kernel(values: Any, value_range: Any, nbins: Any) -> Any:
        if value_range.ndim != 1:
            raise InvalidArgumentError("value_range should be a vector.")
        if value_range.size != 2:
            raise InvalidArgumentError("value_range should be a vector of 2 elements.")
        if nbins.ndim != 0:
            raise InvalidArgumentError("nbins should be a scalar.")
        low, high = value_range
        bins = int(nbins)
        if not low < high:
            raise InvalidArgumentError(
                f"value_range should satisfy value_range[0] < value_range[1], but got '[{low}, {high}]'"
            )
        if bins <= 0:
            raise InvalidArgumentError(f"nbins should be a positive number, but got '{bins}'")
        flat = values.reshape(-1)
        if bins == 1:
            return np.array([flat.size], out)
        if flat.dtype.kind == "f" and np.isnan(flat).any():
            raise InvalidArgumentError("Histogram values must not contain NaN")
        step = float(high) / bins - float(low) / bins
        clipped = np.minimum(np.maximum(flat, low), high).astype(np.float64)
        index = np.minimum((clipped - float(low)) / step, bins - 1).astype(np.int32)
        return np.bincount(index, minlength=bins).astype(out)

    return kernel


def counts(values: Any, size: int, weights: Any | None, binary: bool, dtype: Any) -> Any:
    """Count how often (or with what total weight) each of 0..size-1 occurs; larger values are ignored."""
    kept = values < size
    chosen = values[kept]
    if binary:
        out = np.zeros(size, dtype)
        out[chosen] = 1
        return out
    if weights is None:
        return np.bincount(chosen, minlength=size).astype(dtype)
    w = weights[kept]
    if dtype.kind == "i":
        out = np.zeros(size, dtype)
        update_at(np.add, out, chosen, w)
        return out
    return np.bincount(chosen, w, minlength=size).astype(dtype)


def _size_of(size: Any, ranked: bool = False) -> int:
    if ranked and size.ndim:
        raise InvalidArgumentError(f"Shape must be rank 0 but is rank {size.ndim}")
    value = int(scalar(size, "size")) if size.ndim == 0 else -1
    if size.ndim != 0:
        raise InvalidArgumentError(f"size must be a scalar, but got shape {text(size.shape)}")
    if value < 0:
        raise InvalidArgumentError(f"size ({value}) must be non-negative")
    return value


def _check_weights(values: Any, weights: Any, what: str) -> Any | None:
    if weights.size == 0 and not (values.shape == weights.shape and values.size == 0):
        return None
    if weights.shape != values.shape:
        raise InvalidArgumentError(
            f"`weights` must be the same shape as `{what}` or a length-0 `Tensor`, in which case it acts as all "
            f"weights equal to 1. Received {text(weights.shape)}"
        )
    return weights


def _nonnegative(values: Any, name: str) -> None:
    if values.size and values.min() < 0:
        raise InvalidArgumentError(f"Input {name} must be non-negative!")


@register_kernel("Bincount", pieces=True)
def _bincount(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def kernel(arr: Any, size: Any, weights: Any) -> Any:
        bins = _size_of(size)
        _nonnegative(arr, "arr")
        if weights.size and weights.size != arr.size:
            raise InvalidArgumentError("Input indices and weights must have the same size.")
        chosen = weights if weights.size else None
        return counts(arr.reshape(-1), bins, None if chosen is None else chosen.reshape(-1), False, dtype)

    return kernel


@register_kernel("DenseBincount", pieces=True)
def _dense_bincount(k: KernelBuild) -> Kernel:
    dtype, binary = k.dtype("T").np, bool(k.attr("binary_output"))

    def kernel(values: Any, size: Any, weights: Any) -> Any:
        if values.ndim > 2:
            raise InvalidArgumentError("Shape must be at most rank 2 but is rank " + str(values.ndim))
        bins = _size_of(size)
        _nonnegative(values, "arr")
        chosen = _check_weights(values, weights, "arr")
        if values.ndim < 2:
            return counts(values.reshape(-1), bins, None if chosen is None else chosen.reshape(-1), binary, dtype)
        rows = repeat(np.arange(values.shape[0]), values.shape[1])
        return _row_counts(
            rows,
            values.reshape(-1),
            values.shape[0],
            bins,
            None if chosen is None else chosen.reshape(-1),
            binary,
            dtype,
        )

    return kernel


def _row_counts(rows: Any, values: Any, height: int, bins: int, weights: Any | None, binary: bool, dtype: Any) -> Any:
    kept = values < bins
    place = rows[kept] * bins + values[kept]
    flat = counts(place, height * bins, None if weights is None else weights[kept], binary, dtype)
    return flat.reshape(height, bins)


def _check_places(indices: Any, values: Any, dense_shape: Any) -> None:
    if indices.ndim != 2 or values.ndim != 1 or dense_shape.ndim != 1 or indices.shape[0] != values.shape[0]:
        raise InvalidArgumentError(
            "Expected indices as a matrix, values and dense_shape as vectors and as many indices as values, got "
            f"{text(indices.shape)}, {text(values.shape)} and {text(dense_shape.shape)}"
        )
    if indices.shape[1] != dense_shape.shape[0]:
        raise InvalidArgumentError(
            f"Dimension 1 of indices is {indices.shape[1]}, but dense_shape has {dense_shape.shape[0]} dimensions"
        )
    bad = ((indices < 0) | (indices >= dense_shape)).any(axis=1)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidArgumentError(
            f"Sparse index tuple indices[{i}] = {indices[i].tolist()} is out of bounds for {dense_shape.tolist()}"
        )


@register_kernel("SparseBincount", pieces=True)
def _sparse_bincount(k: KernelBuild) -> Kernel:
    dtype, binary = k.dtype("T").np, bool(k.attr("binary_output"))

    def kernel(indices: Any, values: Any, dense_shape: Any, size: Any, weights: Any) -> Any:
        bins = _size_of(size, ranked=True)
        _check_places(indices, values, dense_shape)
        _nonnegative(values, "arr")
        if weights.size and weights.shape != values.shape:
            raise InvalidArgumentError(
                f"Weights must have the same shape as values, but got {text(weights.shape)} and {text(values.shape)}"
            )
        chosen = weights if weights.size else None
        if dense_shape.shape[0] == 1:
            return counts(values, bins, chosen, binary, dtype)
        height = int(dense_shape[0])
        return _row_counts(indices[:, 0], values, height, bins, chosen, binary, dtype)

    return kernel


@register_kernel("RaggedBincount", pieces=True)
def _ragged_bincount(k: KernelBuild) -> Kernel:
    dtype, binary = k.dtype("T").np, bool(k.attr("binary_output"))

    def kernel(splits: Any, values: Any, size: Any, weights: Any) -> Any:
        bins = _size_of(size, ranked=True)
        values, weights = values.reshape(-1), weights.reshape(-1)
        if splits.size == 0:
            raise InvalidArgumentError("Splits must be non-empty")
        if splits[0] != 0:
            raise InvalidArgumentError(f"Splits must start with 0, not with {int(splits[0])}")
        if splits[-1] != values.size:
            raise InvalidArgumentError(
                f"Splits must end with the number of values, got {int(splits[-1])} instead of {values.size}"
            )
        lengths = np.diff(splits)
        if (lengths < 0).any():
            raise InvalidArgumentError("Splits must be non-decreasing")
        if values.size and values.min() < 0:
            raise InvalidArgumentError("Input must be non-negative")
        rows = repeat(np.arange(len(lengths)), lengths)
        return _row_counts(rows, values, len(lengths), bins, weights if weights.size else None, binary, dtype)

    return kernel


@register_kernel("SobolSample")
def _sobol_sample(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np

    def kernel(dim: Any, num_results: Any, skip: Any) -> Any:
        from scipy.stats import qmc

        d, n, start = (int(scalar(v, w)) for v, w in ((dim, "dim"), (num_results, "num_results"), (skip, "skip")))
        if d < 1:
            raise InvalidArgumentError("dim must be at least one")
        if n < 1:
            raise InvalidArgumentError("num_results must be at least one")
        if start < 0:
            raise InvalidArgumentError("skip must be non-negative")
        if n * d >= SOBOL_MOST or n + start >= SOBOL_MOST:
            what = "num_results*dim" if n * d >= SOBOL_MOST else "num_results+skip"
            raise InvalidArgumentError(f"{what} must be less than {SOBOL_MOST}")
        engine = qmc.Sobol(d, scramble=False, bits=31)
        # TensorFlow's sequence leaves out the point 0.
        engine.fast_forward(start + 1)
        return engine.random(n).astype(dtype)

    return kernel
