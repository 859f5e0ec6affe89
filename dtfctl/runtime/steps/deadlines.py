"""One thread for all timeouts of this process."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from dtfctl import guard


class Deadlines:
    """Calls functions at given times, unless they are withdrawn before. The functions must not block."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._heap: list[tuple[float, int]] = []
        self._pending: dict[int, Callable[[], None]] = {}
        self._ids = itertools.count()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, function: Callable[[], None]) -> Callable[[], None]:
        """Call `function` in that time; returns a function that withdraws it."""
        with self._condition:
            key = next(self._ids)
            self._pending[key] = function
            heapq.heappush(self._heap, (time.monotonic() + seconds, key))
            if self._thread is None:
                self._thread = guard.forever(self._run, name="dtf-deadlines")
                self._thread.start()
            elif self._heap[0][1] == key:
                self._condition.notify()
        return lambda: self._withdraw(key)

    def _withdraw(self, key: int) -> None:
        with self._condition:
            self._pending.pop(key, None)
            while self._heap and self._heap[0][1] not in self._pending:
                heapq.heappop(self._heap)
            if len(self._heap) > 64 + 2 * len(self._pending):
                self._heap = [item for item in self._heap if item[1] in self._pending]
                heapq.heapify(self._heap)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    self._condition.wait(self._heap[0][0] - time.monotonic() if self._heap else None)
                key = heapq.heappop(self._heap)[1]
                function = self._pending.pop(key, None)
            if function is not None:
                guard.call(function, "what was to be done by the clock")  # others' times must not wait for a pause


DEADLINES = Deadlines()
