"""Staging areas: buffers between the stages of a pipeline, in order (Stage) or by key (MapStage, OrderedMapStage)."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _bytes(values: list[Any]) -> int:
    return sum(int(v.nbytes) for v in values if v is not None)


class _Area(Resource):
    """Capacity, memory limit and waiting. 0 means no limit."""

    type_name = "StagingArea"

    def __init__(self, capacity: int, memory_limit: int) -> None:
        self._capacity, self._memory_limit = capacity, memory_limit
        self._held = 0
        self._condition = threading.Condition()
        self._closed = False

    def _check_memory(self, size: int, words: str) -> None:
        if 0 < self._memory_limit < size:
            raise ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of '{size}' bytes into Staging Area with a memory "
                f"limit of '{self._memory_limit}'{words}"
            )

    def _over_memory(self, size: int) -> bool:
        return self._memory_limit > 0 and self._held + size > self._memory_limit

    def _wait(self, cancellation: CancellationToken, ready: Callable[[], bool]) -> None:
        cancellation.wait(self._condition, lambda: self._closed or ready())
        if self._closed:
            raise CancelledError("The staging area was deleted")

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class StagingArea(_Area):
    """First in, first out."""

    def __init__(self, capacity: int, memory_limit: int) -> None:
        super().__init__(capacity, memory_limit)
        self._items: deque[list[Any]] = deque()

    def put(self, values: list[Any], cancellation: CancellationToken) -> None:
        size = _bytes(values)
        with self._condition:
            self._check_memory(size, ".")
            self._wait(
                cancellation,
                lambda: not (self._over_memory(size) or 0 < self._capacity <= len(self._items)),
            )
            self._items.append(values)
            self._held += size
            self._condition.notify_all()

    def get(self, cancellation: CancellationToken) -> list[Any]:
        with self._condition:
            self._wait(cancellation, lambda: bool(self._items))
            values = self._items.popleft()
            self._held -= _bytes(values)
            self._condition.notify_all()
            return values

    def peek(self, index: int, cancellation: CancellationToken) -> list[Any]:
        with self._condition:
            self._wait(cancellation, lambda: len(self._items) > index)
            return self._items[index]

    def size(self) -> int:
        with self._condition:
            return len(self._items)

    def clear(self) -> None:
        with self._condition:
            self._items.clear()
            self._held = 0
            self._condition.notify_all()


class StagingMap(_Area):
    """Tuples by key. A tuple may come in parts and is there once it has all; parts may be taken one by one."""

    def __init__(self, capacity: int, memory_limit: int, components: int, ordered: bool) -> None:
        super().__init__(capacity, memory_limit)
        self._components, self._ordered = components, ordered
        self._complete: dict[int, list[Any]] = {}
        self._incomplete: dict[int, list[Any]] = {}

    def _check_indices(self, key: int, indices: list[int]) -> None:
        if not indices:
            raise InvalidArgumentError("Indices are empty")
        if any(b <= a for a, b in itertools.pairwise(indices)):
            raise InvalidArgumentError("Indices are not strictly ordered")
        for index in indices:
            if not 0 <= index < self._components:
                raise InvalidArgumentError(f"Index '{index}' for key '{key}' was out of bounds '{self._components}'.")

    def put(self, key: int, indices: list[int], values: list[Any], cancellation: CancellationToken) -> None:
        size = _bytes(values)
        with self._condition:
            self._check_indices(key, indices)
            self._check_memory(size, ".")
            whole = len(indices) == self._components
            self._wait(
                cancellation,
                lambda: not (self._over_memory(size) or (whole and 0 < self._capacity <= len(self._complete))),
            )
            parts = [None] * self._components if whole else self._incomplete.get(key, [None] * self._components)
            for index in indices:
                if parts[index] is not None:
                    raise InvalidArgumentError(
                        f"The tensor for index '{index}' for key '{key}' was already initialized '{self._components}'."
                    )
            for index, value in zip(indices, values):
                parts[index] = value
            self._held += size
            if all(p is not None for p in parts):
                self._incomplete.pop(key, None)
                self._complete.setdefault(key, parts)
            else:
                self._incomplete[key] = parts
            self._condition.notify_all()

    def _pick(self, key: int, indices: list[int], remove: bool) -> list[Any]:
        parts = self._complete[key]
        for index in indices:
            if parts[index] is None:
                raise InvalidArgumentError(f"Tensor at index '{index}' for key '{key}' has already been removed.")
        values = [parts[i] for i in indices]
        if remove:
            for i in indices:
                parts[i] = None
            if all(p is None for p in parts):
                del self._complete[key]
            self._held -= _bytes(values)
            self._condition.notify_all()
        return values

    def peek(self, key: int, indices: list[int], cancellation: CancellationToken) -> list[Any]:
        with self._condition:
            self._check_indices(key, indices)
            self._wait(cancellation, lambda: key in self._complete)
            return self._pick(key, indices, False)

    def pop(self, key: int, indices: list[int], cancellation: CancellationToken) -> list[Any]:
        with self._condition:
            self._check_indices(key, indices)
            self._wait(cancellation, lambda: key in self._complete)
            return self._pick(key, indices, True)

    def pop_any(self, indices: list[int], cancellation: CancellationToken) -> tuple[int, list[Any]]:
        with self._condition:
            self._check_indices(-1, indices)
            self._wait(cancellation, lambda: bool(self._complete))
            key = min(self._complete) if self._ordered else next(iter(self._complete))
            return key, self._pick(key, indices, True)

    def size(self) -> int:
        with self._condition:
            return len(self._complete)

    def incomplete_size(self) -> int:
        with self._condition:
            return len(self._incomplete)

    def clear(self) -> None:
        with self._condition:
            self._complete.clear()
            self._incomplete.clear()
            self._held = 0
            self._condition.notify_all()


def _area(k: KernelBuild) -> Callable[[StepContext], StagingArea]:
    capacity, limit = k.attr("capacity"), k.attr("memory_limit")
    container, name = k.container, k.resource_name
    return lambda step: step.resources.lookup_or_create(
        container, name, StagingArea, lambda: StagingArea(capacity, limit)
    )


def _map(k: KernelBuild) -> Callable[[StepContext], StagingMap]:
    capacity, limit, count = k.attr("capacity"), k.attr("memory_limit"), len(k.attr("dtypes"))
    container, name = k.container, k.resource_name
    ordered = k.node.op.startswith("Ordered")
    return lambda step: step.resources.lookup_or_create(
        container, name, StagingMap, lambda: StagingMap(capacity, limit, count, ordered)
    )


@register_kernel("Stage", step=True, blocking=True)
def stage(k: KernelBuild) -> Kernel:
    area = _area(k)
    return lambda step, *values: area(step).put([np.asarray(v) for v in values], step.cancellation)


@register_kernel("Unstage", step=True, blocking=True)
def unstage(k: KernelBuild) -> Kernel:
    area, count = _area(k), len(k.node.output_types)
    return lambda step: _sized(area(step).get(step.cancellation), count)


def _sized(values: list[Any], count: int) -> list[Any]:
    if len(values) != count:
        raise InvalidArgumentError(f"Mismatch stage/unstage: {len(values)} vs. {count}")
    return values


@register_kernel("StagePeek", step=True, blocking=True)
def stage_peek(k: KernelBuild) -> Kernel:
    area, count = _area(k), len(k.node.output_types)

    def run(step: StepContext, index: Any) -> list[Any]:
        if index.shape != ():
            raise InvalidArgumentError("index must be scalar")
        return _sized(area(step).peek(int(index), step.cancellation), count)

    return run


@register_kernel("StageSize", step=True)
def stage_size(k: KernelBuild) -> Kernel:
    area = _area(k)
    return lambda step: np.int32(area(step).size())


@register_kernel("StageClear", step=True)
def stage_clear(k: KernelBuild) -> Kernel:
    area = _area(k)
    return lambda step: area(step).clear()


def _key(key: Any) -> int:
    if key.size != 1:
        raise InvalidArgumentError(f"key must be an int64 scalar: {shape_text(key.shape)}")
    return int(key.reshape(-1)[0])


def _indices(indices: Any, count: int) -> list[int]:
    if indices.size != count:
        raise InvalidArgumentError(f"output/indices size mismatch: {count} vs. {indices.size}")
    numbers: list[int] = indices.reshape(-1).tolist()
    return numbers


@register_kernel(("MapStage", "OrderedMapStage"), step=True, blocking=True)
def map_stage(k: KernelBuild) -> Kernel:
    area = _map(k)

    def run(step: StepContext, key: Any, indices: Any, *values: Any) -> None:
        if key.size == 0:
            raise InvalidArgumentError("key must not be empty")
        items = [np.asarray(v) for v in values]
        area(step).put(_key(key), indices.reshape(-1).tolist(), items, step.cancellation)

    return run


@register_kernel(("MapUnstage", "OrderedMapUnstage", "MapPeek", "OrderedMapPeek"), step=True, blocking=True)
def map_unstage(k: KernelBuild) -> Kernel:
    area, count, peek = _map(k), len(k.node.output_types), k.node.op.endswith("Peek")

    def run(step: StepContext, key: Any, indices: Any) -> list[Any]:
        found = area(step)
        take = found.peek if peek else found.pop
        return take(_key(key), _indices(indices, count), step.cancellation)

    return run


@register_kernel(("MapUnstageNoKey", "OrderedMapUnstageNoKey"), step=True, blocking=True)
def map_unstage_no_key(k: KernelBuild) -> Kernel:
    area, count = _map(k), len(k.node.output_types) - 1

    def run(step: StepContext, indices: Any) -> list[Any]:
        key, values = area(step).pop_any(_indices(indices, count), step.cancellation)
        return [np.int64(key), *values]

    return run


@register_kernel(("MapSize", "OrderedMapSize"), step=True)
def map_size(k: KernelBuild) -> Kernel:
    area = _map(k)
    return lambda step: np.int32(area(step).size())


@register_kernel(("MapIncompleteSize", "OrderedMapIncompleteSize"), step=True)
def map_incomplete_size(k: KernelBuild) -> Kernel:
    area = _map(k)
    return lambda step: np.int32(area(step).incomplete_size())


@register_kernel(("MapClear", "OrderedMapClear"), step=True)
def map_clear(k: KernelBuild) -> Kernel:
    area = _map(k)
    return lambda step: area(step).clear()
