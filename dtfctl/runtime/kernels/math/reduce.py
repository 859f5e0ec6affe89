"""Reductions over any axes, with TensorFlow's values for empty ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision
from dtfctl.runtime.kernels.promises import Promises, ShapeFrom
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Read the axes tensor of a reduction as nonnegative axes.

    Raises:
        InvalidArgumentError: one is out of range or occurs twice.
    """
    if axes.ndim > 1:
        raise InvalidArgumentError(f"Shape must be at most rank 1 but is rank {axes.ndim}")
    out = []
    for axis in np.asarray(axes).reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Invalid reduction dimension ({axis} for input with {rank} dimension(s)")
        axis %= rank
        if axis in out:
            raise InvalidArgumentError(f"Invalid reduction arguments: Axes contains duplicate dimension: {axis}")
        out.append(axis)
    return tuple(out)


def _reducer(k: KernelBuild, reduce: Callable[[Any, tuple[int, ...], bool], Any]) -> Kernel:
    """Make a kernel around reduce(x, axes, keepdims)."""
    keep = bool(k.attr("keep_dims", False))
    # The axes are the same constant in every step: (their numbers, rank, axes) of the last call.
    last: tuple[Any, int, tuple[int, ...]] = (None, -1, ())

    def kernel(x: Any, axes: Any) -> Any:
        nonlocal last
        numbers = axes.tolist()
        known, rank, chosen = last
        if known != numbers or rank != x.ndim:
            chosen = axes_of(axes, x.ndim)
            last = (numbers, x.ndim, chosen)
        return reduce(x, chosen, keep)

    return kernel


def count_of(x: Any, axes: tuple[int, ...]) -> int:
    """Count the elements that go into each result."""
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


# cupy's ufuncs reduce no further than sums and products, so a GPU uses the functions instead.
_FUNCTION_OF = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}


def _reduction(xp: Any, ufunc: str) -> Callable[..., Any]:
    """Find the reduction by a ufunc in an array namespace: (x, axis=, keepdims=[, dtype=])."""
    function: Callable[..., Any] = getattr(xp, ufunc).reduce if xp is np else getattr(xp, _FUNCTION_OF[ufunc])
    return function


REDUCES = Promises(lets_go=True, shape_from=ShapeFrom(("reduction_indices",)), is_total=True)


@register_kernel(("Sum", "Prod"), devices=CPU_GPU, host_inputs=("reduction_indices",), promises=REDUCES)
def _sum(k: KernelBuild) -> Kernel:
    function = _reduction(k.xp, "add" if k.node.op == "Sum" else "multiply")
    dtype = k.dtype("T").np
    if is_low_precision(dtype):
        return _reducer(k, lambda x, axes, keep: function(x.astype(np.float32), axis=axes, keepdims=keep).astype(dtype))
    return _reducer(k, lambda x, axes, keep: function(x, axis=axes, dtype=dtype, keepdims=keep))


@register_kernel(("Max", "Min"), devices=CPU_GPU, host_inputs=("reduction_indices",), promises=REDUCES)
def _extremum(k: KernelBuild) -> Kernel:
    is_max = k.node.op == "Max"
    xp = k.xp
    function = _reduction(xp, "maximum" if is_max else "minimum")
    dtype = k.dtype("T")
    if dtype.is_floating:
        neutral = dtype.np.type(-np.inf if is_max else np.inf)
    else:
        neutral = dtype.np.type(dtype.min if is_max else dtype.max)

    def reduce(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        if x.size == 0:
            # cupy's extrema take no initial value.
            return xp.full(xp.sum(x, axis=axes, keepdims=keep).shape, neutral, x.dtype)
        return function(x, axis=axes, keepdims=keep)

    return _reducer(k, reduce)


@register_kernel("Mean", devices=CPU_GPU, host_inputs=("reduction_indices",), promises=REDUCES)
def _mean(k: KernelBuild) -> Kernel:
    add = _reduction(k.xp, "add")
    dtype = k.dtype("T").np
    if is_low_precision(dtype):

        def low(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
            total = add(x.astype(np.float32), axis=axes, keepdims=keep)
            return (total / np.float32(count_of(x, axes))).astype(dtype)

        return _reducer(k, low)
    if dtype.kind in "iu":
        # Sums of the small types are made in 64 bits, as in TensorFlow.
        wide = np.dtype(f"{dtype.kind}8") if dtype.itemsize < 4 else dtype

        def whole(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
            total = add(x, axis=axes, dtype=wide, keepdims=keep)
            count = wide.type(count_of(x, axes) or 1)
            mean = np.sign(total) * (np.abs(total) // count) if dtype.kind == "i" else total // count
            return mean.astype(dtype)

        return _reducer(k, whole)

    def mean(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        return add(x, axis=axes, dtype=dtype, keepdims=keep) / dtype.type(count_of(x, axes))

    return _reducer(k, mean)


@register_kernel("EuclideanNorm", devices=CPU_GPU, host_inputs=("reduction_indices",), promises=REDUCES)
def _euclidean_norm(k: KernelBuild) -> Kernel:
    xp, add = k.xp, _reduction(k.xp, "add")
    dtype = k.dtype("T").np
    work = np.dtype(np.float32) if is_low_precision(dtype) else dtype

    def reduce(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        x = x.astype(work, copy=False)
        total = add((x * x.conj()) if work.kind == "c" else x * x, axis=axes, dtype=work, keepdims=keep)
        return xp.sqrt(total).astype(dtype)

    return _reducer(k, reduce)


@register_kernel(("All", "Any"), devices=CPU_GPU, host_inputs=("reduction_indices",), promises=REDUCES)
def _logical(k: KernelBuild) -> Kernel:
    function = _reduction(k.xp, "logical_and" if k.node.op == "All" else "logical_or")
    return _reducer(k, lambda x, axes, keep: function(x, axis=axes, keepdims=keep))


# --- scans ---


def _scan_axis(axis: Any, rank: int) -> int:
    if axis.ndim != 0:
        raise InvalidArgumentError(f"ScanOp: axis must be a scalar, not {list(axis.shape)}")
    value = int(axis)
    if not -rank <= value < rank:
        raise InvalidArgumentError(f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {value}")
    return value % rank


def _scan(k: KernelBuild, accumulate: Callable[[Any, int], Any], neutral: Any) -> Kernel:
    exclusive, reverse = bool(k.attr("exclusive")), bool(k.attr("reverse"))
    dtype = k.dtype("T").np

    def kernel(x: Any, axis: Any) -> Any:
        at = _scan_axis(axis, x.ndim)
        if x.size == 0:
            return x
        if reverse:
            x = np.flip(x, at)
        out = accumulate(x, at)
        if exclusive:
            shifted = np.empty_like(out)
            index: list[Any] = [slice(None)] * x.ndim
            index[at] = slice(1, None)
            source = list(index)
            source[at] = slice(None, -1)
            shifted[tuple(index)] = out[tuple(source)]
            index[at] = slice(0, 1)
            shifted[tuple(index)] = neutral
            out = shifted
        out = np.flip(out, at) if reverse else out
        return out.astype(dtype, copy=False)

    return kernel


@register_kernel("Cumsum")
def _cumsum(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np
    return _scan(k, lambda x, axis: np.add.accumulate(x, axis, dtype=dtype), dtype.type(0))


@register_kernel("Cumprod")
def _cumprod(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np
    return _scan(k, lambda x, axis: np.multiply.accumulate(x, axis, dtype=dtype), dtype.type(1))


@register_kernel("CumulativeLogsumexp")
def _cumulative_logsumexp(k: KernelBuild) -> Kernel:
    """log(cumsum(exp(x))), without leaving the range of exp."""
    dtype = k.dtype("T")
    low = is_low_precision(dtype.np)

    def accumulate(x: Any, axis: int) -> Any:
        x = x.astype(np.float32) if low else x
        return np.logaddexp.accumulate(x, axis)

    return _scan(k, accumulate, -np.inf)
