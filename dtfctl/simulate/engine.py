"""Time, processors that tasks of a host share, and cables that carry one message after the other."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Then = Callable[[], None]
MOST_CORES = 4096
"""The most cores of a host that are simulated."""


class Clock:
    """Simulated time, in seconds; what happens at the same time happens in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._numbers = count()

    def at(self, time: float, then: Then) -> None:
        """Have something happen at a time, now if that is over."""
        heapq.heappush(self._events, (max(time, self.now), next(self._numbers), then))

    def run(self) -> None:
        """Let time pass until nothing is to happen any more."""
        while self._events:
            self.now, _, then = heapq.heappop(self._events)
            then()


class Host:
    """Processors that all who work on the host share evenly.

    Args:
        slowdown: how much longer work takes while two processors or more are busy: these share memory.
        crowded: and while there is more work than processors: each finds nothing in their caches.
        busy: the share of processors that work then.

    Attributes:
        used_s: of processors, by work that is over.
    """

    def __init__(
        self, clock: Clock, cores: int, slowdown: float = 1.0, crowded: float = 1.0, busy: float = 1.0
    ) -> None:
        self._clock = clock
        self._cores = cores
        self._slowdown = slowdown
        self._crowded = crowded
        self._able = cores * busy
        # Everybody gets as much: so what is left is counted by what each has got since the beginning.
        self._given = 0.0
        self._since = 0.0
        self._working: list[tuple[float, int, Then]] = []
        self._numbers = count()
        self._turn = 0
        self.used_s = 0.0

    def work(self, seconds: float, then: Then) -> None:
        """Do work of so many seconds of one processor, then something else."""
        if seconds <= 0:
            self._clock.at(self._clock.now, then)
            return
        self._pass()
        heapq.heappush(self._working, (self._given + seconds, next(self._numbers), then))
        self._plan()

    def _rate(self) -> float:
        busy = len(self._working)
        if busy > self._cores:
            return self._able / busy / self._crowded
        return 1 / self._slowdown if busy > 1 else 1.0

    def _pass(self) -> None:
        now = self._clock.now
        if self._working:
            self._given += (now - self._since) * self._rate()
            busy = len(self._working)
            self.used_s += (now - self._since) * (self._able if busy > self._cores else busy)
        self._since = now

    def _plan(self) -> None:
        self._turn += 1
        if self._working:
            turn = self._turn
            left = (self._working[0][0] - self._given) / self._rate()
            self._clock.at(self._clock.now + left, lambda: self._done(turn))

    def _done(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._pass()
        ended = [heapq.heappop(self._working)]
        while self._working and self._working[0][0] <= ended[0][0]:
            ended.append(heapq.heappop(self._working))
        self._given = max(self._given, ended[0][0])
        self._plan()
        for _, _, then in ended:
            then()


class Cable:
    """Carries one message after the other, in one direction, at so many bytes a second."""

    def __init__(self, bytes_s: float) -> None:
        self._bytes_s = bytes_s
        self._free_at = 0.0

    def carry(self, nbytes: float, first: float, last: float) -> tuple[float, float]:
        """Carry a message whose first byte comes at one time and whose last one at another; the same of its end."""
        begins = max(first, self._free_at)
        self._free_at = max(begins + nbytes / self._bytes_s, last)
        return begins, self._free_at
