"""Datasets that hold elements: worked out ahead, or kept for the next pass."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
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

AUTOTUNED = 2


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
    return PrefetchDataset(dataset_of(source), AUTOTUNED if count == -1 else count)


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
