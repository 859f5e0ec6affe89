"""Fractional pooling (Graham 2014): windows of changing sizes, chosen at random (fractional_*_pool_op)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.array.common import vector
from dtfctl.runtime.kernels.nn.pooling import lowest
from dtfctl.runtime.kernels.random.philox import GuardedPhilox, WordStream
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)


def _sequence(length: int, count: int, generator: GuardedPhilox, pseudo_random: bool) -> list[int]:
    """Choose where the windows begin, and the end of the last: count + 1 positions."""
    base = length // count
    if pseudo_random:
        alpha = length / count
        largest = min((base + 2) / alpha - 1, (length + 1 - base) / alpha - (count - 1))
        u = WordStream(generator.reserve_words(2)).next_float64() * largest
        inner = [math.ceil(alpha * (i + u)) - 1 for i in range(1, count)]
        return [0, *inner, length]
    sizes = [base + 1] * (length % count) + [base] * (count - length % count)
    words = WordStream(generator.reserve_words(count))
    for i in range(count - 1):
        j = i + words.next() % (count - i)
        sizes[i], sizes[j] = sizes[j], sizes[i]
    return [0, *np.cumsum(sizes).tolist()]


def _windows(sequence: Any, limit: int, overlapping: bool) -> list[slice]:
    return [slice(int(begin), min(int(end) + (1 if overlapping else 0), limit)) for begin, end in pairwise(sequence)]


@register_kernel(("FractionalMaxPool", "FractionalAvgPool"), T=_TYPES)
def fractional_pool(k: KernelBuild) -> Kernel:
    ratio, maximum = k.attr("pooling_ratio"), k.node.op == "FractionalMaxPool"
    if len(ratio) != 4 or ratio[0] != 1.0 or ratio[3] != 1.0:
        raise UnimplementedError("Fractional pooling is not yet supported on the batch nor channel dimension.")
    if min(ratio) < 1.0:
        raise InvalidArgumentError(f"pooling_ratio cannot be smaller than 1, got: {min(ratio)}", k.node.name)
    overlapping, pseudo = k.attr("overlapping", False), k.attr("pseudo_random", False)
    seeds = (k.attr("seed", 0), k.attr("seed2", 0))

    def kernel(value: Any) -> tuple[Any, Any, Any]:
        if value.ndim != 4:
            raise InvalidArgumentError("tensor_in must be 4-dimensional")
        for i, (size, factor) in enumerate(zip(value.shape, ratio)):
            if size < factor:
                raise InvalidArgumentError(
                    f"Pooling ratio is higher than input dimension size for dimension {i}. Input dim size: {size} "
                    f"pooling ratio: {factor}"
                )
        height, width = (math.floor(np.float32(value.shape[i]) / np.float32(ratio[i])) for i in (1, 2))
        generator = GuardedPhilox(*seeds)
        rows = _sequence(value.shape[1], height, generator, pseudo)
        columns = _sequence(value.shape[2], width, generator, pseudo)
        out = np.empty((value.shape[0], height, width, value.shape[3]), value.dtype)
        for y, row in enumerate(_windows(rows, value.shape[1], overlapping)):
            for x, column in enumerate(_windows(columns, value.shape[2], overlapping)):
                window = value[:, row, column]
                out[:, y, x] = window.max(axis=(1, 2), initial=lowest(value.dtype)) if maximum else _mean(window)
        return out, np.array(rows, np.int64), np.array(columns, np.int64)

    return kernel


def _mean(window: Any) -> Any:
    total = window.sum(axis=(1, 2), dtype=window.dtype)
    count = window.shape[1] * window.shape[2]
    if window.dtype.kind == "f":
        return total / window.dtype.type(count)
    return np.trunc(total / count).astype(window.dtype)


@register_kernel("FractionalMaxPoolGrad", T=_TYPES)
def fractional_max_pool_grad(k: KernelBuild) -> Kernel:
    overlapping = k.attr("overlapping", False)

    def kernel(x: Any, y: Any, grad: Any, rows: Any, columns: Any) -> Any:
        _check(x.shape, grad, rows, columns)
        if y.shape != grad.shape:
            raise InvalidArgumentError("orig_output and out_backprop must have the same shape")
        out = np.zeros_like(x)
        batch, channel = np.arange(x.shape[0])[:, None], np.arange(x.shape[3])
        for i, row in enumerate(_windows(rows, x.shape[1], overlapping)[: grad.shape[1]]):
            for j, column in enumerate(_windows(columns, x.shape[2], overlapping)[: grad.shape[2]]):
                window = x[:, row, column]
                at = window.reshape(x.shape[0], -1, x.shape[3]).argmax(axis=1)
                down, across = np.divmod(at, window.shape[2])
                out[batch, row.start + down, column.start + across, channel] += grad[:, i, j]
        return out

    return kernel


@register_kernel("FractionalAvgPoolGrad", T=_TYPES)
def fractional_avg_pool_grad(k: KernelBuild) -> Kernel:
    overlapping = k.attr("overlapping", False)

    def kernel(input_shape: Any, grad: Any, rows: Any, columns: Any) -> Any:
        shape = vector(input_shape, "orig_input_tensor_shape")
        _check(shape, grad, rows, columns)
        out = np.zeros(shape, np.float64)
        for i, row in enumerate(_windows(rows, shape[1], overlapping)[: grad.shape[1]]):
            for j, column in enumerate(_windows(columns, shape[2], overlapping)[: grad.shape[2]]):
                count = (row.stop - row.start) * (column.stop - column.start)
                out[:, row, column] += (grad[:, i, j].astype(np.float64) / count)[:, None, None]
        return out.astype(grad.dtype)

    return kernel


def _check(shape: tuple[int, ...], grad: Any, rows: Any, columns: Any) -> None:
    if len(shape) != 4 or grad.ndim != 4:
        raise InvalidArgumentError("orig_input and out_backprop should be tensors of rank 4")
    for name, sequence, size, limit in (
        ("row", rows, grad.shape[1], shape[1]),
        ("col", columns, grad.shape[2], shape[2]),
    ):
        if sequence.ndim != 1:
            raise InvalidArgumentError(
                f"{name}_pooling_sequence must be a vector, received shape {list(sequence.shape)}"
            )
        if sequence.size <= size:
            raise InvalidArgumentError(
                f"Given out_backprop shape {list(grad.shape)}, {name}_seq_tensor must have at least {size + 1} "
                f"elements, but got {sequence.size}"
            )
        if sequence.min() < 0:
            side = "Row" if name == "row" else "Column"
            raise InvalidArgumentError(f"{side} sequence tensor values must not be negative, got {sequence.tolist()}")
        if sequence.max() > limit or (np.diff(sequence) <= 0).any():
            raise InvalidArgumentError(f"{name}_pooling_sequence must rise within the input, got {sequence.tolist()}")
