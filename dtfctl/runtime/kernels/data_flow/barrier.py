"""Barriers: tuples whose components arrive separately, by key, and are taken once complete, oldest first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import ResourceKernel, lookup, shape_text, type_text
from dtfctl.runtime.kernels.data_flow.queue_kinds import PriorityQueue
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_FIRST_INDEX = -(2**63)


class Barrier(Resource):
    """Complete tuples wait in a priority queue ordered by when their key was first seen."""

    type_name = "Barrier"

    def __init__(self, name: str, types: Sequence[DType], shapes: Sequence[TensorShape]) -> None:
        self.name, self.types, self.shapes = name, tuple(types), tuple(shapes)
        self._lock = threading.RLock()
        self._incomplete: dict[bytes, list[Any]] = {}
        self._index = _FIRST_INDEX
        self._closed = self._cancelled = False
        scalar = TensorShape([])
        self._ready = PriorityQueue(
            f"{name}_queue", [dtypes.int64, dtypes.string, *types], [scalar, scalar, *shapes], -1
        )

    def insert_many(self, component: int, keys: Any, values: Any, cancellation: CancellationToken) -> None:
        count = keys.size
        if count and not values.size:
            raise InvalidArgumentError(
                f"Tensors with no elements are not supported {self.name}: received shape {shape_text(values.shape)}"
            )
        complete: list[tuple[Any, ...]] = []
        with self._lock:
            if self._closed and (self._cancelled or (count and not self._incomplete)):
                raise CancelledError(
                    f"Barrier {self.name} is closed.  Pending enqueues cancelled: {int(self._cancelled)}.  Number of "
                    f"new insertions: {count}.  Number of incomplete keys: {len(self._incomplete)}."
                )
            fresh = False
            for i, key in enumerate(keys.reshape(-1).tolist()):
                fresh = self._insert_one(component, i, key, values[i, ...], complete) or fresh
            self._index += fresh
            for element in complete:
                self._ready.enqueue(element, cancellation)
            if self._closed and not self._incomplete and not self._ready.closed:
                self._ready.close_queue(False, cancellation)

    def _insert_one(self, component: int, i: int, key: bytes, value: Any, complete: list[tuple[Any, ...]]) -> bool:
        """Add one component; returns whether the key is new."""
        element = self._incomplete.get(key)
        fresh = element is None
        if element is None:
            if self._closed:
                raise CancelledError(
                    f"Barrier {self.name} is closed, but attempted to insert a brand new key: "
                    f"{key.decode(errors='replace')}.  Pending enqueues cancelled: {int(self._cancelled)}.  Insertion "
                    f"index: {i}.  Number of incomplete keys: {len(self._incomplete)}."
                )
            element = self._incomplete[key] = [self._index, *[None] * len(self.types)]
        if element[1 + component] is not None:
            raise InvalidArgumentError(
                f"Key {key.decode(errors='replace')} already has a value for component {component} in barrier "
                f"{self.name}"
            )
        element[1 + component] = value
        if all(v is not None for v in element):
            del self._incomplete[key]
            ready = (np.array(element[0], np.int64), object_scalar(key), *element[1:])
            self._ready._check_element(ready)
            complete.append(ready)
        return fresh

    def take_many(self, count: int, allow_small_batch: bool, cancellation: CancellationToken) -> tuple[Any, ...]:
        with self._lock:
            if self._closed:
                available = self._ready.size()
                if allow_small_batch:
                    count = min(count, available)
                else:
                    available += len(self._incomplete)
                if available < max(count, 1):
                    raise OutOfRangeError(
                        f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, total size "
                        f"{available})"
                    )
        return self._ready.dequeue_many(count, cancellation, allow_small_batch)

    def close_barrier(self, cancel_pending: bool, cancellation: CancellationToken) -> None:
        with self._lock:
            if self._closed and (self._cancelled or not cancel_pending):
                raise CancelledError(f"Barrier '{self.name}' is already closed.")
            self._cancelled, self._closed = cancel_pending, True
            if cancel_pending or not self._incomplete:
                self._incomplete.clear()
                if not self._ready.closed:
                    self._ready.close_queue(cancel_pending, cancellation)

    def ready_size(self) -> int:
        return self._ready.size()

    def incomplete_size(self) -> int:
        with self._lock:
            return len(self._incomplete)

    def close(self) -> None:
        self._ready.close()


@register_kernel("Barrier", step=True)
def barrier(k: KernelBuild) -> Kernel:
    types, shapes = tuple(k.attr("component_types")), tuple(k.attr("shapes"))
    if len(types) != len(shapes):
        raise InvalidArgumentError("All of the component shapes must be specified", k.node.name)
    if k.attr("capacity") != -1:
        raise InvalidArgumentError(
            "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a limited "
            "capacity.",
            k.node.name,
        )

    def verify(found: Barrier) -> None:
        if found.types != types:
            raise InvalidArgumentError(
                f"Shared barrier '{found.name}' has component types [{', '.join(map(type_text, found.types))}] but "
                f"requested component types were [{', '.join(map(type_text, types))}]"
            )
        if found.shapes != shapes:
            raise InvalidArgumentError(
                f"Shared barrier '{found.name}' has component shapes [{', '.join(map(shape_text, found.shapes))}] but "
                f"requested component shapes were [{', '.join(map(shape_text, shapes))}]"
            )

    return ResourceKernel(k, Barrier, lambda name: Barrier(name, types, shapes), verify)


@register_kernel("BarrierInsertMany", step=True, blocking=True)
def barrier_insert_many(k: KernelBuild) -> Kernel:
    component = k.attr("component_index")

    def run(step: StepContext, handle: Any, keys: Any, values: Any) -> None:
        found = lookup(step, handle, Barrier)
        if component >= len(found.types):
            raise InvalidArgumentError(
                f"The component ID is out of range {component} > num_components (= {len(found.types)})"
            )
        found.insert_many(component, keys, values, step.cancellation)

    return run


@register_kernel("BarrierTakeMany", step=True, blocking=True)
def barrier_take_many(k: KernelBuild) -> Kernel:
    small = k.attr("allow_small_batch")
    if k.attr("timeout_ms") != -1:
        raise InvalidArgumentError("Timeout not supported yet.", k.node.name)

    def run(step: StepContext, handle: Any, count: Any) -> Any:
        if count.shape != ():
            raise InvalidArgumentError("num_elements must be a scalar.")
        return lookup(step, handle, Barrier).take_many(int(count), small, step.cancellation)

    return run


@register_kernel("BarrierClose", step=True, blocking=True)
def barrier_close(k: KernelBuild) -> Kernel:
    cancel = k.attr("cancel_pending_enqueues")
    return lambda step, handle: lookup(step, handle, Barrier).close_barrier(cancel, step.cancellation)


@register_kernel("BarrierReadySize", step=True)
def barrier_ready_size(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.int32(lookup(step, handle, Barrier).ready_size())


@register_kernel("BarrierIncompleteSize", step=True)
def barrier_incomplete_size(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.int32(lookup(step, handle, Barrier).incomplete_size())
