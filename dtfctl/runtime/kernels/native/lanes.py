"""A tape's steps by two threads.

Each of the two lanes has some of the steps, in an order in which they may run, and each step waits until the other lane
has done so many of its own as it needs: what it reads was written by one of them, or what it writes was read. So no
lock is taken, and no interpreter is asked. Which lane has what follows from how long steps have taken.

The second lane is run by a thread that stays in machine code. It looks for work for some microseconds after it has had
some, then sleeps. Where it does not come, as another process has its core, the caller takes the lane back.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.image import Image

# What a post has at which place, in lines of the caches of their own where threads wait for it: the number of lanes
# posted so far, and what has become of the last one; who may post; whether the thread sleeps, and stays; how many steps
# each lane has done; the lane's steps and how many, and whether one of them has failed; for how many cycles the thread
# looks for work; and addresses: of the C library's `syscall`, and of what sets the thread's own threads of a library.
NUMBER, STATE, BUSY, SLEEPS, ALIVE, FIRST_DONE, SECOND_DONE, STEPS = range(0, 64, 8)
COUNT, FAILED, PATIENCE, SYSTEM, SET_THREADS = range(STEPS + 1, STEPS + 6)
IDLE, POSTED, TAKEN, REVOKED = range(4)
# What a step has at which place, after where its function is, its words, where its arrays are and how many: its place
# in the first lane, or how many steps of the other lane have to be done before; and the least cycles that it has taken.
PLACE = NEED = 4
LEAST, STEP_WORDS = 5, 6
_POST_WORDS = 64
# Looks, 10 ms apart, for whether the thread has ended.
_ENDS_WITHIN = 200

# So long it looks for work, in seconds: to wake it takes some 20 us, and its core is somebody's.
_PATIENCE_S = 100e-6
# What it takes at least until a step of the other lane is known to be done, in seconds.
_LATE_S = 0.5e-6
# Of how many steps that could be next one is chosen.
_LOOKED_AT = 8
# Two lanes are to take so much of the time of one, at most, and their steps so long together, at least.
_MOST_SHARE, LEAST_S = 0.8, 30e-6


@dataclass(frozen=True)
class Memory:
    """What a step does to memory: places from `begin` to `end`, and whether it writes there."""

    begin: int
    end: int
    is_written: bool


@dataclass(frozen=True)
class Lanes:
    """Attributes: orders: of each lane, the numbers of its steps; needs: how many of the other's each needs done."""

    orders: tuple[Sequence[int], Sequence[int]]
    needs: tuple[Sequence[int], Sequence[int]]


def divide(
    memories: Sequence[Sequence[Memory]], costs: Sequence[float], groups: Sequence[int] | None = None
) -> Lanes | None:
    """Divide steps among two lanes; None where that gains too little.

    Args:
        memories: what each step, in running order, does to memory.
        costs: how long each takes, in seconds.
        groups: steps of one number need nothing of each other, though they touch the same; by default each has its own.
    """
    before = _needed(memories, groups or range(len(memories)))
    after: list[list[int]] = [[] for _ in costs]
    for n, needed in enumerate(before):
        for m in needed:
            after[m].append(n)
    rest = [0.0] * len(costs)
    for n in range(len(costs) - 1, -1, -1):
        rest[n] = costs[n] + max((rest[m] for m in after[n]), default=0.0)
    waits = [len(needed) for needed in before]
    ready = [(-rest[n], n) for n, count in enumerate(waits) if not count]
    heapify(ready)
    ends, lane_of, place = [0.0] * len(costs), [0] * len(costs), [0] * len(costs)
    orders: tuple[list[int], list[int]] = ([], [])
    needs: tuple[list[int], list[int]] = ([], [])
    free = [0.0, 0.0]
    while ready:
        # Of what most has to wait for, what can begin first.
        some = [heappop(ready) for _ in range(min(len(ready), _LOOKED_AT))]
        starts = [
            [max([free[k], *(ends[m] + (_LATE_S if lane_of[m] != k else 0.0) for m in before[n])]) for k in (0, 1)]
            for _, n in some
        ]
        at = min(range(len(some)), key=lambda i: min(starts[i]))
        (_, n), (first, second) = some.pop(at), starts[at]
        for one in some:
            heappush(ready, one)
        k = int(second < first or (second == first and _is_at_home(n, before, lane_of, 1)))
        ends[n] = free[k] = (first, second)[k] + costs[n]
        lane_of[n], place[n] = k, len(orders[k])
        needs[k].append(max((place[m] + 1 for m in before[n] if lane_of[m] != k), default=0))
        orders[k].append(n)
        for m in after[n]:
            waits[m] -= 1
            if not waits[m]:
                heappush(ready, (-rest[m], m))
    if max(free) > _MOST_SHARE * sum(costs):
        return None
    return Lanes(orders, needs)


def _is_at_home(n: int, before: Sequence[set[int]], lane_of: Sequence[int], lane: int) -> bool:
    """Tell whether what comes last before a step is in a lane, whose caches have it."""
    return bool(before[n]) and lane_of[max(before[n])] == lane


def _needed(memories: Sequence[Sequence[Memory]], groups: Sequence[int]) -> list[set[int]]:
    """Find out which earlier steps have to be done before each of them."""
    flat = [(n, m) for n, of in enumerate(memories) for m in of]
    of, begins, ends = (np.array([x[k] for x in ((n, m.begin, m.end) for n, m in flat)], np.int64) for k in range(3))
    written = np.array([m.is_written for _, m in flat], bool)
    needed: list[set[int]] = [set() for _ in memories]
    for w in np.nonzero(written)[0]:
        n = int(of[w])
        for m in set(of[(begins < ends[w]) & (ends > begins[w])].tolist()):
            if groups[m] != groups[n]:
                needed[max(m, n)].add(min(m, n))
    return needed


class _Second:
    """The thread that runs second lanes, and where they are posted."""

    def __init__(self, code: Image, cycles_a_second: float) -> None:
        self.post = np.zeros(_POST_WORDS, np.int64)
        self.post[PATIENCE] = int(_PATIENCE_S * cycles_a_second)
        self.post[SYSTEM] = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value or 0
        self.post[ALIVE] = 1
        entry, self._held = machine.entry(code, "serve")
        serve = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entry)
        self._thread = guard.once(lambda: serve(self.post.ctypes.data), name="lane")
        self._thread.start()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)

    def _forked(self) -> None:
        # The thread is not there.
        self.post[ALIVE] = 0

    def end(self) -> None:
        """End the thread; tapes are run by their callers from now on."""
        self.post[ALIVE] = 0
        self.post[NUMBER] += 1
        address = self.post.ctypes.data + NUMBER * 8
        for _ in range(_ENDS_WITHIN):
            ctypes.CDLL(None).syscall(202, ctypes.c_void_p(address), 129, 1, None)
            self._thread.join(0.01)
            if not self._thread.is_alive():
                return
        # It is in a lane whose caller does not go on: what it runs and looks at stays as long as the process.
        for held in (self.post, self._held):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


_LOCK = threading.Lock()
_second: _Second | None = None


def post(code: Image, cycles_a_second: float) -> Any:
    """Return where second lanes are posted; their thread runs."""
    global _second
    with _LOCK:
        if _second is None:
            _second = _Second(code, cycles_a_second)
        return _second.post
