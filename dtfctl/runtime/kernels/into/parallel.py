"""Large element-wise work by several cores: the caller and a few threads that wait for work.

Work comes in parts. The caller takes part after part itself, and so do the threads that have woken up meanwhile: where
cores are busy with something else the caller does most of it alone and waits for nobody who has not begun; and where
those who have begun keep it waiting all the same, it does without them for a while.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.cores import granted
from dtfctl.runtime.framework.denormals import flush_denormals, flushes_denormals
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.into.threads import threaded

# Bytes of the largest array below which waking a thread costs more than it saves.
LEAST_BYTES = 1 << 20
PARTS_EACH = 2
# What one stage of several gives at a time: it is in cache when the next one wants it.
_PART_BYTES = 256 << 10


class _Job:
    """Parts of one call that wait to be taken, and what came of them.

    A process may be a server's and a program's at once: who takes a part treats denormal numbers as the caller does.
    """

    def __init__(self, parts: Sequence[Callable[[], Any]]) -> None:
        self.parts = list(parts)
        self.left = len(parts)
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.flushes = flushes_denormals()

    def work(self) -> None:
        """Take parts until there are none."""
        while True:
            with self.lock:
                if not self.parts:
                    return
                part = self.parts.pop()
            try:
                part()
            except BaseException as e:
                self.error = e
            # Who is waited for no longer has no arrays any more.
            del part
            with self.lock:
                self.left -= 1
                if not self.left:
                    self.done.set()


class ThreadPool:
    """`size` threads, the caller's among them; started at the first call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._started = False
        self._lock = threading.Lock()

    def run(self, parts: Sequence[Callable[[], Any]]) -> None:
        """Run all parts; returns when they have ended.

        Raises:
            Exception: what a part raised.
        """
        if self.size < 2:
            for part in parts:
                part()
            return
        if not self._started:
            self._start()
        job = _Job(parts)
        for _ in range(min(self.size, len(parts)) - 1):
            self._jobs.put(job)
        job.work()
        job.done.wait()
        if job.error is not None:
            raise job.error

    def share(self, rows: int, part: Callable[[slice], Any]) -> None:
        """Call `part` with all of so many rows, some at a time."""
        self.run([partial(part, some) for some in bounds(rows, self.size * PARTS_EACH)])

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                for n in range(self.size - 1):
                    guard.forever(self._serve, name=f"kernels-{n}").start()
                self._started = True

    def _serve(self) -> None:
        flushes = flushes_denormals()
        while True:
            job = self._jobs.get()
            if job.flushes != flushes:
                flushes = job.flushes
                flush_denormals(flushes)
            with np.errstate(all="ignore"):
                job.work()
            del job


def shared_pool() -> ThreadPool:
    """Return the pool of this process, of as many threads as it may keep running."""
    return _pool(os.getpid())


@cache
def _pool(process: int) -> ThreadPool:
    return ThreadPool(granted())


@dataclass
class Stage:
    """A call on rows among others that follow each other.

    Attributes:
        call, extras: as of an `Into` that is `by_rows`.
        arrays: what is known of the inputs, then of the outputs and scratch arrays.
        inputs: how many of those are inputs.
        output: what is known of the first output.
    """

    call: Callable[..., Any]
    extras: tuple[Any, ...]
    arrays: list[Any]
    inputs: int
    output: Spec

    @property
    def nbytes(self) -> int:
        """The bytes of the largest of the arrays."""
        return int(max(s.nbytes for s in self.arrays if s is not None))

    @property
    def cut(self) -> list[bool] | None:
        """Which arrays are cut along with the output; None where that cannot be."""
        shape = self.output.shape
        if not shape or shape[0] < 2:
            return None
        same = [s for s in self.arrays if s is not None and len(s.shape) == len(shape)]
        # A single row is the same for all parts.
        if any(s.shape[0] not in (1, shape[0]) for s in same):
            return None
        return [s is not None and len(s.shape) == len(shape) and s.shape[0] == shape[0] for s in self.arrays]


def stage_of(into: Into, inputs: list[Any], outputs: list[Spec]) -> Stage:
    return Stage(into.call, into.extras, [*inputs, *outputs, *into.scratch], len(inputs), outputs[0])


def in_parts(stages: list[Stage]) -> Callable[..., None] | None:
    """Stages that run one after the other on some rows, then on the next, by several cores; their arrays, stage after
    stage, are the arguments. None where that gains nothing, or cannot be."""
    cuts = [stage.cut for stage in stages]
    lead = stages[0].output.shape[0] if stages[0].output.shape else 0
    largest = max(stage.nbytes for stage in stages)
    if largest < LEAST_BYTES or any(c is None for c in cuts) or any(s.output.shape[0] != lead for s in stages):
        return None
    size = granted()
    if len(stages) == 1 and size < 2:
        return None
    parts = size * PARTS_EACH if len(stages) == 1 else max(size * PARTS_EACH, largest // _PART_BYTES)
    pool = shared_pool()
    cuts_at = list(bounds(lead, parts))
    steps: list[tuple[Callable[..., Any], tuple[Any, ...], list[tuple[int, bool]], int]] = []
    at = 0
    for stage, cut in zip(stages, cuts):
        assert cut is not None
        steps.append((stage.call, stage.extras, [(at + n, c) for n, c in enumerate(cut)], stage.inputs))
        at += len(cut)

    def part(values: tuple[Any, ...], rows: slice) -> None:
        for call, extras, where, inputs in steps:
            pieces = [values[n][rows] if c else values[n] for n, c in where]
            call(*pieces[:inputs], *extras, *pieces[inputs:])

    def together(*values: Any) -> None:
        pool.run([partial(part, values, rows) for rows in cuts_at])

    def alone(*values: Any) -> None:
        for rows in cuts_at:
            part(values, rows)

    return threaded(together, alone, size, claimed=together)


def in_parallel(into: Into, inputs: list[Any], outputs: list[Spec]) -> Callable[..., Any]:
    """Make the call of `into` share its work among several cores where it is large."""
    return in_parts([stage_of(into, inputs, outputs)]) or into.call


def bounds(rows: int, parts: int) -> Iterator[slice]:
    """Divide rows into parts of about the same size."""
    parts = min(parts, rows)
    for i in range(parts):
        yield slice(rows * i // parts, rows * (i + 1) // parts)
