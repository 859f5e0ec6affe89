"""Counts of values as sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.pieces import repeat, update_at
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _count(k: KernelBuild, rows: Any, values: Any, weights: Any | None, batches: int, flat: bool) -> Any:
    """Sparse [batches, size] (or [size]) counts of values per row, weighted or clipped to 1."""
    shortest, longest = int(k.attr("minlength")), int(k.attr("maxlength"))
    binary, dtype = bool(k.attr("binary_output")), k.dtype("output_type").np
    if values.size and values.min() < 0:
        raise InvalidArgumentError("Input values must all be non-negative")
    top = int(values.max()) if values.size else -1
    kept = np.ones(len(values), np.bool_) if longest < 0 else values < longest
    if longest >= 0:
        top = int(values[kept].max()) if kept.any() else -1
    size = longest if longest >= 0 else max(top + 1, shortest)
    pairs = np.stack([rows[kept], values[kept]], axis=1).astype(np.int64).reshape(-1, 2)
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    if binary:
        totals = np.ones(len(unique), dtype)
    elif weights is None:
        totals = np.bincount(inverse, minlength=len(unique)).astype(dtype)
    else:
        totals = np.zeros(len(unique), dtype)
        update_at(np.add, totals, inverse, weights[kept])
    if flat:
        return unique[:, 1:], totals, np.array([size], np.int64)
    return unique, totals, np.array([batches, size], np.int64)


@register_kernel("DenseCountSparseOutput", pieces=True)
def _dense_count(k: KernelBuild) -> Kernel:
    def kernel(values: Any, weights: Any) -> Any:
        if values.ndim not in (1, 2):
            raise InvalidArgumentError(f"Input must be a 1 or 2-dimensional tensor. Got: {text(values.shape)}")
        if weights.size and weights.shape != values.shape:
            raise InvalidArgumentError(
                f"Weights and data must have the same shape. Weight shape: {text(weights.shape)}; data shape: "
                f"{text(values.shape)}"
            )
        if 0 in values.shape:
            raise InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
        flat = values.ndim == 1
        batches = 1 if flat else values.shape[0]
        rows = repeat(np.arange(batches), values.size // batches if batches else 0)
        return _count(k, rows, values.reshape(-1), weights.reshape(-1) if weights.size else None, batches, flat)

    return kernel


@register_kernel("SparseCountSparseOutput", pieces=True)
def _sparse_count(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, shape: Any, weights: Any) -> Any:
        if indices.ndim != 2:
            raise InvalidArgumentError(f"Input indices must be a 2-dimensional tensor. Got: {text(indices.shape)}")
        if values.ndim != 1:
            raise InvalidArgumentError(f"Input values must be a vector. Got: {text(values.shape)}")
        if shape.ndim != 1:
            raise InvalidArgumentError(f"Input shape must be a vector. Got: {text(shape.shape)}")
        if weights.size and weights.shape != values.shape:
            raise InvalidArgumentError(
                f"Weights and values must have the same shape. Weight shape: {text(weights.shape)}; values shape: "
                f"{text(values.shape)}"
            )
        if shape.size == 0:
            raise InvalidArgumentError("The shape argument requires at least one element.")
        if indices.shape != (values.shape[0], shape.shape[0]):
            raise InvalidArgumentError("Number of values must match first dimension of indices.")
        flat = shape.shape[0] == 1
        batches = 1 if flat else int(shape[0])
        rows = np.zeros(len(values), np.int64) if flat else indices[:, 0]
        if len(rows) and (rows.min() < 0 or rows.max() >= batches or (flat and indices.max() >= shape[0])):
            raise InvalidArgumentError(
                "Indices value along the first dimension must be lower than the first index of the shape. Got "
                f"{int(rows.max())} as batch and {batches} as the first dimension of the shape."
            )
        return _count(k, rows, values, weights if weights.size else None, batches, flat)

    return kernel


@register_kernel("RaggedCountSparseOutput", pieces=True)
def _ragged_count(k: KernelBuild) -> Kernel:
    def kernel(splits: Any, values: Any, weights: Any) -> Any:
        if splits.ndim != 1:
            raise InvalidArgumentError(f"Splits must be a vector. Got: {text(splits.shape)}")
        if values.ndim != 1:
            raise InvalidArgumentError(f"Input values must be a vector. Got: {text(values.shape)}")
        if weights.size and weights.shape != values.shape:
            raise InvalidArgumentError(
                f"Weights and values must have the same shape. Weight shape: {text(weights.shape)}; values shape: "
                f"{text(values.shape)}"
            )
        if splits.size < 1:
            raise InvalidArgumentError("Must provide at least 2 elements for the splits argument")
        if splits[0] != 0:
            raise InvalidArgumentError(f"Splits must start with 0, not with {int(splits[0])}")
        if splits[-1] != values.size:
            raise InvalidArgumentError(
                f"Splits must end with the number of values, got {int(splits[-1])} instead of {values.size}"
            )
        lengths = np.diff(splits)
        if (lengths < 0).any():
            raise InvalidArgumentError("Splits must be in increasing order")
        rows = repeat(np.arange(len(lengths)), lengths)
        return _count(k, rows, values, weights if weights.size else None, len(lengths), False)

    return kernel
