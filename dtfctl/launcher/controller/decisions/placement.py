"""Where tasks run: a host for each, within the hosts' slots and GPUs, spread or packed; pure functions.

Spare hosts take tasks only when no other host can. A host that is closed (down, drained, quarantined) takes none.

>>> from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, TaskGroup
>>> names = lambda *all: tuple(HostName(name) for name in all)
>>> spec = ClusterSpec("c", {"worker": TaskGroup(2)},
...     host_groups={"m": HostGroup(names("a", "b"), slots=1), "s": HostGroup(names("z"), slots=1, spare=True)})
>>> placed = place(spec); placed
{'worker/0': 'a', 'worker/1': 'b'}
>>> fill(spec, rooms(spec, closed={"a"}), kept={"worker/1": "b"}, wanted=["worker/0"])
{'worker/0': 'z'}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.launcher.controller.decisions.link_rates import LEAST_SHARE
from dtfctl.launcher.errors import SpecError
from dtfctl.launcher.model import LinkStatus
from dtfctl.launcher.spec import elastic
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup


@dataclass(frozen=True, slots=True)
class Room:
    """A host that can take tasks."""

    name: str
    group: str
    slots: int | None = None
    """None: as many tasks as are asked for."""
    gpus: int | None = None
    """None: not known yet."""
    rack: str | None = None
    spare: bool = False
    for_all: bool = False
    """A spare whose group no task's `hosts` names: it stands in for any host."""
    is_elastic: bool = False
    """Whether hosts of its group come and go; what jobs cannot do without finds a place there beside others."""
    shares: Mapping[str, int] = field(default_factory=dict)
    """The most tasks of a job name, where each host has its share of them."""


def rooms(spec: ClusterSpec, closed: Collection[str] = (), gpus: Mapping[str, int] | None = None) -> list[Room]:
    """List the hosts of a spec that are not closed; `gpus` are the counts that `gpus: auto` hosts have reported."""
    found = gpus or {}
    named = {name for group in spec.tasks.values() for name in group.hosts}
    groups = {
        name: {job: most for job in spec.tasks if (most := elastic.share(spec, job, name)) is not None}
        for name, group in spec.host_groups.items()
        if elastic.is_elastic_group(group)
    }
    return [
        Room(
            name=h.name,
            group=h.group,
            slots=h.slots,
            gpus=found.get(h.name) if h.gpus == "auto" else h.gpus,
            rack=h.rack,
            spare=h.spare,
            for_all=h.spare and h.group not in named,
            is_elastic=h.group in groups,
            shares=groups.get(h.group, {}),
        )
        for h in spec.hosts
        if h.name not in closed
    ]


def place(
    spec: ClusterSpec,
    kept: Mapping[str, str] | None = None,
    closed: Collection[str] = (),
    gpus: Mapping[str, int] | None = None,
    links: Sequence[LinkStatus] = (),
) -> dict[str, str]:
    """Place every task of the spec, in its order, on a host; tasks in `kept` stay where they are if they may.

    A ps goes where the ways to the other hosts are good, by the `links` that were measured and by racks: all others
    fetch from it.

    Spares are used in place of closed hosts only. Where nothing else is left, a task gets a closed host and waits.

    Raises:
        SpecError: there are not enough slots or GPUs.
    """
    every = rooms(spec, gpus=gpus)
    placed = _still_fitting(spec, every, kept or {})
    usual = [room for room in every if not room.spare]
    usable = [room for room in every if room.name not in closed]
    for choices in ([room for room in usable if not room.spare], usable, usual):
        wanted = [name for name in spec.task_names if name not in placed]
        if wanted:
            placed |= fill(spec, choices, placed, wanted, links=links)
        if not closed:
            break
    for name in spec.task_names:
        if name not in placed:
            group = spec.tasks[name.partition("/")[0]]
            hosts = [room for room in usual if _admits(group, room)]
            raise SpecError(
                f"no slot is left for {name}: {len(hosts)} hosts with {sum(room.slots or 0 for room in hosts)} slots"
                + (f", {group.gpus} GPUs for each task" if group.gpus else ""),
                "give hosts more slots, or ask for fewer tasks",
            )
    return {name: placed[name] for name in spec.task_names}


def fill(
    spec: ClusterSpec,
    open_rooms: Sequence[Room],
    kept: Mapping[str, str],
    wanted: Sequence[str],
    avoid: Mapping[str, Collection[str]] | None = None,
    links: Sequence[LinkStatus] = (),
) -> dict[str, str]:
    """Find hosts for the `wanted` tasks beside the `kept` ones; a task for which there is no place is left out.

    `avoid`: hosts on which a task has failed before; they are no place for it.
    """
    placer = Placer(spec, open_rooms, kept, links)
    placed: dict[str, str] = {}
    for name in wanted:
        host = placer.find(name, (avoid or {}).get(name, ()))
        if host is not None:
            placer.change(name, host)
            placed[name] = host
    return placed


class Placer:
    """Finds places one after the other, and keeps count of what is taken."""

    def __init__(
        self,
        spec: ClusterSpec,
        open_rooms: Sequence[Room],
        kept: Mapping[str, str],
        links: Sequence[LinkStatus] = (),
    ) -> None:
        self._spec = spec
        self._remote = _remote(open_rooms, links)
        self._rooms = open_rooms
        self._racks = {host.name: host.rack for host in spec.hosts}
        self._hosts: dict[str, str] = {}
        self._tasks: Counter[str] = Counter()
        self._jobs: Counter[tuple[str, str]] = Counter()
        self._rack_tasks: Counter[tuple[str, str | None]] = Counter()
        self._gpus: Counter[str] = Counter()
        for name, host in kept.items():
            self.change(name, host)

    def change(self, name: str, host: str) -> None:
        """Note that the task is on `host` now, and no longer where it was."""
        job = name.partition("/")[0]
        if job not in self._spec.tasks:
            return
        before = self._hosts.get(name)
        if before is not None:
            self._count(before, job, -1)
        self._hosts[name] = host
        self._count(host, job, 1)

    def _count(self, host: str, job: str, number: int) -> None:
        self._tasks[host] += number
        self._jobs[host, job] += number
        self._rack_tasks[job, self._racks.get(host)] += number
        self._gpus[host] += number * self._spec.tasks[job].gpus

    def fits(self, room: Room, job: str, is_needed: bool = False) -> bool:
        """Tell whether one more task of the job name may run there; `is_needed`: jobs cannot do without it."""
        group = self._spec.tasks[job]
        if not _admits(group, room):
            return False
        is_over = room.slots is not None and self._tasks[room.name] >= room.slots
        is_over |= self._jobs[room.name, job] >= room.shares.get(job, self._jobs[room.name, job] + 1)
        if is_over and not (is_needed and room.is_elastic):
            return False
        return not group.gpus or room.gpus is None or self._gpus[room.name] + group.gpus <= room.gpus

    def find(self, name: str, avoid: Collection[str] = (), is_needed: bool = False) -> str | None:
        """Find the best host for a task, or None; one that jobs cannot do without may get one that is full."""
        job = name.partition("/")[0]
        group = self._spec.tasks[job]
        fitting = [room for room in self._rooms if room.name not in avoid and self.fits(room, job)]
        if not fitting and is_needed:
            fitting = [room for room in self._rooms if room.name not in avoid and self.fits(room, job, True)]
        choices = [room for room in fitting if not room.spare] or fitting
        if not choices:
            return None
        if job == "ps":
            # Of equals the nearest comes first.
            choices = sorted(choices, key=lambda room: self._remote[room.name])
        if group.spread == "pack":
            return choices[0].name
        if group.spread == "rack":
            return min(choices, key=lambda r: (self._rack_tasks[job, r.rack], self._tasks[r.name])).name
        return min(choices, key=lambda room: self._tasks[room.name]).name


def _remote(hosts: Sequence[Room], links: Sequence[LinkStatus]) -> dict[str, tuple[int, int]]:
    """Tell how far hosts are from the others: to how many of them the way is slow, and how many are in other racks."""
    names = {room.name for room in hosts}
    rates = {(a.source, a.target): a.bytes_s for a in links if a.bytes_s > 0 and {a.source, a.target} <= names}
    least = LEAST_SHARE * max(rates.values(), default=0.0)
    slow: Counter[str] = Counter()
    for (source, target), rate in rates.items():
        if rate < least:
            slow[source] += 1
            slow[target] += 1
    racks = Counter(room.rack for room in hosts if not room.spare)
    return {room.name: (slow[room.name], -racks[room.rack]) for room in hosts}


def _admits(group: TaskGroup, room: Room) -> bool:
    return not group.hosts or room.group in group.hosts or room.for_all


def _still_fitting(spec: ClusterSpec, every: Sequence[Room], kept: Mapping[str, str]) -> dict[str, str]:
    """Choose the tasks of `kept` that the spec still has and that may stay where they are."""
    by_name = {room.name: room for room in every}
    placer = Placer(spec, every, {})
    staying: dict[str, str] = {}
    for name in spec.task_names:
        room = by_name.get(kept.get(name, ""))
        # Where hosts come and go, what stands in for others that are away stays until its own host goes.
        if room is not None and placer.fits(room, name.partition("/")[0], is_needed=True):
            placer.change(name, room.name)
            staying[name] = room.name
    return staying
