"""By which of several ways a product, a convolution or work in parts is done: by a team of threads, in parts that
threads claim one by one, or by the caller alone.

Threads gain time while they find cores. Where they do not, or where it takes as long to wake them as they help, they
lose it: those of a product wait for each other, and beside others that want the cores each wait lasts until the
scheduler has given all of them a turn. So each call is timed by each of its ways, and has the one that takes least at
the moment; the others are tried anew whenever what that may cost is a small part of what the call has cost since. What
all calls lose by threads in a bad moment is known to all of them at once, and where the host says how many threads
want to run, a team is not even tried while it leaves too few cores. Parts that are claimed are: the caller waits for
nobody who has not begun, and a process gets as many shares of busy cores as it has threads that want them.

The host is asked when a call has ended, not before: what wants a core then wanted it beside the call. Before a call,
and between calls, cores are used by those that a step's tasks wait for, and who waits for each other wants no cores at
once: a ps that has just sent parameters, the client, the thread that has received.

Long sums can round differently by another way, as on a machine of fewer cores; `DTF_ADAPT_THREADS=0` keeps all threads.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

from dtfctl import cores

# Runs by which it becomes known what a way costs.
_TRIALS = 3
# Those of parts that threads claim: a thread that has slept finds a core late, and finds it at once when all calls of a
# step have claimed parts for a while. So the first ones, which also make what they need, do not count, unless none of a
# few comes near to one thread's time; and after so many seconds all is learned anew.
_CLAIMS, _COLD_CLAIMS, _CLAIMS_KNOWN_S = 12, 6, 20.0
_FEW_CLAIMS, _HOPELESS = 4, 1.2
# What part of a difference counts: of runs that follow each other, and of one after some time.
_WEIGHT, _WEIGHT_ANEW = 1 / 8, 1 / 2
# A run that takes so many times what it should was kept waiting, and says nothing of what it costs otherwise.
_WAITED = 3.0
# What part of a wait counts for all calls: of runs that follow each other, and of one after some time.
_WAIT, _WAIT_ANEW = 1 / 32, 1 / 4
# Threads are to gain so much at least: they take the time of cores even where they gain nothing.
_LEAST_GAIN = 0.95
# What part of its time a call may lose by trying the way that was worse, and the most by which that is put off when
# it turns out worse each time.
_TRYING, _MOST_PUT_OFF = 0.02, 16
# What was waited counts so long, as only who uses threads finds out that there is no waiting any more.
_FORGET_S = 5.0
# How often the host is asked, and for how long what it said counts: of the time that calls take, and of all.
_LOOK_S, _MEMORY_S, _MEMORY_ALL_S = 0.002, 0.02, 1.0
# For so long after a product its threads may still be looking for work.
_SPIN_S = 0.001
# What part of the threads of a product must find a core to themselves.
_LEAST_ROOM = 0.75

clock = time.perf_counter


class Host:
    """How many threads of others want the host's cores while calls run, as an average over the last of them.

    Args:
        path: a file in the format of /proc/loadavg, whose fourth field begins with how many want to run now.
    """

    def __init__(self, path: str = "/proc/loadavg") -> None:
        self._path = path
        self._file: int | None = None
        self._read_at = -math.inf
        # How long calls have run since.
        self._ran = 0.0
        self.wanting = 0.0
        """The average; 0 where the host does not say."""

    def ran(self, taken: float, own: int, now: float) -> None:
        """Note that a call has ended.

        Args:
            taken: seconds.
            own: how many threads of the process are running.
        """
        self._ran += taken
        passed = now - self._read_at
        if passed >= _LOOK_S:
            self._read_at = now
            found = self._running()
            if found is not None:
                weight = 1 - math.exp(-self._ran / _MEMORY_S - passed / _MEMORY_ALL_S)
                self.wanting += (max(found - own, 0) - self.wanting) * weight
            self._ran = 0.0

    def _running(self) -> int | None:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._file, 100, 0).split()[3].partition(b"/")[0])
        except (OSError, ValueError, IndexError):
            self._read_at = math.inf
            return None


class Crowd:
    """Whether other work is on the cores; one for all calls of a process.

    Args:
        host: None where what runs on it says nothing of the cores that this process may have.
        cores: of the host.
    """

    def __init__(self, host: Host | None = None, cores: int | None = None) -> None:
        self._waits, self._waits_at = 0.0, 0.0
        self._host = host
        self._cores = cores or os.cpu_count() or 1
        # When threads had work last, and how many did.
        self._ended, self._threads = -math.inf, 1

    def leaves_room(self, count: int) -> bool:
        """Tell whether `count` threads would find cores, by what the host has said."""
        return self._host is None or self._cores - self._host.wanting >= count * _LEAST_ROOM

    def ran(self, taken: float, count: int, now: float) -> None:
        """Note that a call has run for so many seconds, by so many threads."""
        if count > 1:
            self._ended, self._threads = now, count
        if self._host is not None:
            self._host.ran(taken, self._threads if now - self._ended < _SPIN_S else 1, now)

    def waits(self, now: float) -> float:
        """Tell by how many seconds a call takes longer by threads than when all of them find cores at once.

        A thread that sleeps or has no core is late by as much for a small call as for a large one.
        """
        return self._waits * math.exp((self._waits_at - now) / _FORGET_S)

    def took(self, taken: float, usual: float, now: float, weight: float = _WAIT) -> None:
        """Note how long threads have taken, and how long they do when they find cores.

        Args:
            weight: what part of the difference to what was known counts.
        """
        waits = self.waits(now)
        self._waits = waits + ((taken - usual if taken > usual * _WAITED else 0.0) - waits) * weight
        self._waits_at = now


def _crowd() -> Crowd:
    """Make the process's crowd; what all of the host's cores do says nothing of some of them, or of a share."""
    whole = cores.available() >= (os.cpu_count() or 1)
    return Crowd(Host() if whole else None)


_CROWD = _crowd()


class Way:
    """One of the ways of a call, and what it costs when nothing keeps it waiting.

    Args:
        trials: runs by which that becomes known; cold: how many of the first do not count, once there are others.
    """

    def __init__(self, call: Callable[..., Any], trials: int = _TRIALS, cold: int = 0) -> None:
        self.call = call
        self.cost = math.inf
        # By how much it is put off to try this way again.
        self.put_off = 1
        self.known_at = math.inf
        self._trials, self._cold = trials, cold
        self._first: list[float] | None = []

    @property
    def is_known(self) -> bool:
        return self._first is None

    def took(self, taken: float, weight: float, now: float) -> None:
        """Note what a run has cost.

        Args:
            weight: what part of the difference to what was known counts.
        """
        if self._first is None:
            self.cost += (min(taken, self.cost * _WAITED) - self.cost) * weight
            return
        self._first.append(taken)
        counted = sorted(self._first[self._cold :] or self._first)
        self.cost = counted[len(counted) // 2]
        if len(self._first) == self._trials:
            self._first, self.known_at = None, now

    def end_if_hopeless(self, cost: float, now: float) -> None:
        """Take what it costs for known once a few runs have all cost more than that."""
        if self._first is not None and len(self._first) >= _FEW_CLAIMS and min(self._first) > cost:
            self._first, self.known_at = None, now

    def forget(self) -> None:
        """Learn anew what it costs."""
        self._first = []


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
    call: Callable[..., Any],
    alone: Callable[..., Any],
    count: int,
    crowd: Crowd | None = None,
    claimed: Callable[..., Any] | None = None,
    stays_awake: bool = False,
) -> Callable[..., Any]:
    """Make a call use as many threads as are good for it at the moment.

    Args:
        call: computes it by `count` threads; alone: the same by the caller's.
        claimed: the same in parts that threads claim, for when others want the cores; it may be `call`.
        stays_awake: whether it is so long that its threads are awake for most of it.
    """
    if count < 2 or not adapts():
        return call
    others = _CROWD if crowd is None else crowd
    single, many = Way(alone), Way(call)
    trials = (_TRIALS, 0) if stays_awake else (_CLAIMS, _COLD_CLAIMS)
    in_parts = None if claimed is None else Way(claimed, *trials)
    # Seconds that may be lost by trying what was worse.
    allowed = 0.0

    def adapted(*args: Any) -> Any:
        nonlocal allowed
        began = clock()
        way, weight, best = single, _WEIGHT, 0.0
        rival = many if others.leaves_room(count) else in_parts
        if single.is_known and rival is not None:
            waits = others.waits(began) if rival is many else 0.0
            if rival is in_parts and rival.is_known and began - rival.known_at > _CLAIMS_KNOWN_S:
                rival.forget()
            together = rival.cost + waits
            way, other = (rival, single) if together < single.cost * _LEAST_GAIN else (single, rival)
            if not rival.is_known:
                way = rival if waits <= single.cost else single
            # Even one that seems as good costs something.
            elif allowed >= max(abs(together - single.cost), single.cost / 2) * other.put_off:
                allowed, way, weight, best = 0.0, other, _WEIGHT_ANEW, way.cost
        result = way.call(*args)
        now = clock()
        taken = now - began
        others.ran(taken, 1 if way is single else count, now)
        if way is many:
            usual = many.cost if many.is_known else single.cost
            others.took(taken, usual, now, _WAIT if weight == _WEIGHT else _WAIT_ANEW)
        if weight == _WEIGHT:
            allowed += taken * _TRYING
        else:
            way.put_off = 1 if taken < best else min(way.put_off * 2, _MOST_PUT_OFF)
        if way is not many or not many.is_known or taken <= many.cost * _WAITED:
            way.took(taken, weight, now)
            if way is in_parts:
                way.end_if_hopeless(single.cost * _HOPELESS, now)
        return result

    return adapted


def adapts() -> bool:
    """Tell whether the number of threads may be changed."""
    return os.environ.get("DTF_ADAPT_THREADS", "1") != "0"
