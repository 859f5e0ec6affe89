"""How many threads a matrix product or convolution gets: all, or the caller's alone while other work has the cores.

The threads of a product wait for each other, many times in some libraries. Where other processes want the cores they
wait until the scheduler has given each of them its turn, and a product takes milliseconds that takes 0.3 ms on one
core of two. So the host is asked how many threads want to run, and while they leave too few cores, products are left
to their callers. Where it does not say, or where it is the process that may not have the cores, products show it: what
they cost on one core is found out first, and where more threads have lost more than they have gained, they are left to
their callers for a while. Long sums can then round differently, as on a machine of fewer cores; `DTF_ADAPT_THREADS=0`
keeps the number of threads as it is.
"""

from __future__ import annotations

import math
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
# How often the host is asked, and for how long what it said counts.
_LOOK_S, _MEMORY_S = 0.002, 0.02
# For so long after a product its threads may still be looking for work.
_SPIN_S = 0.001
# What part of the threads of a product must find a core to themselves.
_LEAST_ROOM = 0.75

clock = time.perf_counter


class Host:
    """How many threads of others want the host's cores, as an average over the last moments.

    Args:
        path: a file in the format of /proc/loadavg, whose fourth field begins with how many want to run now.
    """

    def __init__(self, path: str = "/proc/loadavg") -> None:
        self._path = path
        self._file: int | None = None
        self._read_at = -math.inf
        self._wanting = 0.0

    def wanting(self, own: int, now: float) -> float:
        """Return the average; 0 where the host does not say.

        Args:
            own: how many threads of the process are running.
        """
        passed = now - self._read_at
        if passed >= _LOOK_S:
            self._read_at = now
            found = self._running()
            if found is not None:
                others = max(found - own, 0)
                self._wanting += (others - self._wanting) * (1 - math.exp(-passed / _MEMORY_S))
        return self._wanting

    def _running(self) -> int | None:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._file, 100, 0).split()[3].partition(b"/")[0])
        except (OSError, ValueError, IndexError):
            self._read_at = math.inf
            return None


class Crowd:
    """Whether other work is on the cores; one for all products of a process.

    Args:
        cores: of the host.
    """

    def __init__(self, host: Host | None = None, cores: int | None = None) -> None:
        self.alone_until = 0.0
        self._host = host
        self._cores = cores or os.cpu_count() or 1
        self._pause = _FIRST_PAUSE_S
        self._lost_s = 0.0
        # When threads had work last, and how many did.
        self._ended, self._threads = -math.inf, 1

    def leaves_room(self, count: int, now: float) -> bool:
        """Tell whether `count` threads would find cores."""
        if now < self.alone_until:
            return False
        if self._host is None:
            return True
        own = self._threads if now - self._ended < _SPIN_S else 1
        return self._cores - self._host.wanting(own, now) >= count * _LEAST_ROOM

    def took(self, more_s: float, count: int, now: float) -> None:
        """Note that a product by `count` threads has taken so much more, or less, than it takes on one core."""
        self._ended, self._threads = now, count
        self._lost_s = max(self._lost_s + more_s, 0.0)
        if self._lost_s > _MOST_LOST_S:
            self._lost_s = 0.0
            self._suffered(now)

    def _suffered(self, now: float) -> None:
        """Threads were in vain: do without them for a while, for longer if the last pause has only just ended."""
        soon = now - self.alone_until < self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S) if soon else _FIRST_PAUSE_S
        self.alone_until = now + self._pause


_CROWD = Crowd(Host())


def at_once(call: Callable[..., Any], alone: Callable[..., Any], count: int, *args: Any) -> Any:
    """Call by `count` threads if they find cores, else by the caller's alone; for work that is done in many sizes."""
    if count > 1 and (not adapts() or _CROWD.leaves_room(count, clock())):
        result = call(*args)
        _CROWD.took(0.0, count, clock())
        return result
    return alone(*args)


def by_one(call: Callable[..., Any], set_threads: Callable[[int], None], count: int) -> Callable[..., Any]:
    """Make a call use one thread of a library that has `count` otherwise."""

    def alone(*args: Any) -> Any:
        set_threads(1)
        try:
            return call(*args)
        finally:
            set_threads(count)

    return alone


def threaded(
    call: Callable[..., Any], alone: Callable[..., Any], count: int, crowd: Crowd = _CROWD
) -> Callable[..., Any]:
    """Make a product use as many threads as are good for it at the moment.

    Args:
        call: computes it by `count` threads; alone: the same by the caller's.
    """
    if count < 2 or not adapts():
        return call
    trials = _TRIALS
    cost = float("inf")

    def adapted(*args: Any) -> Any:
        nonlocal trials, cost
        began = clock()
        if trials:
            result = alone(*args)
            trials -= 1
            cost = min(cost, clock() - began)
        elif not crowd.leaves_room(count, began):
            result = alone(*args)
            taken = clock() - began
            cost = taken if taken < cost else cost + (taken - cost) * _SLOWER
        else:
            result = call(*args)
            now = clock()
            crowd.took(now - began - cost, count, now)
        return result

    return adapted


def adapts() -> bool:
    """Tell whether the number of threads may be changed."""
    return os.environ.get("DTF_ADAPT_THREADS", "1") != "0"
