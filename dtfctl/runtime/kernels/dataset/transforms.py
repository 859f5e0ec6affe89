"""Datasets that transform one or several others, element by element."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, OpError, OutOfRangeError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.philox import PhiloxSampler
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild

_AUTOTUNED = 2


class MapDataset(Dataset):
    def __init__(self, source: Dataset, function: Function, preserve: bool = True) -> None:
        self.source, self.function = source, function

    def iterate(self, iteration: Iteration) -> Next:
        following, function = self.source.iterate(iteration), self.function

        def advance() -> Element:
            element = following()
            try:
                return function(iteration, element)
            except OutOfRangeError as e:
                # A function may not end the sequence.
                raise InvalidArgumentError(f"Function invocation produced OutOfRangeError: {e.message}", e.node) from e

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("MapDataset", "ExperimentalMapDataset")
def map_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return MapDataset(dataset_of(source), function_of(k, step, captured))


@register_dataset("ParallelMapDataset", "ParallelMapDatasetV2")
def parallel_map_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, parallel = rest
    count = scalar_of(parallel, "num_parallel_calls")
    if count != -1 and count < 1:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    mapped = MapDataset(dataset_of(source), function_of(k, step, tuple(captured)))
    return PrefetchDataset(mapped, _AUTOTUNED if count == -1 else count)


class FilterDataset(Dataset):
    def __init__(self, source: Dataset, predicate: Callable[[Iteration, Element], bool]) -> None:
        self.source, self.predicate = source, predicate

    def iterate(self, iteration: Iteration) -> Next:
        following, predicate = self.source.iterate(iteration), self.predicate

        def advance() -> Element:
            while True:
                element = following()
                if predicate(iteration, element):
                    return element
                iteration.cancellation.check()

        return advance


def _truth(function: Function) -> Callable[[Iteration, Element], bool]:
    def test(iteration: Iteration, element: Element) -> bool:
        result = function(iteration, element)
        if len(result) != 1 or result[0].dtype != np.bool_ or result[0].size != 1:
            raise InvalidArgumentError("Predicate must return a scalar bool tensor.")
        return bool(result[0].reshape(-1)[0])

    return test


@register_dataset("FilterDataset")
def filter_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return FilterDataset(dataset_of(source), _truth(function_of(k, step, captured, "predicate")))


@register_dataset("ParallelFilterDataset")
def parallel_filter_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    return FilterDataset(dataset_of(source), _truth(function_of(k, step, rest[:-1], "predicate")))


@register_dataset("FilterByLastComponentDataset")
def filter_by_last_component(k: KernelBuild, step: StepContext, source: Any) -> Dataset:
    kept = FilterDataset(dataset_of(source), lambda iteration, element: bool(element[-1]))
    return _Projected(kept, slice(0, -1))


class _Projected(Dataset):
    def __init__(self, source: Dataset, columns: slice) -> None:
        self.source, self.columns = source, columns

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        return lambda: following()[self.columns]


class TakeWhileDataset(Dataset):
    def __init__(self, source: Dataset, predicate: Callable[[Iteration, Element], bool]) -> None:
        self.source, self.predicate = source, predicate

    def iterate(self, iteration: Iteration) -> Next:
        following, predicate, ended = self.source.iterate(iteration), self.predicate, False

        def advance() -> Element:
            nonlocal ended
            if not ended:
                element = following()
                if predicate(iteration, element):
                    return element
                ended = True
            raise EndOfSequence

        return advance


@register_dataset("TakeWhileDataset", "ExperimentalTakeWhileDataset")
def take_while_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return TakeWhileDataset(dataset_of(source), _truth(function_of(k, step, captured, "predicate")))


class RepeatDataset(Dataset):
    """`count` < 0 repeats forever, unless the source is empty."""

    def __init__(self, source: Dataset, count: int) -> None:
        self.source, self.count = source, count

    def iterate(self, iteration: Iteration) -> Next:
        following: Next | None = None
        done = 0
        fresh = True

        def advance() -> Element:
            nonlocal following, done, fresh
            while self.count < 0 or done < self.count:
                if following is None:
                    following, fresh = self.source.iterate(iteration), True
                try:
                    element = following()
                    fresh = False
                    return element
                except EndOfSequence:
                    following = None
                    done += 1
                    if fresh and self.count < 0:
                        raise
                    iteration.cancellation.check()
            raise EndOfSequence

        return advance

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.count < 0:
            return 0 if size == 0 else INFINITE
        if self.count == 0:
            return 0
        return size if size < 0 else size * self.count


@register_dataset("RepeatDataset")
def repeat_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return RepeatDataset(dataset_of(source), scalar_of(count, "count"))


class SkipTakeDataset(Dataset):
    """Without the first `skip` (negative: none is left) and at most `take` (negative: no bound) elements."""

    def __init__(self, source: Dataset, skip: int, take: int) -> None:
        self.source, self.skip, self.take = source, skip, take

    def iterate(self, iteration: Iteration) -> Next:
        following: Next | None = None
        skipped = taken = 0

        def advance() -> Element:
            nonlocal following, skipped, taken
            if self.skip < 0 or 0 <= self.take <= taken:
                raise EndOfSequence
            if following is None:
                following = self.source.iterate(iteration)
            while skipped < self.skip:
                following()
                skipped += 1
            element = following()
            taken += 1
            return element

        return advance

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.skip < 0 or self.take == 0:
            return 0
        if size == UNKNOWN:
            return UNKNOWN
        if size == INFINITE:
            return INFINITE if self.take < 0 else self.take
        left = max(0, size - self.skip)
        return left if self.take < 0 else min(left, self.take)


@register_dataset("SkipDataset")
def skip_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return SkipTakeDataset(dataset_of(source), scalar_of(count, "count"), -1)


@register_dataset("TakeDataset")
def take_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return SkipTakeDataset(dataset_of(source), 0, scalar_of(count, "count"))


class ShardDataset(Dataset):
    def __init__(self, source: Dataset, shards: int, index: int) -> None:
        self.source, self.shards, self.index = source, shards, index

    def iterate(self, iteration: Iteration) -> Next:
        following, at = self.source.iterate(iteration), 0

        def advance() -> Element:
            nonlocal at
            while True:
                element = following()
                at += 1
                if (at - 1) % self.shards == self.index:
                    return element

        return advance

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else size // self.shards + (self.index < size % self.shards)


@register_dataset("ShardDataset")
def shard_dataset(k: KernelBuild, step: StepContext, source: Any, shards: Any, index: Any) -> Dataset:
    count, which = scalar_of(shards, "num_shards"), scalar_of(index, "index")
    if count < 1:
        raise InvalidArgumentError(f"Number of shards must be greater than zero (currently num_shards = {count}).")
    if not 0 <= which < count:
        raise InvalidArgumentError(
            f"Index must be between 0 and {count - 1} (currently index = {which}, num_shards = {count})."
        )
    return ShardDataset(dataset_of(source), count, which)


@register_dataset("AutoShardDataset", "ExperimentalAutoShardDataset")
def auto_shard_dataset(k: KernelBuild, step: StepContext, source: Any, workers: Any, index: Any) -> Dataset:
    return shard_dataset(k, step, source, workers, index) if int(workers) > 1 else _Same(dataset_of(source))


class ZipDataset(Dataset):
    def __init__(self, sources: Sequence[Dataset]) -> None:
        self.sources = sources

    def iterate(self, iteration: Iteration) -> Next:
        parts = [s.iterate(iteration) for s in self.sources]
        return lambda: tuple(v for part in parts for v in part())

    def cardinality(self) -> int:
        sizes = [s.cardinality() for s in self.sources]
        known = [s for s in sizes if s >= 0]
        return UNKNOWN if UNKNOWN in sizes else min(known, default=INFINITE)


@register_dataset("ZipDataset")
def zip_dataset(k: KernelBuild, step: StepContext, *sources: Any) -> Dataset:
    return ZipDataset([dataset_of(s) for s in sources])


class ConcatenateDataset(Dataset):
    def __init__(self, sources: Sequence[Dataset]) -> None:
        self.sources = sources

    def iterate(self, iteration: Iteration) -> Next:
        waiting = list(self.sources)
        following: Next | None = None

        def advance() -> Element:
            nonlocal following
            while True:
                if following is None:
                    if not waiting:
                        raise EndOfSequence
                    following = waiting.pop(0).iterate(iteration)
                try:
                    return following()
                except EndOfSequence:
                    following = None

        return advance

    def cardinality(self) -> int:
        sizes = [s.cardinality() for s in self.sources]
        return INFINITE if INFINITE in sizes else UNKNOWN if UNKNOWN in sizes else sum(sizes)


@register_dataset("ConcatenateDataset")
def concatenate_dataset(k: KernelBuild, step: StepContext, first: Any, second: Any) -> Dataset:
    return ConcatenateDataset([dataset_of(first), dataset_of(second)])


class PrefetchDataset(Dataset):
    """A thread works ahead by up to `size` elements; errors come in the place of the element they stand for."""

    def __init__(self, source: Dataset, size: int) -> None:
        self.source, self.size = source, size

    def iterate(self, iteration: Iteration) -> Next:
        if self.size == 0:
            return self.source.iterate(iteration)
        ahead = iteration.background()
        condition = threading.Condition()
        ready: deque[Element | Exception] = deque()
        started = False

        def work() -> None:
            try:
                following = self.source.iterate(ahead)
            except Exception as e:
                put(e)
                put(EndOfSequence())
                return
            while True:
                try:
                    item: Element | Exception = following()
                except Exception as e:
                    item = e
                if not put(item) or isinstance(item, EndOfSequence):
                    return

        def put(item: Element | Exception) -> bool:
            with condition:
                while len(ready) >= self.size and ahead.cancellation.reason is None:
                    condition.wait()
                if ahead.cancellation.reason is not None:
                    return False
                ready.append(item)
                condition.notify_all()
                return True

        def wake() -> None:
            with condition:
                condition.notify_all()

        ahead.on_close(wake)

        def advance() -> Element:
            nonlocal started
            if not started:
                started = True
                threading.Thread(target=work, name="dataset-prefetch", daemon=True).start()
            with condition:
                iteration.cancellation.wait(condition, lambda: bool(ready))
                item = ready[0]
                if not isinstance(item, EndOfSequence):
                    ready.popleft()
                    condition.notify_all()
            if isinstance(item, Exception):
                raise item
            return item

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("PrefetchDataset")
def prefetch_dataset(k: KernelBuild, step: StepContext, source: Any, size: Any) -> Dataset:
    count = scalar_of(size, "buffer_size")
    if count < -1:
        raise InvalidArgumentError("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
    return PrefetchDataset(dataset_of(source), _AUTOTUNED if count == -1 else count)


class ScanDataset(Dataset):
    def __init__(self, source: Dataset, state: Element, function: Function) -> None:
        self.source, self.state, self.function = source, state, function

    def iterate(self, iteration: Iteration) -> Next:
        following, state, count = self.source.iterate(iteration), self.state, len(self.state)

        def advance() -> Element:
            nonlocal state
            results = self.function(iteration, (*state, *following()))
            state = results[:count]
            return results[count:]

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("ScanDataset", "ExperimentalScanDataset")
def scan_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    count = len(k.attr("Tstate"))
    return ScanDataset(dataset_of(source), tuple(rest[:count]), function_of(k, step, rest[count:]))


class UniqueDataset(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source

    def iterate(self, iteration: Iteration) -> Next:
        following, seen = self.source.iterate(iteration), set[Any]()

        def advance() -> Element:
            while True:
                element = following()
                value = element[0]
                key = (value.shape, tuple(value.reshape(-1).tolist()))
                if key not in seen:
                    seen.add(key)
                    return element

        return advance


@register_dataset("UniqueDataset", "ExperimentalUniqueDataset")
def unique_dataset(k: KernelBuild, step: StepContext, source: Any) -> Dataset:
    return UniqueDataset(dataset_of(source))


class SamplingDataset(Dataset):
    def __init__(self, source: Dataset, rate: float, seed: int, seed2: int) -> None:
        self.source, self.rate = source, np.float32(rate)
        self.seeds = PhiloxSampler(seed, seed2)

    def iterate(self, iteration: Iteration) -> Next:
        following, sampler = self.source.iterate(iteration), PhiloxSampler(self.seeds.seed, self.seeds.seed2)

        def advance() -> Element:
            while True:
                element = following()
                bits = np.uint32(0x3F800000 | (sampler.next() & 0x7FFFFF))
                if bits.view(np.float32) - np.float32(1) < self.rate:
                    return element

        return advance


@register_dataset("SamplingDataset")
def sampling_dataset(k: KernelBuild, step: StepContext, source: Any, rate: Any, seed: Any, seed2: Any) -> Dataset:
    return SamplingDataset(dataset_of(source), float(rate), scalar_of(seed, "seed"), scalar_of(seed2, "seed2"))


class IgnoreErrorsDataset(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)

        def advance() -> Element:
            while True:
                try:
                    return following()
                except OpError:
                    iteration.cancellation.check()

        return advance


@register_dataset("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset")
def ignore_errors_dataset(k: KernelBuild, step: StepContext, source: Any) -> Dataset:
    return IgnoreErrorsDataset(dataset_of(source))


class AssertCardinalityDataset(Dataset):
    def __init__(self, source: Dataset, expected: int) -> None:
        self.source, self.expected = source, expected

    def iterate(self, iteration: Iteration) -> Next:
        following, count = self.source.iterate(iteration), 0

        def plural(n: int) -> str:
            return "an infinite number of elements" if n == INFINITE else f"{n} element{'' if n == 1 else 's'}"

        def advance() -> Element:
            nonlocal count
            try:
                element = following()
            except EndOfSequence:
                if count != self.expected:
                    raise FailedPreconditionError(
                        f"Input dataset was expected to contain {plural(self.expected)} but contained only "
                        f"{plural(count)}."
                    ) from None
                raise
            count += 1
            if self.expected >= 0 and count > self.expected:
                raise FailedPreconditionError(
                    f"Input dataset was expected to contain {plural(self.expected)} but contained at least "
                    f"{plural(count)}."
                )
            return element

        return advance

    def cardinality(self) -> int:
        return self.expected


@register_dataset("AssertCardinalityDataset")
def assert_cardinality_dataset(k: KernelBuild, step: StepContext, source: Any, expected: Any) -> Dataset:
    return AssertCardinalityDataset(dataset_of(source), scalar_of(expected, "cardinality"))


class CacheDataset(Dataset):
    """The first whole pass is kept and later ones repeat it."""

    def __init__(self, source: Dataset) -> None:
        self.source = source
        self.lock = threading.Lock()
        self.kept: list[Element] | None = None

    def iterate(self, iteration: Iteration) -> Next:
        at, following = 0, None if self.kept is not None else self.source.iterate(iteration)
        mine: list[Element] = []

        def advance() -> Element:
            nonlocal at
            if following is None:
                assert self.kept is not None
                if at >= len(self.kept):
                    raise EndOfSequence
                at += 1
                return self.kept[at - 1]
            try:
                element = following()
            except EndOfSequence:
                with self.lock:
                    if self.kept is None:
                        self.kept = mine
                raise
            mine.append(element)
            return element

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("CacheDataset", "CacheDatasetV2")
def cache_dataset(k: KernelBuild, step: StepContext, source: Any, filename: Any, cache: Any = None) -> Dataset:
    if scalar_of(filename, "filename"):
        raise InvalidArgumentError(
            "CacheDataset: caching in a file is not supported; pass filename='' to cache in memory"
        )
    return CacheDataset(dataset_of(source))


class _Same(Dataset):
    """Another dataset under this node's types."""

    def __init__(self, source: Dataset) -> None:
        self.source = source
        self.types, self.shapes = source.types, source.shapes

    def iterate(self, iteration: Iteration) -> Next:
        return self.source.iterate(iteration)

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset(
    "ModelDataset",
    "OptionsDataset",
    "FinalizeDataset",
    "OptimizeDataset",
    "OptimizeDatasetV2",
    "BytesProducedStatsDataset",
    "ExperimentalBytesProducedStatsDataset",
    "LatencyStatsDataset",
    "ExperimentalLatencyStatsDataset",
    "NonSerializableDataset",
    "ExperimentalNonSerializableDataset",
    "MaxIntraOpParallelismDataset",
    "ExperimentalMaxIntraOpParallelismDataset",
    "PrivateThreadPoolDataset",
    "ExperimentalPrivateThreadPoolDataset",
    "AssertNextDataset",
    "ExperimentalAssertNextDataset",
    "AssertPrevDataset",
    "RewriteDataset",
)
def same_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    return _Same(dataset_of(source))


class SleepDataset(Dataset):
    def __init__(self, source: Dataset, seconds: float) -> None:
        self.source, self.seconds = source, seconds

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)

        def advance() -> Element:
            time.sleep(self.seconds)
            return following()

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("SleepDataset", "ExperimentalSleepDataset")
def sleep_dataset(k: KernelBuild, step: StepContext, source: Any, micros: Any) -> Dataset:
    return SleepDataset(dataset_of(source), scalar_of(micros, "sleep_microseconds") / 1e6)
