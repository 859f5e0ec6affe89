"""Conditional accumulators: gradients are added up and, once enough have come, taken out as their mean or sum.

A gradient computed at an older step than the accumulator's is stale and dropped (SyncReplicasOptimizer is built on it).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import ResourceKernel, lookup, shape_text, type_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


class Accumulator(Resource):
    """What dense and sparse accumulators share: the step, the count, and the line of takers."""

    type_name = "ConditionalAccumulator"

    def __init__(self, name: str, dtype: DType, shape: TensorShape, reduction: str) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self.mean = reduction == "MEAN"
        self.count = 0
        self.step = 0
        self._condition = threading.Condition()
        self._line: deque[object] = deque()
        self._closed = False

    def apply(self, local_step: int, gradient: Any) -> None:
        """Add a gradient, unless it is stale.

        Raises:
            InvalidArgumentError: its shape does not fit.
        """
        with self._condition:
            if local_step < self.step:
                return
            self._check(gradient)
            if self.count > 0:
                self._add(gradient)
            else:
                self._start(gradient)
            self.count += 1
            self._condition.notify_all()

    def take(self, required: int, cancellation: CancellationToken) -> Any:
        """Wait until `required` gradients came, and give their mean (or sum); the accumulator starts over.

        Raises:
            InvalidArgumentError: `required` is not positive.
            CancelledError: the step was cancelled.
        """
        if required <= 0:
            raise InvalidArgumentError(f"Argument num_required must be positive, but was {required}")
        ticket = object()
        with self._condition:
            self._line.append(ticket)
            try:
                cancellation.wait(
                    self._condition,
                    lambda: self._closed or (self._line[0] is ticket and self.count >= required),
                )
                if self._closed:
                    raise CancelledError("TakeGrad operation was cancelled")
                self.step += 1
                result = self._finish(self.count if self.mean else 1)
                self.count = 0
                return result
            except CancelledError:
                raise CancelledError(
                    "TakeGrad operation was cancelled", derived=cancellation.reason is not None
                ) from None
            finally:
                self._line.remove(ticket)
                self._condition.notify_all()

    def set_step(self, step: int) -> None:
        with self._condition:
            self.step = step

    def accumulated(self) -> int:
        with self._condition:
            return self.count

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _check(self, gradient: Any) -> None:
        raise NotImplementedError

    def _start(self, gradient: Any) -> None:
        raise NotImplementedError

    def _add(self, gradient: Any) -> None:
        raise NotImplementedError

    def _finish(self, divisor: int) -> Any:
        raise NotImplementedError


def _divide(total: Any, divisor: Any, dtype: DType) -> Any:
    """total / divisor in the accumulator's own type (integers truncate)."""
    if not dtype.is_integer:
        return (total / divisor).astype(dtype.np)
    wide = total.astype(np.int64)
    return (np.sign(wide) * (np.abs(wide) // divisor)).astype(dtype.np)


class DenseAccumulator(Accumulator):
    _sum: Any = None

    def _check(self, gradient: Any) -> None:
        if self.count > 0 and gradient.shape != self._sum.shape:
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self._sum.shape)}, got {shape_text(gradient.shape)}"
            )
        if not self.shape.is_compatible_with(gradient.shape):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self.shape)}, got {shape_text(gradient.shape)}"
            )

    def _start(self, gradient: Any) -> None:
        self._sum = np.array(gradient)

    def _add(self, gradient: Any) -> None:
        self._sum += gradient

    def _finish(self, divisor: int) -> Any:
        total, self._sum = self._sum, None
        return total if divisor == 1 else _divide(total, divisor, self.dtype)


class SparseAccumulator(Accumulator):
    """Sums slices by index. The mean of a slice is over the gradients that had it."""

    _indices: Any = None
    _values: Any = None
    _counts: Any = None

    def _check(self, gradient: Any) -> None:
        indices, values, shape = gradient
        if indices.ndim != 1:
            raise InvalidArgumentError(
                f"Input indices should be vector but received shape: {shape_text(indices.shape)}"
            )
        if values.ndim == 0:
            raise InvalidArgumentError("Values cannot be 0-dimensional.")
        if values.shape[0] != indices.size:
            raise InvalidArgumentError(f"Expected {indices.size} non-empty input values, got {values.shape[0]}")
        declared = self.shape.dims_or_none or ()
        if shape is not None:
            if len(declared) > shape.size:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected shape rank at least {len(declared)}, got {shape.size}"
                )
            for i, dim in enumerate(declared):
                if dim is not None and dim != shape[i]:
                    raise InvalidArgumentError(f"Shape mismatch: expected shape dim {i} to be {dim}, got {shape[i]}")
        if declared and declared[0] is not None:
            for i in np.flatnonzero(indices >= declared[0])[:1]:
                raise InvalidArgumentError(
                    f"Shape mismatch: index of slice {i} exceeded limits of shape; index is {indices[i]} exceeded "
                    f"{declared[0]}"
                )
        if self.count > 0:
            rank, dims = self._values.ndim, self._values.shape
            if rank != values.ndim:
                raise InvalidArgumentError(f"Shape mismatch: expected values rank {rank}, got {values.ndim}")
        else:
            rank, dims = len(declared), declared
            if rank > values.ndim:
                raise InvalidArgumentError(f"Shape mismatch: expected values rank at least {rank}, got {values.ndim}")
        for i in range(1, rank):
            if dims[i] is not None and dims[i] != values.shape[i]:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected values dim {i} to be {dims[i]}, got {values.shape[i]}"
                )

    def _start(self, gradient: Any) -> None:
        self._indices, self._values = gradient[0], gradient[1]
        self._counts = np.ones(self._indices.size, np.int32)

    def _add(self, gradient: Any) -> None:
        # Both sides are ordered by index; equal indices meet pairwise, as in a merge.
        indices, values = gradient[0], gradient[1]
        if not (_increasing(self._indices) and _increasing(indices)):
            self._merge(indices, values)
            return
        merged = np.union1d(self._indices, indices)
        old, new = np.searchsorted(merged, self._indices), np.searchsorted(merged, indices)
        total = np.zeros((merged.size, *values.shape[1:]), values.dtype)
        counts = np.zeros(merged.size, np.int32)
        total[old] = self._values
        counts[old] = self._counts
        total[new] += values
        counts[new] += 1
        self._indices, self._values, self._counts = merged, total, counts

    def _merge(self, indices: Any, values: Any) -> None:
        """Merge with duplicate or unordered indices: position by position, as TensorFlow does."""
        out_indices, out_values, out_counts = [], [], []
        i = j = 0
        mine, theirs = self._indices.tolist(), indices.tolist()
        while i < len(mine) or j < len(theirs):
            if j == len(theirs) or (i < len(mine) and mine[i] < theirs[j]):
                entry = (mine[i], self._values[i], self._counts[i])
                i += 1
            elif i == len(mine) or mine[i] > theirs[j]:
                entry = (theirs[j], values[j], 1)
                j += 1
            else:
                entry = (mine[i], values[j] + self._values[i], self._counts[i] + 1)
                i, j = i + 1, j + 1
            out_indices.append(entry[0])
            out_values.append(entry[1])
            out_counts.append(entry[2])
        self._indices = np.array(out_indices, np.int64)
        self._values = np.stack(out_values).astype(values.dtype)
        self._counts = np.array(out_counts, np.int32)

    def _finish(self, divisor: int) -> Any:
        values = self._values
        if self.mean:
            counts = self._counts.reshape((-1, *(1,) * (values.ndim - 1)))
            values = _divide(values, counts if self.dtype.is_integer else counts.astype(values.dtype), self.dtype)
        dims = values.shape[1:]
        declared = self.shape.dims_or_none
        # A first dimension that was never declared is reported as -1.
        first = declared[0] if declared and declared[0] is not None else -1
        shape = np.array([first, *dims], np.int64)
        indices, self._indices, self._values, self._counts = self._indices, None, None, None
        return indices, values, shape


def _increasing(indices: Any) -> bool:
    return bool(np.all(indices[1:] > indices[:-1]))


def _maker(k: KernelBuild, kind: type[Accumulator]) -> Kernel:
    dtype, shape, reduction = k.dtype("dtype"), k.attr("shape"), k.text_attr("reduction_type", "MEAN")

    def verify(found: Accumulator) -> None:
        if not isinstance(found, kind):
            raise InvalidArgumentError(f"Accumulator '{found.name}' is of another kind than this node asks for")

    return ResourceKernel(k, Accumulator, lambda name: kind(name, dtype, shape, reduction), verify)


@register_kernel(("ConditionalAccumulator", "ResourceConditionalAccumulator"), step=True)
def conditional_accumulator(k: KernelBuild) -> Kernel:
    return _maker(k, DenseAccumulator)


@register_kernel("SparseConditionalAccumulator", step=True)
def sparse_conditional_accumulator(k: KernelBuild) -> Kernel:
    return _maker(k, SparseAccumulator)


def _scalar(value: Any, name: str) -> int:
    if value.shape != ():
        raise InvalidArgumentError(f"Argument {name} must be scalar, but had bad shape {shape_text(value.shape)}")
    return int(value)


def _find(step: StepContext, handle: Any, k: KernelBuild, kind: type[Accumulator]) -> Accumulator:
    found = lookup(step, handle, kind)
    dtype = k.attr("dtype")
    if dtype is not None and dtype is not found.dtype:
        raise InvalidArgumentError(
            f"Accumulator '{found.name}' holds {type_text(found.dtype)}, but '{k.node.op}' was given {type_text(dtype)}"
        )
    return found


@register_kernel(("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient"), step=True)
def apply_gradient(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, local_step: Any, gradient: Any) -> None:
        _find(step, handle, k, DenseAccumulator).apply(_scalar(local_step, "local_step"), gradient)

    return run


@register_kernel("SparseAccumulatorApplyGradient", step=True)
def sparse_apply_gradient(k: KernelBuild) -> Kernel:
    known = k.attr("has_known_shape")

    def run(step: StepContext, handle: Any, local_step: Any, indices: Any, values: Any, shape: Any) -> None:
        gradient = (indices, values, shape if known else None)
        _find(step, handle, k, SparseAccumulator).apply(_scalar(local_step, "local_step"), gradient)

    return run


@register_kernel(
    ("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", "SparseAccumulatorTakeGradient"),
    step=True,
    blocking=True,
)
def take_gradient(k: KernelBuild) -> Kernel:
    kind: type[Accumulator] = SparseAccumulator if k.node.op.startswith("Sparse") else DenseAccumulator

    def run(step: StepContext, handle: Any, required: Any) -> Any:
        return _find(step, handle, k, kind).take(_scalar(required, "num_required"), step.cancellation)

    return run


@register_kernel(("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated"), step=True)
def num_accumulated(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.int32(lookup(step, handle, Accumulator).accumulated())


@register_kernel(("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep"), step=True)
def set_global_step(k: KernelBuild) -> Kernel:
    return lambda step, handle, new: lookup(step, handle, Accumulator).set_step(_scalar(new, "num_required"))
