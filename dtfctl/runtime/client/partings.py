"""Calls on behalf of objects that nobody refers to any more, in a thread of their own.

The cycle collector may run wherever something is made, so under any lock that this thread holds already: what closes a
session there waits for itself for ever. Its `__del__` leaves the call here instead.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable

from dtfctl import guard


class Partings:
    """A thread that makes the calls, one after the other, and ignores what they raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Its `put` may be interrupted by another one of the same thread.
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def prepare(self) -> None:
        """Start the thread unless it runs: `leave` cannot, as that takes locks. A fork has none of its parent's."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._calls = queue.SimpleQueue()
                self._thread = guard.forever(self._serve, (self._calls,), name="dtf-partings")
                self._thread.start()

    def leave(self, call: Callable[[], object]) -> None:
        """Have a call made soon; takes no lock, and never waits."""
        if sys.is_finalizing():
            # No other thread runs any more.
            with contextlib.suppress(Exception):
                call()
            return
        self._calls.put(call)

    def _serve(self, calls: queue.SimpleQueue[Callable[[], object]]) -> None:
        while True:
            call: Callable[[], object] | None = calls.get()
            with contextlib.suppress(Exception):
                assert call is not None
                call()
            call = None


PARTINGS = Partings()
