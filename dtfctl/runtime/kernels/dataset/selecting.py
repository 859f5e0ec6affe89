"""Datasets that hand on some of another's elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    UNKNOWN,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.draws import SeedGenerator
from dtfctl.runtime.kernels.dataset.passing import Same
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


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

    def require_access(self) -> None:
        if self.skip < 0 or self.skip >= self.source.cardinality() >= 0:
            raise FailedPreconditionError(
                "Global shuffling does not support empty dataset or skipping the entire dataset. "
                f"Got skip({self.skip})."
            )
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        element = self.source.access(iteration)
        return lambda at: element(at + self.skip)


@register_dataset("SkipDataset")
def skip_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return SkipTakeDataset(dataset_of(source), scalar_of(count, "count"), -1)


@register_dataset("TakeDataset")
def take_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return SkipTakeDataset(dataset_of(source), 0, scalar_of(count, "count"))


class ShardDataset(Dataset):
    """Every so many-th element.

    Args:
        none_is_empty: fewer elements than shards are an error, in all of these.
    """

    def __init__(self, source: Dataset, shards: int, index: int, none_is_empty: bool = False) -> None:
        self.source, self.shards, self.index = source, shards, index
        self._none_is_empty = none_is_empty

    def iterate(self, iteration: Iteration) -> Next:
        following, at = self.source.iterate(iteration), 0

        def advance() -> Element:
            nonlocal at
            if self._none_is_empty and at < self.shards:
                first = self._first(following)
                at += self.shards
                return first
            while True:
                element = following()
                at += 1
                if (at - 1) % self.shards == self.index:
                    return element

        return advance

    def _first(self, following: Next) -> Element:
        """Take the first element of each shard; return this one's."""
        found: list[Element] = []
        while len(found) < self.shards:
            try:
                found.append(following())
            except EndOfSequence:
                raise InvalidArgumentError(
                    f"Could not apply FILE based sharding: the dataset only has {len(found)} file(s), not enough "
                    f"for the required {self.shards} shards/workers. Write more files, or take AutoShardPolicy.DATA"
                ) from None
        return found[self.index]

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else size // self.shards + (self.index < size % self.shards)

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        element = self.source.access(iteration)
        return lambda at: element(at * self.shards + self.index)


@register_dataset("ShardDataset")
def shard_dataset(k: KernelBuild, step: StepContext, source: Any, shards: Any, index: Any) -> Dataset:
    count, which = scalar_of(shards, "num_shards"), scalar_of(index, "index")
    if count < 1:
        raise InvalidArgumentError(f"Number of shards must be greater than zero (currently num_shards = {count}).")
    if not 0 <= which < count:
        raise InvalidArgumentError(
            f"Index must be between 0 and {count - 1} (currently index = {which}, num_shards = {count})."
        )
    return ShardDataset(dataset_of(source), count, which, bool(k.attr("require_non_empty", False)))


@register_dataset("AutoShardDataset", "ExperimentalAutoShardDataset")
def auto_shard_dataset(k: KernelBuild, step: StepContext, source: Any, workers: Any, index: Any) -> Dataset:
    return shard_dataset(k, step, source, workers, index) if int(workers) > 1 else Same(dataset_of(source))


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
        self.generator = SeedGenerator(seed, seed2, reshuffle=False)

    def iterate(self, iteration: Iteration) -> Next:
        following, sampler = self.source.iterate(iteration), iteration.draws.sampler(self.generator)

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
