"""A tape's steps by several threads.

Each part of a step waits for the parts whose memory it shares, and for nothing else: what it reads was written by them,
or what it writes was read. A lane has some of the parts, in the order in which they are best run, and a thread whose it
is. What is ready in no thread's lane is anybody's after a while: nobody waits for a thread that another process keeps
from its core, but where that is in the middle of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

# What a step has at which place, after where its function is, its words, where its arrays are and how many: where it is
# said what waits for it, and how much that is; and the least cycles that it has taken.
AFTER = 4
LEAST, STEP_WORDS = 6, 7
# What a job has at which place: its parts and how many; how many others each waits for now, and waited for in the
# beginning, and how many of these numbers there are; which parts are ready, and were in the beginning; how many lanes
# there are, of how many words, which begin how far from each other; after how many cycles a thread that has nothing to
# do takes what is others'; what sets the thread's own threads of a library; and where counts are that threads share.
PARTS, PART_COUNT, WAITS, WAITS_FIRST, WAIT_COUNT, READY, READY_FIRST = range(7)
LANE_COUNT, LANE_WORDS, LANE_STRIDE, PATIENCE, SET_THREADS, SHARED, JOB_WORDS = range(7, 14)
# What these are, in lines of the caches of their own: parts that are done, whether one has failed, threads at work.
DONE, FAILED, INSIDE = range(0, 24, 8)
_LINE = 8
_BITS = 64

# What it takes at least until a part of another lane is known to be done, in seconds, and after how long without
# anything to do others' parts are taken.
_LATE_S, _PATIENCE_S = 0.5e-6, 10e-6
# Of how many parts that could be next one is chosen.
_LOOKED_AT = 8
# Lanes are to take so much of the time of one, at most, and steps so long together, at least.
_MOST_SHARE, LEAST_S = 0.8, 30e-6


@dataclass(frozen=True)
class Memory:
    """What a part does to memory: places from `begin` to `end`, and whether it writes there."""

    begin: int
    end: int
    is_written: bool


@dataclass(frozen=True)
class Lanes:
    """Attributes: orders: of each lane, the numbers of its parts; before: which parts each waits for, but for those
    that one of these waits for; takes: how long all of it will take, in seconds.
    """

    orders: Sequence[Sequence[int]]
    before: Sequence[Sequence[int]]
    takes: float


def divide(
    memories: Sequence[Sequence[Memory]], costs: Sequence[float], count: int = 2, groups: Sequence[int] | None = None
) -> Lanes | None:
    """Divide parts among lanes; None where that gains too little.

    Args:
        memories: what each part, in running order, does to memory.
        costs: how long each takes, in seconds.
        count: of lanes.
        groups: parts of one number need nothing of each other, though they touch the same; by default each has its own.
    """
    before = _direct(_needed(memories, groups or range(len(memories))))
    after: list[list[int]] = [[] for _ in costs]
    for n, needed in enumerate(before):
        for m in needed:
            after[m].append(n)
    rest = [0.0] * len(costs)
    for n in range(len(costs) - 1, -1, -1):
        rest[n] = costs[n] + max((rest[m] for m in after[n]), default=0.0)
    waits = [len(needed) for needed in before]
    ready = [(-rest[n], n) for n, of in enumerate(waits) if not of]
    heapify(ready)
    ends, lane_of = [0.0] * len(costs), [0] * len(costs)
    orders: list[list[int]] = [[] for _ in range(count)]
    free = [0.0] * count

    def start(n: int) -> tuple[float, bool, int]:
        """Tell when a part can begin, and where: if possible in the lane whose caches have what it needs."""
        home = lane_of[before[n][-1]] if before[n] else 0
        return min(
            (max([free[k], *(ends[m] + (_LATE_S if lane_of[m] != k else 0.0) for m in before[n])]), k != home, k)
            for k in range(count)
        )

    while ready:
        # Of what most has to wait for, what can begin first.
        some = [heappop(ready) for _ in range(min(len(ready), _LOOKED_AT))]
        (begins, _, k), at = min((start(n), at) for at, (_, n) in enumerate(some))
        _, n = some.pop(at)
        for one in some:
            heappush(ready, one)
        ends[n] = free[k] = begins + costs[n]
        lane_of[n] = k
        orders[k].append(n)
        for m in after[n]:
            waits[m] -= 1
            if not waits[m]:
                heappush(ready, (-rest[m], m))
    if max(free) > _MOST_SHARE * sum(costs):
        return None
    return Lanes(orders, before, max(free))


def _needed(memories: Sequence[Sequence[Memory]], groups: Sequence[int]) -> list[set[int]]:
    """Find out which earlier parts have to be done before each of them."""
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


def _direct(needed: Sequence[set[int]]) -> list[list[int]]:
    """Leave out what another one that is needed needs, in ascending order."""
    reached: list[int] = []
    found = []
    for of in needed:
        all_of, direct = 0, []
        for m in sorted(of, reverse=True):
            if not all_of >> m & 1:
                direct.append(m)
                all_of |= reached[m] | 1 << m
        reached.append(all_of)
        found.append(direct[::-1])
    return found


class Job:
    """Parts of a tape, as the code that runs them reads them (lanes_code.py).

    Args:
        rows: of each part, where its function, its words and its arrays are and how many those are.
        set_threads: the address of what sets how many threads a library uses for a thread's calls; 0 for none.
    """

    def __init__(self, rows: Any, lanes: Lanes, set_threads: int, cycles_a_second: float) -> None:
        count = len(lanes.orders)
        words = -(-max(map(len, lanes.orders)) // _BITS)
        stride = -(-words // _LINE) * _LINE
        # Where in the table each part is: the lane's begin together.
        place = np.zeros(len(rows), np.int64)
        for k, order in enumerate(lanes.orders):
            place[order] = k * words * _BITS + np.arange(len(order))
        lane, bit = np.divmod(place, words * _BITS)
        word, mask = lane * stride + bit // _BITS, np.left_shift(np.uint64(1), (bit % _BITS).astype(np.uint64))
        waits = np.zeros(count * words * _BITS, np.int64)
        waits[place] = [len(of) for of in lanes.before]
        ready = np.zeros(count * stride, np.uint64)
        for n, of in enumerate(lanes.before):
            if not of:
                ready[word[n]] |= mask[n]
        self._now = np.zeros(3 * _LINE + len(waits) + _LINE + len(ready), np.int64)
        shared = self._now.ctypes.data
        waits_at = shared + 3 * _LINE * 8
        ready_at = waits_at + (len(waits) + _LINE) * 8
        after: list[list[int]] = [[] for _ in rows]
        for n, of in enumerate(lanes.before):
            for m in of:
                after[m].append(n)
        told = np.array([n for of in after for n in of], np.int64)
        self._after = np.zeros((len(told), 3), np.int64)
        if len(told):
            self._after[:, 0] = waits_at + place[told] * 8
            self._after[:, 1] = ready_at + word[told] * 8
            self._after[:, 2] = mask[told].view(np.int64)
        counts = np.array([len(of) for of in after], np.int64)
        parts = np.zeros((len(waits), STEP_WORDS), np.int64)
        parts[place] = rows
        parts[place, AFTER] = self._after.ctypes.data + (np.cumsum(counts) - counts) * self._after.strides[0]
        parts[place, AFTER + 1] = counts
        self._first = waits, ready, parts
        self.words = np.array(
            [
                *(parts.ctypes.data, len(rows), waits_at, waits.ctypes.data, len(waits)),
                *(ready_at, ready.ctypes.data, count, words, stride),
                *(int(_PATIENCE_S * cycles_a_second), set_threads, shared),
            ],
            np.int64,
        )

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)
