"""Kernels of the queue ops, first versions (string handles) and second (resource handles)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import ResourceKernel, lookup, shape_text, string_ref, type_text
from dtfctl.runtime.kernels.data_flow.queue import QueueBase
from dtfctl.runtime.kernels.data_flow.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _maker(
    k: KernelBuild, make: Callable[..., QueueBase], types: list[DType], shapes: list[TensorShape], **options: Any
) -> Kernel:
    capacity, op = k.int32_attr("capacity"), k.node.op

    def create(name: str) -> QueueBase:
        return make(name, types, shapes, capacity, **options)

    def verify(queue: QueueBase) -> None:
        queue.verify(op, types, shapes, capacity, **options)

    return ResourceKernel(k, QueueBase, create, verify)


@register_kernel(("FIFOQueue", "FIFOQueueV2"), step=True)
def fifo_queue(k: KernelBuild) -> Kernel:
    return _maker(k, FIFOQueue, list(k.attr("component_types")), list(k.attr("shapes")))


@register_kernel(("PaddingFIFOQueue", "PaddingFIFOQueueV2"), step=True)
def padding_fifo_queue(k: KernelBuild) -> Kernel:
    return _maker(k, PaddingFIFOQueue, list(k.attr("component_types")), list(k.attr("shapes")))


@register_kernel(("RandomShuffleQueue", "RandomShuffleQueueV2"), step=True)
def random_shuffle_queue(k: KernelBuild) -> Kernel:
    least, capacity = k.int32_attr("min_after_dequeue"), k.int32_attr("capacity")
    if least < 0:
        raise InvalidArgumentError("min_after_dequeue must be >= 0", k.node.name)
    if 0 <= capacity <= least:
        raise InvalidArgumentError("min_after_dequeue must be < capacity", k.node.name)
    return _maker(
        k,
        RandomShuffleQueue,
        list(k.attr("component_types")),
        list(k.attr("shapes")),
        min_after_dequeue=least,
        seed=k.attr("seed"),
        seed2=k.attr("seed2"),
    )


@register_kernel(("PriorityQueue", "PriorityQueueV2"), step=True)
def priority_queue(k: KernelBuild) -> Kernel:
    shapes = list(k.attr("shapes"))
    types = [dtypes.int64, *k.attr("component_types")]
    return _maker(k, PriorityQueue, types, [TensorShape([]), *shapes] if shapes or len(types) == 1 else [])


@register_kernel("FakeQueue", step=True)
def fake_queue(k: KernelBuild) -> Kernel:
    def run(step: StepContext, resource: Any) -> Any:
        handle = resource.reshape(-1)[0]
        return string_ref(handle.container, handle.name)

    return run


def _check_timeout(k: KernelBuild) -> None:
    if k.attr("timeout_ms") != -1:
        raise InvalidArgumentError("Timeout not supported yet.", k.node.name)


def _names(types: tuple[DType, ...]) -> str:
    return ", ".join(("string_ref" if t.is_ref else type_text(t)) for t in types)


def _find(step: StepContext, handle: Any, k: KernelBuild, lead: int, inputs: bool) -> QueueBase:
    """Find the queue, and check the node's component types against it."""
    queue = lookup(step, handle, QueueBase)
    components = k.node.input_types[lead:] if inputs else k.node.output_types
    if tuple(components) != queue.dtypes:
        fixed = k.node.input_types[:lead]
        have, want = (
            (f"{_names((*fixed, *components))}->", f"{_names((*fixed, *queue.dtypes))}->")
            if inputs
            else (f"{_names(fixed)}->{_names(components)}", f"{_names(fixed)}->{_names(queue.dtypes)}")
        )
        raise InvalidArgumentError(f"Signature mismatch, have: {have} expected: {want}")
    return queue


@register_kernel(("QueueEnqueue", "QueueEnqueueV2"), step=True, blocking=True)
def queue_enqueue(k: KernelBuild) -> Kernel:
    _check_timeout(k)

    def run(step: StepContext, handle: Any, *components: Any) -> None:
        queue = _find(step, handle, k, 1, True)
        queue.enqueue(tuple(_array(c) for c in components), step.cancellation)

    return run


def _array(value: Any) -> Any:
    """numpy scalars as 0-d arrays, so that elements always have a shape and `[...]`."""
    return np.asarray(value) if isinstance(value, np.generic) else value


@register_kernel(("QueueEnqueueMany", "QueueEnqueueManyV2"), step=True, blocking=True)
def queue_enqueue_many(k: KernelBuild) -> Kernel:
    _check_timeout(k)

    def run(step: StepContext, handle: Any, *components: Any) -> None:
        queue = _find(step, handle, k, 1, True)
        queue.enqueue_many(tuple(_array(c) for c in components), step.cancellation)

    return run


@register_kernel(("QueueDequeue", "QueueDequeueV2"), step=True, blocking=True)
def queue_dequeue(k: KernelBuild) -> Kernel:
    _check_timeout(k)
    return lambda step, handle: _find(step, handle, k, 1, False).dequeue(step.cancellation)


@register_kernel(
    ("QueueDequeueMany", "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2"), step=True, blocking=True
)
def queue_dequeue_many(k: KernelBuild) -> Kernel:
    _check_timeout(k)
    small = "UpTo" in k.node.op
    word = "DequeueUpToOp" if small else "DequeueManyOp"

    def run(step: StepContext, handle: Any, n: Any) -> Any:
        if n.size != 1:
            raise InvalidArgumentError(f"n must be a scalar, but has shape {shape_text(n.shape)}")
        count = int(n.reshape(-1)[0])
        if count < 0:
            raise InvalidArgumentError(f"{word} requested {count} < 0 elements")
        return _find(step, handle, k, 2, False).dequeue_many(count, step.cancellation, small)

    return run


@register_kernel(("QueueClose", "QueueCloseV2"), step=True, blocking=True)
def queue_close(k: KernelBuild) -> Kernel:
    cancel = k.attr("cancel_pending_enqueues")
    return lambda step, handle: lookup(step, handle, QueueBase).close_queue(cancel, step.cancellation)


@register_kernel(("QueueSize", "QueueSizeV2"), step=True)
def queue_size(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.int32(lookup(step, handle, QueueBase).size())


@register_kernel(("QueueIsClosed", "QueueIsClosedV2"), step=True)
def queue_is_closed(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.bool_(lookup(step, handle, QueueBase).closed)
