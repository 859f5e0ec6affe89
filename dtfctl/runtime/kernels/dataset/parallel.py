"""Maps and interleaves that compute several elements at a time.

Threads of the pass do the work and stop with it. Elements come in the order of the sequential dataset, unless the op or
the dataset's options allow any order: then whatever is ready is given before what is not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from dtfctl import guard
from dtfctl.cores import available
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
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
from dtfctl.runtime.kernels.dataset.interleave import InterleaveDataset, cycle_and_block
from dtfctl.runtime.kernels.dataset.mapping import MapDataset, mapped
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild

# Threads where the user leaves their number to us; more than a few of them only wait for the interpreter.
AUTOTUNED = min(4, available())


def ordered(k: KernelBuild, iteration: Iteration) -> bool:
    """Tell whether elements keep their order: what the node says, else what the options of the whole dataset do."""
    if k.attr("sloppy", False):
        return False
    said = k.text_attr("deterministic", "default")
    return iteration.deterministic if said == "default" else said == "true"


def parallelism(value: Any) -> int:
    """Read how many threads `num_parallel_calls` asks for.

    Raises:
        InvalidArgumentError: it is no positive number, nor -1 for "choose".
    """
    count = int(scalar_of(value, "num_parallel_calls"))
    if count != -1 and count < 1:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    return AUTOTUNED if count == -1 else count


class _Slot:
    """The place of one element: worked on, then an element or what went wrong with it."""

    __slots__ = ("item",)

    def __init__(self) -> None:
        self.item: Element | Exception | None = None

    def take(self) -> Element:
        if isinstance(self.item, Exception):
            raise self.item
        assert self.item is not None
        return self.item


class ParallelMapDataset(Dataset):
    """Up to `workers` elements are mapped at a time, and no more than that many wait to be taken."""

    def __init__(self, mapped: MapDataset, workers: int, in_order: Callable[[Iteration], bool]) -> None:
        self.mapped, self.workers, self.in_order = mapped, workers, in_order

    def iterate(self, iteration: Iteration) -> Next:
        return _ParallelMap(self.mapped, self.workers, self.in_order(iteration), iteration).advance

    def cardinality(self) -> int:
        return self.mapped.cardinality()

    def require_access(self) -> None:
        self.mapped.require_access()

    def access(self, iteration: Iteration) -> Access:
        return self.mapped.access(iteration)


class _ParallelMap:
    """One pass. Inputs are taken under `_input_lock`, by which slots stand in the order of their inputs."""

    def __init__(self, mapped: MapDataset, workers: int, in_order: bool, iteration: Iteration) -> None:
        self._iteration = iteration
        self._ahead = iteration.background()
        self._workers, self._in_order = workers, in_order
        self._source = mapped.source.iterate(self._ahead)
        self._apply = mapped.apply
        self._condition = threading.Condition()
        self._input_lock = threading.Lock()
        self._slots: deque[_Slot] = deque()
        self._started = self._ended = False
        self._ahead.on_close(self._wake)

    def advance(self) -> Element:
        if not self._started:
            self._started = True
            for _ in range(self._workers):
                guard.once(self._work, name="dataset-map").start()
        with self._condition:
            self._iteration.cancellation.wait(self._condition, lambda: self._next_slot() is not None or self._at_end())
            slot = self._next_slot()
            if slot is None:
                raise EndOfSequence
            self._slots.remove(slot)
            self._condition.notify_all()
        return slot.take()

    def _at_end(self) -> bool:
        return self._ended and not self._slots

    def _next_slot(self) -> _Slot | None:
        if self._in_order:
            return self._slots[0] if self._slots and self._slots[0].item is not None else None
        return next((slot for slot in self._slots if slot.item is not None), None)

    def _work(self) -> None:
        while True:
            with self._input_lock:
                with self._condition:
                    while len(self._slots) >= self._workers and not self._stopped():
                        self._condition.wait()
                    if self._stopped():
                        return
                slot = _Slot()
                try:
                    element = self._source()
                except EndOfSequence:
                    self._end()
                    return
                except Exception as e:
                    slot.item = e
                with self._condition:
                    self._slots.append(slot)
                    self._condition.notify_all()
            if slot.item is None:
                item: Element | Exception
                try:
                    item = self._apply(self._ahead, element)
                except Exception as e:
                    item = e
                with self._condition:
                    slot.item = item
                    self._condition.notify_all()

    def _stopped(self) -> bool:
        return self._ended or self._ahead.cancellation.reason is not None

    def _end(self) -> None:
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()


@register_dataset("ParallelMapDataset", "ParallelMapDatasetV2")
def parallel_map_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, parallel = rest
    plain = mapped(k, step, source, captured)
    return ParallelMapDataset(plain, parallelism(parallel), lambda iteration: ordered(k, iteration))


class ParallelInterleaveDataset(Dataset):
    """`InterleaveDataset` with a thread for each of the datasets in turn that works ahead, `workers` at a time."""

    def __init__(self, plain: InterleaveDataset, workers: int, in_order: Callable[[Iteration], bool]) -> None:
        self.plain, self.workers, self.in_order = plain, workers, in_order

    def iterate(self, iteration: Iteration) -> Next:
        return _ParallelInterleave(self.plain, self.workers, self.in_order(iteration), iteration).advance

    def cardinality(self) -> int:
        return UNKNOWN


class _Stream:
    """One of the datasets in turn, read ahead into `ready` by a thread of its own."""

    def __init__(self, following: Next) -> None:
        self.following = following
        self.ready: deque[Element | Exception] = deque()
        self.ended = False

    @classmethod
    def failed(cls, error: Exception) -> _Stream:
        """Make a stream for a dataset that could not be made: its error, and then its end."""

        def following() -> Element:
            raise EndOfSequence

        stream = cls(following)
        stream.ready.append(error)
        stream.ended = True
        return stream


class _ParallelInterleave:
    """One pass. `advance` alone moves the turn and opens datasets, so their order is that of the plain interleave."""

    def __init__(self, plain: InterleaveDataset, workers: int, in_order: bool, iteration: Iteration) -> None:
        self._plain, self._in_order, self._iteration = plain, in_order, iteration
        self._ahead = iteration.background()
        self._outer: Next | None = plain.source.iterate(self._ahead)
        self._turns = threading.Semaphore(workers)
        self._condition = threading.Condition()
        self._streams: list[_Stream | None] = [None] * plain.cycle
        self._at = self._used = 0
        self._started = False
        self._ahead.on_close(self._wake)

    def advance(self) -> Element:
        if not self._started:
            self._started = True
            for i in range(len(self._streams)):
                self._open(i)
        while any(self._streams):
            with self._condition:
                self._iteration.cancellation.wait(self._condition, self._find)
                stream = self._streams[self._at]
                assert stream is not None
                item = stream.ready.popleft() if stream.ready else None
                self._condition.notify_all()
            if item is None:
                self._streams[self._at] = None
                self._open(self._at)
                self._turn()
                continue
            self._used += 1
            if self._used == self._plain.block:
                self._turn()
            if isinstance(item, Exception):
                raise item
            return item
        raise EndOfSequence

    def _find(self) -> bool:
        """Move to the stream to take from, if there is something to take; called under the condition."""
        count = len(self._streams)
        for i in range(count):
            stream = self._streams[(self._at + i) % count]
            if stream is None:
                continue
            if stream.ready or stream.ended:
                for _ in range(i):
                    self._turn()
                return True
            if self._in_order:
                return False
        return False

    def _turn(self) -> None:
        self._at, self._used = (self._at + 1) % len(self._streams), 0

    def _open(self, i: int) -> None:
        """Put the dataset of the next input into place `i`; nothing when there is no input."""
        if self._outer is None:
            return
        try:
            dataset = dataset_of(self._plain.function(self._ahead, self._outer())[0])
            stream = self._streams[i] = _Stream(dataset.iterate(self._ahead))
        except EndOfSequence:
            self._outer = None
        except Exception as e:
            self._streams[i] = _Stream.failed(e)
        else:
            guard.once(self._read, args=(stream,), name="dataset-interleave").start()

    def _read(self, stream: _Stream) -> None:
        while True:
            with self._condition:
                while len(stream.ready) >= self._plain.block and self._ahead.cancellation.reason is None:
                    self._condition.wait()
            if self._ahead.cancellation.reason is not None:
                return
            item: Element | Exception | None
            with self._turns:
                try:
                    item = stream.following()
                except EndOfSequence:
                    item = None
                except Exception as e:
                    item = e
            with self._condition:
                if item is None:
                    stream.ended = True
                else:
                    stream.ready.append(item)
                self._condition.notify_all()
            if item is None:
                return

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()


def _parallel(
    k: KernelBuild,
    step: StepContext,
    source: Any,
    captured: Any,
    cycle: Any,
    block: Any,
    workers: int | None,
    sloppy: bool = False,
) -> Dataset:
    length, size = cycle_and_block(cycle, block, AUTOTUNED)
    plain = InterleaveDataset(dataset_of(source), function_of(k, step, tuple(captured)), length, size)
    return ParallelInterleaveDataset(plain, workers or length, lambda iteration: not sloppy and ordered(k, iteration))


@register_dataset("ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3")
def parallel_interleave_v2(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, cycle, block, parallel = rest
    return _parallel(k, step, source, captured, cycle, block, parallelism(parallel))


@register_dataset("ParallelInterleaveDatasetV4")
def parallel_interleave_v4(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, cycle, block, _buffered, _prefetched, parallel = rest
    return _parallel(k, step, source, captured, cycle, block, parallelism(parallel))


@register_dataset("LegacyParallelInterleaveDatasetV2")
def parallel_interleave_legacy(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, cycle, block, _buffered, _prefetched = rest
    return _parallel(k, step, source, captured, cycle, block, None)


@register_dataset("ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset")
def parallel_interleave(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, cycle, block, sloppy, _buffered, _prefetched = rest
    return _parallel(k, step, source, captured, cycle, block, None, bool(scalar_of(sloppy, "sloppy")))
