"""A dataset whose elements are worked out ahead."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from dtfctl import guard
from dtfctl.runtime.framework.errors import InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.kernels.admission import gathered
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    dataset_of,
    element_bytes,
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
        due = 1

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

        def is_full(item: Element | Exception) -> bool:
            nonlocal due
            if len(ready) >= self.size:
                return True
            if len(ready) >= due and not isinstance(item, Exception):
                try:
                    due = gathered(len(ready), element_bytes(item))
                except ResourceExhaustedError:
                    # What lies ready is enough.
                    return True
            return False

        def put(item: Element | Exception) -> bool:
            with condition:
                while is_full(item) and ahead.cancellation.reason is None:
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
                guard.once(work, name="dataset-prefetch").start()
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

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        return self.source.access(iteration)


@register_dataset("PrefetchDataset")
def prefetch_dataset(k: KernelBuild, step: StepContext, source: Any, size: Any) -> Dataset:
    count = scalar_of(size, "buffer_size")
    if count < -1:
        raise InvalidArgumentError("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
    return PrefetchDataset(dataset_of(source), AUTOTUNED if count == -1 else count)
