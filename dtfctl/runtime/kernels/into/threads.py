"""How many threads a matrix product or convolution gets: all, or the caller's alone while other work has the cores.

The threads of a product wait for each other, many times in some libraries. Where other processes want the cores they
wait until the scheduler has given each of them its turn, and a product takes milliseconds that takes 0.3 ms on one core
of two. So what products cost on one core is found out first, and where more threads have lost more than they have
gained, products are left to their callers for a while. Long sums can then round differently, as on a machine of fewer
cores; `DTF_ADAPT_THREADS=0` keeps the number of threads as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

# Runs by which a product's cost on one core becomes known.
_TRIALS = 3
# Threads are given up when all products together have lost so many seconds by them; what they gain meanwhile counts
# against that. A core that is away for some milliseconds now and then costs less than doing without it.
_MOST_LOST_S = 0.01
# How much of the difference counts when a product takes longer on one core than before: the core itself became slower.
_SLOWER = 0.1
# How long products are left to their callers: first, and at most when each attempt fails.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

clock = time.perf_counter


class Crowd:
    """Whether other work is on the cores, as far as products can tell; one for all products of a process."""

    def __init__(self) -> None:
        self.alone_until = 0.0
        self._pause = _FIRST_PAUSE_S
        self._lost_s = 0.0

    def took(self, more_s: float, now: float) -> None:
        """Note that a product by all threads has taken so much more, or less, than it takes on one core."""
        self._lost_s = max(self._lost_s + more_s, 0.0)
        if self._lost_s > _MOST_LOST_S:
            self._lost_s = 0.0
            self._suffered(now)

    def _suffered(self, now: float) -> None:
        """Threads were in vain: do without them for a while, for longer if the last pause has only just ended."""
        soon = now - self.alone_until < self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S) if soon else _FIRST_PAUSE_S
        self.alone_until = now + self._pause


_CROWD = Crowd()


def by_one(call: Callable[..., None], set_threads: Callable[[int], None], count: int) -> Callable[..., None]:
    """Make a call use one thread of a library that has `count` otherwise."""

    def alone(*args: Any) -> None:
        set_threads(1)
        try:
            call(*args)
        finally:
            set_threads(count)

    return alone


def threaded(
    call: Callable[..., None], alone: Callable[..., None], count: int, crowd: Crowd = _CROWD
) -> Callable[..., None]:
    """Make a product use as many threads as are good for it at the moment.

    Args:
        call: computes it by `count` threads; alone: the same by the caller's.
    """
    if count < 2 or os.environ.get("DTF_ADAPT_THREADS", "1") == "0":
        return call
    trials = _TRIALS
    cost = float("inf")

    def adapted(*args: Any) -> None:
        nonlocal trials, cost
        began = clock()
        if trials:
            alone(*args)
            trials -= 1
            cost = min(cost, clock() - began)
        elif began < crowd.alone_until:
            alone(*args)
            taken = clock() - began
            cost = taken if taken < cost else cost + (taken - cost) * _SLOWER
        else:
            call(*args)
            now = clock()
            crowd.took(now - began - cost, now)

    return adapted
