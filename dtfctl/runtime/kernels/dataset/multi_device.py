"""One pass over a dataset dealt out to several consumers in turn: element i goes to shard i modulo their number.

A shard gets the same elements however fast the others ask. Each has a buffer; a thread fills them in turn, and so
waits where one is full and nobody asks for that shard.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_key, handle_scalar, lookup
from dtfctl.runtime.kernels.dataset.core import (
    Dataset,
    Element,
    EndOfSequence,
    check_shapes,
    check_types,
    dataset_of,
    new_pass,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.shuffle import Deleter
from dtfctl.runtime.kernels.dataset.string_handles import Typed, from_string_handle, to_string_handle
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_IDS = itertools.count()


class Dealt:
    """One pass, dealt to `shards` buffers of at most `size` elements; a shard that is waited for may have one more."""

    def __init__(self, dataset: Dataset, shards: int, size: int, step: StepContext) -> None:
        self._iteration = new_pass(dataset, step).background()
        self._following = dataset.iterate(self._iteration)
        self._size = size
        self._condition = threading.Condition()
        self._ready: list[deque[Element | Exception]] = [deque() for _ in range(shards)]
        self._waiting = [0] * shards
        self._started = self._ended = self._closed = False

    def next(self, shard: int, cancellation: CancellationToken) -> Element:
        """Take the next element of `shard`.

        Raises:
            OutOfRangeError: there is none.
            CancelledError: the step was cancelled, or the pass given up.
        """
        with self._condition:
            if not self._started:
                self._started = True
                guard.once(self._deal, name="dataset-deal").start()
            mine = self._ready[shard]
            self._waiting[shard] += 1
            self._condition.notify_all()
            try:
                cancellation.wait(self._condition, lambda: bool(mine) or self._ended or self._closed)
            finally:
                self._waiting[shard] -= 1
            if self._closed:
                raise CancelledError("Cancelled Multidevice iterator")
            if not mine:
                raise OutOfRangeError("End of sequence")
            item = mine.popleft()
            self._condition.notify_all()
        if isinstance(item, Exception):
            raise item
        return item

    def _deal(self) -> None:
        for shard in itertools.cycle(range(len(self._ready))):
            mine = self._ready[shard]
            with self._condition:
                while not self._closed and len(mine) >= max(self._size, self._waiting[shard]):
                    self._condition.wait()
                if self._closed:
                    return
            item: Element | Exception
            try:
                item = self._following()
            except EndOfSequence:
                break
            except Exception as e:
                item = e
            with self._condition:
                mine.append(item)
                self._condition.notify_all()
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._iteration.cancellation.cancel()
        self._iteration.close()


class MultiDeviceIterator(Typed):
    """The current pass and its number, which consumers of an earlier one do not have."""

    type_name = "MultiDeviceIterator"

    def __init__(self, devices: int, types: Sequence[DType], shapes: Sequence[TensorShape]) -> None:
        self.types, self.shapes = tuple(types), tuple(shapes)
        self.devices = devices
        self._lock = threading.Lock()
        self._incarnation = 0
        self._pass: Dealt | None = None

    def start(self, dataset: Dataset, size: int, step: StepContext) -> int:
        """Begin a new pass and return its number.

        Raises:
            InvalidArgumentError: the dataset's elements are not what this iterator was declared to give.
        """
        check_types(self.types, dataset.types)
        check_shapes(self.shapes, dataset.shapes)
        fresh = Dealt(dataset, self.devices, size, step)
        with self._lock:
            old, self._pass = self._pass, fresh
            self._incarnation += 1
            number = self._incarnation
        if old is not None:
            old.close()
        return number

    def next(self, shard: int, incarnation: int, cancellation: CancellationToken) -> Element:
        with self._lock:
            current, number = self._pass, self._incarnation
        if current is None:
            raise FailedPreconditionError("The multi-device iterator has not been initialized")
        if incarnation != number:
            raise InvalidArgumentError(f"Invalid incarnation id. Provided: {incarnation}; Expected: {number}")
        if not 0 <= shard < self.devices:
            raise InvalidArgumentError(f"shard_num {shard} is not in [0, {self.devices})")
        return current.next(shard, cancellation)

    def close(self) -> None:
        if self._pass is not None:
            self._pass.close()


def _maker(k: KernelBuild) -> Callable[[], MultiDeviceIterator]:
    devices, types, shapes = len(k.attr("devices")), k.attr("output_types"), k.attr("output_shapes")
    return lambda: MultiDeviceIterator(devices, types, shapes)


@register_kernel("MultiDeviceIterator", step=True)
def multi_device_iterator(k: KernelBuild) -> Kernel:
    make, name = _maker(k), k.resource_name
    handle = handle_scalar(k.device.name, k.container, name, MultiDeviceIterator.type_name)
    types, shapes = k.attr("output_types"), k.attr("output_shapes")

    def run(step: StepContext) -> Any:
        found = step.resources.lookup_or_create(k.container, name, MultiDeviceIterator, make)
        check_types(types, found.types)
        check_shapes(shapes, found.shapes)
        return handle

    return run


@register_kernel(("AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIteratorV3"), step=True)
def anonymous_multi_device_iterator(k: KernelBuild) -> Kernel:
    make, with_deleter = _maker(k), k.node.op == "AnonymousMultiDeviceIterator"

    def run(step: StepContext) -> Any:
        name = f"_anonymous_multi_device_iterator_{next(_IDS)}"
        step.resources.create(k.container, name, make())
        handle = handle_scalar(k.device.name, k.container, name, MultiDeviceIterator.type_name)
        return (handle, Deleter(k.container, name).scalar()) if with_deleter else handle

    return run


@register_kernel("DeleteMultiDeviceIterator", step=True)
def delete_multi_device_iterator(k: KernelBuild) -> Kernel:
    return lambda step, handle, *rest: step.resources.delete(*handle_key(handle, MultiDeviceIterator.type_name))


@register_kernel("MultiDeviceIteratorInit", step=True, blocking=True)
def multi_device_iterator_init(k: KernelBuild) -> Kernel:
    def run(step: StepContext, dataset: Any, handle: Any, size: Any) -> Any:
        count = scalar_of(size, "max_buffer_size")
        return np.int64(lookup(step, handle, MultiDeviceIterator).start(dataset_of(dataset), count, step))

    return run


@register_kernel("MultiDeviceIteratorGetNextFromShard", step=True, blocking=True)
def multi_device_iterator_get_next_from_shard(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, shard: Any, incarnation: Any) -> Any:
        found = lookup(step, handle, MultiDeviceIterator)
        return found.next(int(shard), int(incarnation), step.cancellation)

    return run


@register_kernel("MultiDeviceIteratorToStringHandle", step=True)
def multi_device_iterator_to_string_handle(k: KernelBuild) -> Kernel:
    return to_string_handle(MultiDeviceIterator)


@register_kernel("MultiDeviceIteratorFromStringHandle", step=True)
def multi_device_iterator_from_string_handle(k: KernelBuild) -> Kernel:
    return from_string_handle(k, MultiDeviceIterator)
