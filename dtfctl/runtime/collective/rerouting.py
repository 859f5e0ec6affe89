"""Other places for the members of a group that computes, while it computes: at the same time for all of them.

 member ──LinksSeen──► leader ──Pause──► all tasks ──Paused: how often each instance was begun──► leader
                                                                                                    │
 all tasks ◄──Reroute: what comes after the most that anybody has begun goes by the new route ──────┘

Between Paused and Reroute a task begins nothing new in the group, so all members compute each instance's nth time by
one route. What was begun goes on by the one of before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.collective.topology import ENOUGH_BYTES_S, UNKNOWN, Map, Plan

LEAST_CHANGE = 1.6
"""A rate counts as another one when it differs so many times."""
PAUSE_S = 2.0
"""Between two changes of a route."""
_KEPT = 64

Held = TypeVar("Held")


def route_of(plan: Plan) -> worker_pb2.Route:
    """Write down a plan."""
    return worker_pb2.Route(
        place=plan.places,
        rack=plan.racks,
        bytes_s=plan.bytes_s,
        slowest=plan.slowest,
        along=plan.along,
        between=plan.between,
    )


def plan_of(route: worker_pb2.Route, size: int) -> Plan:
    """Read what `route_of` wrote, for a group of that size.

    Raises:
        ValueError: it makes no sense.
    """
    places, racks = tuple(route.place), tuple(route.rack)
    if not places and not racks:
        return UNKNOWN
    if sorted(places) != list(range(size)) or len(racks) != size:
        raise ValueError(f"A route of {len(places)} places and {len(racks)} racks for {size} members")
    return Plan(places, racks, route.bytes_s, route.slowest, route.along, route.between)


def changed(known: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Find the tasks to which a way carries much more or less than was known, or is known for the first time."""
    found = {}
    for task, rate in now.items():
        before, able = min(known.get(task, 0.0), ENOUGH_BYTES_S), min(rate, ENOUGH_BYTES_S)
        if able > 0 and (before <= 0 or not 1 / LEAST_CHANGE < able / before < LEAST_CHANGE):
            found[task] = rate
    return found


@dataclass
class _Turn:
    """A change that is under way.

    Attributes:
        plan: what comes.
        waiting: tasks that have not answered.
        first: the most that anybody has begun, by instance.
    """

    number: int
    plan: Plan
    waiting: set[str]
    first: dict[int, int] = field(default_factory=dict)


class Router:
    """A group's places as its leader decides on them. Not thread-safe.

    Args:
        members: their devices, tasks and standings, by rank.
    """

    def __init__(self, members: Sequence[tuple[str, str, worker_pb2.Standing]]) -> None:
        self._devices = [device for device, _, _ in members]
        self._tasks = [task for _, task, _ in members]
        self._host_of = {task: standing.host for _, task, standing in members}
        hosts = [standing.host for _, _, standing in members]
        named = {standing.host: standing.rack for _, _, standing in members if standing.rack}
        self._map = Map(hosts, named)
        for _, task, standing in members:
            self._learn(task, standing.link)
        self.plan = self._map.plan()
        self._turn: _Turn | None = None
        self._turns = 0
        self._changed_at = float("-inf")

    def _learn(self, task: str, links: Iterable[worker_pb2.LinkRate]) -> None:
        known = ((self._host_of[link.task], link.bytes_s) for link in links if link.task in self._host_of)
        self._map.learn(self._host_of[task], known)

    def seen(self, task: str, links: Iterable[worker_pb2.LinkRate], now: float) -> int:
        """Take what a member's task has measured; return the number of the change that is to begin, or 0.

        Args:
            now: by a clock that only goes forward, in seconds.
        """
        if task not in self._host_of:
            return 0
        self._learn(task, links)
        if self._turn is not None or now - self._changed_at < PAUSE_S:
            return 0
        plan = self._map.plan(self.plan)
        if not _differs(plan, self.plan):
            return 0
        self._turns += 1
        self._changed_at = now
        self._turn = _Turn(self._turns, plan, set(self._tasks))
        return self._turns

    def paused(self, task: str, turn: int, begun: Mapping[int, int]) -> worker_pb2.Reroute | None:
        """Take a task's answer; return what to tell all once it was the last one."""
        going_on = self._turn
        if going_on is None or going_on.number != turn or task not in going_on.waiting:
            return None
        going_on.waiting.remove(task)
        for instance, count in begun.items():
            going_on.first[instance] = max(count, going_on.first.get(instance, 0))
        if going_on.waiting:
            return None
        self._turn, self.plan = None, going_on.plan
        return worker_pb2.Reroute(turn=turn, route=route_of(going_on.plan), first=going_on.first)

    def text(self, before: Plan) -> str:
        """Say for a person how members stand now, and why; nothing where they stand as before."""
        if (self.plan.order, self.plan.racks) == (before.order, before.racks):
            return ""
        names = [task.partition("job:")[2].replace("/replica:0/task:", "/") for task in self._tasks]
        order = list(dict.fromkeys(names[rank] for rank in self.plan.order))
        what = f"groups of {len(order)} tasks go "
        hosts = dict(zip(reversed(self._map.hosts), reversed(names)))
        (source, target), rate = min(self._map.ways.items(), key=lambda way: way[1])
        why = (
            f"{hosts[source]} to {hosts[target]} carries {rate / 1e6:,.4g} MB/s, others {self.plan.bytes_s / 1e6:,.4g}"
        )
        racks = len(set(self.plan.racks))
        return f"{what}{', '.join(order)}" + (f", in {racks} racks" if racks > 1 else "") + f": {why}"


def _differs(a: Plan, b: Plan) -> bool:
    """Tell whether a plan is worth a change: places, racks, or much of what ways carry."""
    if a.places != b.places or a.racks != b.racks:
        return True
    rates = ((a.slowest, b.slowest), (a.along, b.along), (a.between, b.between))
    capped = ((min(x, ENOUGH_BYTES_S), min(y, ENOUGH_BYTES_S)) for x, y in rates)
    return any(min(pair) * LEAST_CHANGE < max(pair) for pair in capped)


class Routes(Generic[Held]):
    """Remembers by which route a member computes what: the newest that holds for it.

    Attributes:
        held: what waits for a new route; None as long as things may begin.
    """

    def __init__(self) -> None:
        self._known: list[tuple[dict[int, int], Plan]] = [({}, UNKNOWN)]
        self.held: list[Held] | None = None

    def begin(self, plan: Plan) -> None:
        """Take the first route, which news may have overtaken."""
        self._known[0] = {}, plan

    @property
    def newest(self) -> Plan:
        return self._known[-1][1]

    def at(self, instance: int, count: int) -> Plan:
        """Find the plan for an instance's nth time, from 0."""
        for first, plan in reversed(self._known):
            if count >= first.get(instance, 0):
                return plan
        return self._known[0][1]

    def take(self, first: Mapping[int, int], plan: Plan) -> list[Held]:
        """Take a new route; return what has waited for it."""
        self._known.append((dict(first), plan))
        # Members are a step apart at the most, changes of routes seconds.
        del self._known[:-_KEPT]
        held, self.held = self.held or [], None
        return held
