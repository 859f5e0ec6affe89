"""Searches an order of hosts in which few slow ways are gone by; what a move changes is known without adding up again.

Orders are rings: the last host's neighbour is the first one. A move takes a host out and puts it in elsewhere, or turns
round what stands between two ways; ways have directions, so what is turned round goes by others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

_TRY_ALL = 7
"""Orders of so many hosts are all looked at; of more, those that one move makes of another."""
_WORST = 16
"""Bounds how many ways of an order are tried to be left, the slowest first."""

Array: TypeAlias = np.ndarray[Any, Any]


class Cost(NamedTuple):
    """What an order of hosts costs; what is less is better.

    Attributes:
        slowest: time that a byte takes on its slowest way, of the slow ones.
        crossings: how often it goes from one rack to another.
        slow: time that a byte takes on all of its slow ways.
    """

    slowest: float
    crossings: int
    slow: float


class Ring:
    """Hosts, and what ways between them cost.

    Args:
        racks: of the hosts.
        slow: bytes a second of ways that are slow.
    """

    def __init__(self, hosts: Sequence[int], racks: Mapping[int, int], slow: Mapping[tuple[int, int], float]) -> None:
        self._hosts = list(hosts)
        self._index = {host: i for i, host in enumerate(hosts)}
        count = len(hosts)
        self._time = np.zeros((count, count))
        for (a, b), rate in slow.items():
            self._time[self._index[a], self._index[b]] = 1 / rate
        rack = np.array([racks[host] for host in hosts])
        self._crosses = (rack[:, None] != rack[None, :]).astype(np.int64)

    def cost(self, order: Sequence[int]) -> Cost:
        """Tell what an order of the hosts costs."""
        return self._cost(np.array([self._index[host] for host in order]))

    def _cost(self, order: Array) -> Cost:
        after = np.roll(order, -1)
        time = self._time[order, after]
        return Cost(float(time.max()), int(self._crosses[order, after].sum()), float(time.sum()))

    def best(self) -> list[int]:
        """Find a good order, from one in which the hosts stand as they were given."""
        order = np.arange(len(self._hosts))
        found = self._cost(order)
        if not found.slow:
            return list(self._hosts)
        if len(order) <= _TRY_ALL:
            every = (np.array([0, *rest]) for rest in itertools.permutations(range(1, len(order))))
            order = min(every, key=self._cost)
            return [self._hosts[i] for i in order]
        for _ in range(4 * len(order)):
            if not found.slow:
                break
            moved = self._moved(order)
            cost = self._cost(moved)
            if cost >= found:
                break
            order, found = moved, cost
        return [self._hosts[i] for i in order]

    def _moved(self, order: Array) -> Array:
        """Make the move by which an order becomes best: at either end of a slow way, or from there."""
        time = self._time[order, np.roll(order, -1)]
        bad = np.argsort(-time, kind="stable")[: min(_WORST, int(np.count_nonzero(time)))]
        tries = [move for at in bad for move in self._moves(order, int(at))]
        _, (make, where) = min(tries, key=lambda each: each[0])
        moved: Array = make(where)
        return moved

    def _moves(self, order: Array, at: int) -> Iterable[tuple[Cost, tuple[Any, int]]]:
        for which in (at, (at + 1) % len(order)):
            yield self._placed_elsewhere(order, which)
        yield self._turned(order, at + 1)

    def _placed_elsewhere(self, order: Array, which: int) -> tuple[Cost, tuple[Any, int]]:
        """Take a host out, and find the best place for it."""
        host, rest = order[which], np.delete(order, which)
        before = np.roll(rest, 1)
        time, crosses = self._time[before, rest], self._crosses[before, rest]
        into, out = self._time[before, host], self._time[host, rest]
        slowest = np.maximum(_most_but_one(time), np.maximum(into, out))
        crossings = crosses.sum() - crosses + self._crosses[before, host] + self._crosses[host, rest]
        cost, to = _least(slowest, crossings, time.sum() - time + into + out)
        return cost, (lambda place: np.insert(rest, place, host), to)

    def _turned(self, order: Array, end: int) -> tuple[Cost, tuple[Any, int]]:
        """Turn round what stands between a place and another one, and find the best other one."""
        count = len(order)
        others = np.array([other for other in range(1, count + 1) if other != end])
        low, high = np.minimum(others, end), np.maximum(others, end)
        after = np.roll(order, -1)
        forth, back = self._time[order, after], self._time[after, order]
        first, last, left, right = order[low], order[high - 1], order[low - 1], order[high % count]
        into, out = self._time[left, last], self._time[first, right]
        # Ways before `low` - 1 and from `high` on stay as they are; those from `low` to `high` - 2 are gone back.
        sums, back_sums = np.concatenate(([0], np.cumsum(forth))), np.concatenate(([0], np.cumsum(back)))
        slow = sums[low - 1] + sums[-1] - sums[high] + back_sums[high - 1] - back_sums[low] + into + out
        until = np.concatenate(([0], np.maximum.accumulate(forth)))
        since = np.concatenate((np.maximum.accumulate(forth[::-1])[::-1], [0]))
        up = np.concatenate(([0], np.maximum.accumulate(back[end:])))
        down = np.concatenate(([0], np.maximum.accumulate(back[: max(end - 1, 0)][::-1])))
        inner = np.where(others > end, up[np.maximum(high - 1 - end, 0)], down[np.maximum(end - 1 - low, 0)])
        slowest = np.maximum.reduce([until[low - 1], since[high], inner, into, out])
        crosses = self._crosses[order, after]
        crossings = crosses.sum() - crosses[low - 1] - crosses[high - 1]
        crossings = crossings + self._crosses[left, last] + self._crosses[first, right]
        cost, at = _least(slowest, crossings, slow)

        def turned(place: int) -> Array:
            a, b = int(low[place]), int(high[place])
            return np.concatenate((order[:a], order[a:b][::-1], order[b:]))

        return cost, (turned, at)


def _most_but_one(values: Array) -> Array:
    """Give the largest of all other values, for each."""
    at = int(values.argmax())
    found = np.full(len(values), values[at])
    found[at] = np.delete(values, at).max(initial=0)
    return found


def _least(slowest: Array, crossings: Array, slow: Array) -> tuple[Cost, int]:
    at = int(np.lexsort((slow, crossings, slowest))[0])
    return Cost(float(slowest[at]), int(crossings[at]), float(slow[at])), at
