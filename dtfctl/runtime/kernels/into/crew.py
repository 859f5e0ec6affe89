"""Large element-wise work by several cores: the caller and a few threads that wait for work.

Work comes in parts. The caller takes part after part itself, and so do the threads that have woken up meanwhile: where
cores are busy with something else the caller does most of it alone and waits for nobody who has not begun.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Into, Spec

# Bytes of the result below which waking a thread costs more than it saves.
LEAST_BYTES = 1 << 20
_PARTS_EACH = 2


def _cores() -> int:
    """As many as BLAS may use: the launcher shares a host's cores among its tasks that way."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value):
            return min(available, int(value))
    return available


class _Job:
    """Parts of one call that wait to be taken, and what came of them."""

    def __init__(self, parts: list[Callable[[], None]]) -> None:
        self.parts = parts
        self.left = len(parts)
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.error: BaseException | None = None

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
            with self.lock:
                self.left -= 1
                if not self.left:
                    self.done.set()


class Crew:
    """`size` threads, the caller's among them; started at the first call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._started = False
        self._lock = threading.Lock()

    def run(self, parts: list[Callable[[], None]]) -> None:
        """Run all parts; returns when they have ended.

        Raises:
            Exception: what a part raised.
        """
        if not self._started:
            self._start()
        job = _Job(parts)
        for _ in range(min(self.size, len(parts)) - 1):
            self._jobs.put(job)
        job.work()
        job.done.wait()
        if job.error is not None:
            raise job.error

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                for n in range(self.size - 1):
                    threading.Thread(target=self._serve, name=f"crew-{n}", daemon=True).start()
                self._started = True

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            with np.errstate(all="ignore"):
                job.work()
            del job


@cache
def _crew(process: int) -> Crew:
    return Crew(_cores())


def by_crew(into: Into, inputs: list[Any], outputs: list[Spec]) -> Into:
    """The same work cut along the first dimension, where it is large and there are cores for it.

    The call must compute each row of its outputs and scratch arrays from the same rows of the inputs that have as many
    rows, and from all of those that have fewer dimensions.
    """
    lead, rank = outputs[0].shape[0] if outputs[0].shape else 0, len(outputs[0].shape)
    if outputs[0].nbytes < LEAST_BYTES or lead < 2 or _cores() < 2:
        return into
    arrays = [*inputs, *(None for _ in into.extras), *outputs, *into.scratch]
    # A single row is the same for all parts.
    if any(s is not None and len(s.shape) == rank and s.shape[0] not in (1, lead) for s in arrays):
        return into
    cut = [s is not None and len(s.shape) == rank and s.shape[0] == lead for s in arrays]
    call, crew = into.call, _crew(os.getpid())
    bounds = list(_bounds(lead, crew.size * _PARTS_EACH))

    def part(values: tuple[Any, ...], rows: slice) -> Callable[[], None]:
        return lambda: call(*[v[rows] if c else v for v, c in zip(values, cut)])

    def together(*values: Any) -> None:
        crew.run([part(values, rows) for rows in bounds])

    return Into(together, into.extras, into.scratch, into.in_place, into.fills)


def _bounds(rows: int, parts: int) -> Iterator[slice]:
    parts = min(parts, rows)
    for i in range(parts):
        yield slice(rows * i // parts, rows * (i + 1) // parts)
