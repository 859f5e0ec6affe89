"""A few threads that encrypt and write long tensors for all links of this process, so that no step's thread has to."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

from dtfctl import guard

MOST = 4


class Pumps:
    """Work that never waits, in the order in which it is handed over.

    Args:
        count: of threads, started with the first work.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Have it called in one of the threads."""
        if self._started < self._count:
            with self._lock:
                if self._started < self._count:
                    self._started += 1
                    guard.forever(self._serve, name=f"dtf-pump-{self._started}").start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            work()
            # What it holds must not wait for the next one.
            del work


PUMPS = Pumps(max(1, min(MOST, len(os.sched_getaffinity(0)) - 1)))
