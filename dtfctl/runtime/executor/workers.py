"""Threads for kernels that wait.

Such kernels may wait for each other, so there is no upper bound to how many run; idle threads are kept for a while.
A process may be a server's and a program's at once: each gets threads that treat denormal numbers as its own do.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable

from dtfctl import guard
from dtfctl.runtime.framework.denormals import flushes_denormals
from dtfctl.runtime.kernels.teams import IDLE_S, let_go

_IDLE_SECONDS = 10.0


class _Pool:
    """An unbounded pool of daemon threads, alike in what they inherit from those that start them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = 0

    def submit(self, task: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return
        guard.once(self._work, args=([task],), name="dtfctl-kernel").start()

    def _work(self, first: list[Callable[[], None]]) -> None:
        # Taken out of what the thread was started with, which lasts as long as the thread.
        task: Callable[[], None] | None = first.pop()
        while task is not None:
            guard.call(task, "a kernel's thread")
            # What it holds must not wait for the next one with this thread.
            task = None
            with self._lock:
                self._idle += 1
            task = self._next()

    def _next(self) -> Callable[[], None] | None:
        with contextlib.suppress(queue.Empty):
            return self._tasks.get(timeout=IDLE_S)
        let_go()
        try:
            return self._tasks.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                # A task may have been left for this thread between the timeout and the lock.
                if self._tasks.empty():
                    self._idle -= 1
                    return None
            return self._tasks.get()


class Workers:
    """Threads for as many tasks as there are at a time."""

    def __init__(self) -> None:
        self._keeping, self._flushing = _Pool(), _Pool()

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` in a thread at once. It must not raise."""
        (self._flushing if flushes_denormals() else self._keeping).submit(task)


WORKERS = Workers()
