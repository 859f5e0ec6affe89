"""All-reduces in a simulated world: the very algorithms that tasks run, with arrays that have only a size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from dtfctl.runtime.collective.all_reduce import all_reduce_flat
from dtfctl.runtime.collective.choice import Choice, Layout, choose, choose_coded
from dtfctl.runtime.collective.topology import Map
from dtfctl.simulate.engine import Then
from dtfctl.simulate.sized import Sized, SizedCoding, final, merge
from dtfctl.simulate.world import Places, World

LONGEST_RING, SHORT_RINGS = 96, (24, 48)
"""Members of the longest ring that is simulated message by message, and of those from which longer ones are found."""


@dataclass(frozen=True)
class Codec:
    """What compressing between hosts does.

    Attributes:
        share: of the bytes that are left.
        encode_s, decode_s: seconds of a processor for a byte.
    """

    share: float
    encode_s: float
    decode_s: float


class Group:
    """Tasks that compute all-reduces together.

    Args:
        tasks: by rank.
        algorithm: an order's name, or auto.
    """

    def __init__(self, world: World, tasks: Sequence[int], algorithm: str = "auto", codec: Codec | None = None) -> None:
        self.world = world
        self.tasks = tasks
        self._algorithm = algorithm
        self.codec = codec
        hosts = [world.places.hosts[task] for task in tasks]
        racks = {host: world.places.racks[host] + 1 for host in hosts} if world.places.racks else {}
        plan = Map(hosts, racks).plan()
        machine = world.machine
        known = replace(
            plan,
            bytes_s=machine.link_bytes_s,
            slowest=machine.link_bytes_s,
            along=machine.link_bytes_s,
            between=machine.rack_bytes_s,
        )
        self.layout = Layout(tuple(hosts), (machine.cores,) * len(tasks), known)
        self._choice = lru_cache(self._choose)
        self._rings: dict[int, _Ring] = {}

    def _choose(self, nbytes: int) -> Choice:
        if self.codec is not None and len(set(self.layout.hosts)) > 1:
            return choose_coded(self.layout)
        return choose(nbytes, self.layout, self._algorithm)

    def choice(self, nbytes: int) -> Choice:
        """Choose as tasks do."""
        return self._choice(nbytes)

    def begin(self, nbytes: int) -> Reduction | LongRing:
        """Make an all-reduce that members can begin."""
        choice = self.choice(nbytes)
        if choice.name == "ring" and self.codec is None and len(self.tasks) > LONGEST_RING:
            if nbytes not in self._rings:
                self._rings[nbytes] = _ring_of(self, nbytes, choice)
            return LongRing(self, self._rings[nbytes])
        return Reduction(self, nbytes, choice)


class Reduction:
    """One all-reduce, message by message."""

    def __init__(self, group: Group, nbytes: int, choice: Choice) -> None:
        self.group = group
        self.count = max(nbytes // 4, 1)
        self.choice = choice
        self.mail: dict[tuple[int, int, str], Any] = {}

    def join(self, rank: int, then: Then) -> None:
        """Have a member do its part, then something else."""
        _Member(self, rank, then).advance(None)


@dataclass(frozen=True)
class _Ring:
    """What a ring takes, from its last member's beginning; `used_s` is of the processors of all members."""

    seconds: float
    used_s: float
    messages: int
    between_hosts: float


def _ring_of(group: Group, nbytes: int, choice: Choice) -> _Ring:
    """Find what a long ring takes from two short ones, whose pieces are as long as its own: its rounds are alike."""
    size, world = len(group.tasks), group.world
    short, longer = (_some_of(group, hosts) for hosts in _hosts_of_short_rings(group))
    found = []
    for tasks in (short, longer):
        places = Places([world.places.hosts[task] for task in tasks], world.places.racks)
        part = Group(World(world.machine, places), range(len(tasks)), "ring")
        found.append(_seconds(Reduction(part, nbytes * len(tasks) // size, choice)))
    each_s = (found[1] - found[0]) / (len(longer) - len(short))
    sent, ways = part.world.sent, (len(set(group.layout.hosts)), len(set(part.layout.hosts)))
    messages = sent * size * (size - 1) // (len(longer) * (len(longer) - 1))
    return _Ring(
        found[1] + each_s * (size - len(longer)),
        sum(host.used_s for host in part.world.hosts) / sent * messages,
        messages,
        part.world.between_hosts * ways[0] / ways[1] * (size - 1) / (len(longer) - 1),
    )


def _hosts_of_short_rings(group: Group) -> list[list[int]]:
    """Choose hosts for a short ring and for one that is longer: of two racks, if there are more than one."""
    racks: dict[int, list[int]] = {}
    for host, rack in dict.fromkeys(zip(group.layout.hosts, group.layout.racks, strict=True)):
        racks.setdefault(rack, []).append(host)
    of = sorted(racks.values(), key=len, reverse=True)[:2]
    slots = max(Counter(group.layout.hosts).values())
    each = [max(members // slots // len(of), 1) for members in SHORT_RINGS]
    return [[host for hosts in of for host in hosts[:count]] for count in each]


def _some_of(group: Group, hosts: list[int]) -> list[int]:
    return [task for task in group.tasks if group.world.places.hosts[task] in hosts]


class LongRing:
    """An all-reduce along a ring of many, whose rounds are counted: it begins when all have come to it."""

    def __init__(self, group: Group, ring: _Ring) -> None:
        self.group, self._ring = group, ring
        self._waiting: list[Then] = []

    def join(self, rank: int, then: Then) -> None:
        """Have a member do its part, then something else."""
        self._waiting.append(then)
        if len(self._waiting) < len(self.group.tasks):
            return
        world, ring = self.group.world, self._ring
        world.sent += ring.messages
        world.between_hosts += ring.between_hosts
        hosts = Counter(self.group.layout.hosts)
        for host, members in hosts.items():
            world.hosts[host].used_s += ring.used_s * members / len(self.group.tasks)
        for each in self._waiting:
            world.clock.at(world.clock.now + ring.seconds, each)


class _Member:
    """A member's part: what the algorithm does between two waits is played in simulated time."""

    def __init__(self, reduction: Reduction, rank: int, then: Then) -> None:
        group = reduction.group
        layout = group.layout
        self.rank, self.size = rank, len(group.tasks)
        self.hosts, self.racks, self.places = layout.hosts, layout.racks, layout.places
        self._reduction = reduction
        self._then = then
        self._world = group.world
        self._copied = 0.0
        self._acts: list[tuple[float, tuple[int, str, Sized] | None]] = []
        flat = Sized(reduction.count, self._worked)
        codec = group.codec
        coding = None
        if codec is not None:
            coding = SizedCoding(codec.share, codec.encode_s, codec.decode_s, self._world.machine.copy_bytes_s)
        out = Sized(reduction.count, self._worked)
        self._part = all_reduce_flat(*cast(Any, (self, flat, out, merge, final, reduction.choice, coding)))

    def _worked(self, nbytes: float) -> None:
        self._copied += nbytes

    def send(self, to: int, tag: str, value: Any) -> None:
        self._acts.append((self._copied, (to, tag, value)))
        self._copied = 0.0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return Sized(shape[0], self._worked)

    def advance(self, value: Any) -> None:
        """Go on with what has come."""
        try:
            wanted = self._part.send(value)
        except StopIteration:
            wanted = None
        self._acts.append((self._copied, None))
        self._copied = 0.0
        acts, self._acts = self._acts, []
        self._play(acts, 0, wanted)

    def _play(self, acts: list[tuple[float, tuple[int, str, Sized] | None]], at: int, wanted: Any) -> None:
        world, task = self._world, self._reduction.group.tasks[self.rank]
        copied, sending = acts[at]

        def send() -> None:
            if sending is None:
                self._wait(wanted)
                return
            to, tag, value = sending
            key = (self.rank, to, tag)
            other = self._reduction.group.tasks[to]

            def goes_on() -> None:
                self._play(acts, at + 1, wanted)

            # Taken back by the receiver as it was: what it works on is its own.
            world.send(task, other, value.nbytes, goes_on, lambda: self._arrive(key, value))

        world.work(task, copied / world.machine.copy_bytes_s, send)

    def _arrive(self, key: tuple[int, int, str], value: Sized) -> None:
        mail = self._reduction.mail
        waiting = mail.pop(key, None)
        if waiting is None:
            mail[key] = value
        else:
            waiting(value)

    def _wait(self, wanted: tuple[int, str] | None) -> None:
        if wanted is None:
            self._then()
            return
        source, tag = wanted
        key = (source, self.rank, tag)
        mail = self._reduction.mail
        if key in mail:
            self.advance(self._mine(mail.pop(key)))
        else:
            mail[key] = lambda value: self.advance(self._mine(value))

    def _mine(self, value: Sized) -> Sized:
        return Sized(value.size, self._worked, value.nbytes)


def seconds(group: Group, nbytes: int) -> float:
    """Simulate one all-reduce that all begin at the same time."""
    return _seconds(group.begin(nbytes))


def _seconds(reduction: Reduction | LongRing) -> float:
    group = reduction.group
    world = group.world
    begun = world.clock.now
    ended: list[float] = []
    for rank in range(len(group.tasks)):
        reduction.join(rank, lambda: ended.append(world.clock.now))
    world.clock.run()
    if len(ended) < len(group.tasks):
        raise RuntimeError("members of a simulated group wait for each other for ever")
    return max(ended) - begun
