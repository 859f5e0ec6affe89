"""Datasets that follow others: one again and again, several side by side or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    UNKNOWN,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


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

    def require_access(self) -> None:
        self.source.require_access()
        if self.count <= 0:
            raise FailedPreconditionError(f"`repeat({self.count})` does not support random access of tf.data datasets.")

    def access(self, iteration: Iteration) -> Access:
        element, size = self.source.access(iteration), self.source.cardinality()
        return lambda at: element(at % size)


@register_dataset("RepeatDataset")
def repeat_dataset(k: KernelBuild, step: StepContext, source: Any, count: Any) -> Dataset:
    return RepeatDataset(dataset_of(source), scalar_of(count, "count"))


class ZipDataset(Dataset):
    """All sources are asked as often: they stay in step after an error, and caches among them see their end."""

    def __init__(self, sources: Sequence[Dataset]) -> None:
        self.sources = sources

    def iterate(self, iteration: Iteration) -> Next:
        parts = [s.iterate(iteration) for s in self.sources]

        def advance() -> Element:
            if not parts:
                raise EndOfSequence
            element: list[Any] = []
            ended, error = False, None
            for part in parts:
                try:
                    element.extend(part())
                except EndOfSequence:
                    ended = True
                except Exception as e:
                    error = e if error is None and not ended else error
            if ended:
                parts.clear()
            if error is not None:
                raise error
            if ended:
                raise EndOfSequence
            return tuple(element)

        return advance

    def cardinality(self) -> int:
        sizes = [s.cardinality() for s in self.sources]
        known = [s for s in sizes if s >= 0]
        return UNKNOWN if UNKNOWN in sizes else min(known, default=INFINITE)

    def require_access(self) -> None:
        for source in self.sources:
            source.require_access()

    def access(self, iteration: Iteration) -> Access:
        parts = [source.access(iteration) for source in self.sources]
        return lambda at: tuple(component for part in parts for component in part(at))


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

    def require_access(self) -> None:
        for source in self.sources:
            source.require_access()

    def access(self, iteration: Iteration) -> Access:
        parts = [(source.access(iteration), source.cardinality()) for source in self.sources]

        def element(at: int) -> Element:
            for part, size in parts:
                if at < size:
                    return part(at)
                at -= size
            raise IndexError(at)

        return element


@register_dataset("ConcatenateDataset")
def concatenate_dataset(k: KernelBuild, step: StepContext, first: Any, second: Any) -> Dataset:
    return ConcatenateDataset([dataset_of(first), dataset_of(second)])
