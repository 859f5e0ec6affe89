"""Machines and tasks on them: what a message costs whom, and how long it is on its way.

sender's processor       its host's cable   the rack's   the other's      receiver's processor
half of a message, ─────► bytes / rate ────► bytes / ───► bytes / ──────► half of a message, opening and copying
sealing and copying                          rate         rate            what has come, as it comes
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dtfctl.simulate.engine import Cable, Clock, Host, Then

NEAR, FAR = 20e6, 200e6
"""Bytes that the tasks of a host touch in a step; see `Machine`."""
LONG = 1 << 20
"""Bytes; see runtime.collective.communicator.SHORT."""
CROWDED = (
    *(f"{what}_{each}" for what in ("messages", "copies", "computes") for each in (1, 2, 4, 8)),
    *(f"busy_{each}" for each in (2, 4, 8)),
)
"""Costs of a `Machine` that depend on how many tasks share a host; `asked_` before them, over a ps."""


@dataclass(frozen=True)
class Machine:
    """What was measured of machines and the network, in seconds and bytes a second.

    Attributes:
        cores: of each host.
        slowdown: how much longer work takes while two processors or more of a host are busy.
        crowded: and while there is more work on a host than it has processors.
        message_s: of a processor, to send a message and deal with it.
        hop_s: of a processor, for a message longer than `LONG` beside that: another thread deals with it.
        inside_s, between_s: from its being sent until it is dealt with, in a host and between two, beside that.
        copy_bytes_s, cached_bytes_s: of a processor, to copy where a host's tasks touch `FAR` bytes a step or more, and
            where they touch `NEAR` or less.
        wire_s: of a processor, for a byte that goes between hosts: half of it at each end, to seal and send or open it.
        link_bytes_s, rack_bytes_s: of a host's cable and of a rack's, each way; 0 for the rack: as fast as needed.
        step_s: of a processor, to begin and end a step's part in a task.
        wait_s: of a processor beside that, in a step that waits for other tasks: who waits looks out for a moment, and
            gives way to those who work.
        again_s: of a processor, for each array beside the first one that a step waits for.
        hop_wait_s: until that other thread has begun with a message longer than `LONG`.
        asked_message_s, asked_s, asked_hop_s: what `message_s`, `inside_s` and `hop_wait_s` are between a worker and a
            ps, who wait for nobody else.
        asked_wait_s: what worker and ps each use of a processor while they look out for each other.
        ask_s, serve_s: of a worker's and a ps's processor beside messages, in a step of a worker over a ps.
        variable_s: of both, for each variable.
        applied, spared: what a ps does for a byte of a variable, of what copying one takes, and what a worker need not
            do of what it does alone.
        messages_1, messages_2, messages_4, messages_8: how many times as long messages and steps take where a host has
            1, 2, 4 or 8 tasks a processor: each wakes where others have used the caches.
        copies_1, copies_2, copies_4, copies_8: the same of copies.
        busy_2, busy_4, busy_8: the share of the time that processors work there while there is enough to do: who is
            woken waits behind others, while another processor has nothing.
        computes_1, computes_2, computes_4, computes_8: the same of computing gradients in a step that exchanges them,
            beside computing alone: its caches are used by what is exchanged, too.
        asked_messages_1 to asked_computes_8: the same of workers over a ps, with 1, 2, 4 or 8 workers a processor,
            beside one worker alone: who works there is rarely woken in the middle of it.
        spread: standard deviation of the time that a worker computes in a step, of its mean.
    """

    cores: int = 2
    slowdown: float = 1.4
    crowded: float = 1.4
    message_s: float = 14e-6
    hop_s: float = 60e-6
    inside_s: float = 16e-6
    between_s: float = 86e-6
    copy_bytes_s: float = 6e9
    cached_bytes_s: float = 12e9
    wire_s: float = 0.6e-9
    link_bytes_s: float = 1.25e9
    rack_bytes_s: float = 0.0
    step_s: float = 60e-6
    wait_s: float = 60e-6
    again_s: float = 100e-6
    hop_wait_s: float = 100e-6
    asked_message_s: float = 14e-6
    asked_s: float = 16e-6
    asked_hop_s: float = 100e-6
    asked_wait_s: float = 20e-6
    ask_s: float = 10e-6
    serve_s: float = 10e-6
    variable_s: float = 20e-6
    applied: float = 1.5
    spared: float = 0.4
    messages_1: float = 1.0
    messages_2: float = 1.2
    messages_4: float = 1.6
    messages_8: float = 2.0
    copies_1: float = 1.0
    copies_2: float = 1.2
    copies_4: float = 1.4
    copies_8: float = 1.6
    busy_2: float = 0.9
    busy_4: float = 0.85
    busy_8: float = 0.85
    computes_1: float = 1.1
    computes_2: float = 1.1
    computes_4: float = 1.1
    computes_8: float = 1.1
    asked_messages_1: float = 1.1
    asked_messages_2: float = 1.6
    asked_messages_4: float = 1.8
    asked_messages_8: float = 2.3
    asked_copies_1: float = 1.1
    asked_copies_2: float = 1.2
    asked_copies_4: float = 1.4
    asked_copies_8: float = 1.8
    asked_busy_2: float = 0.9
    asked_busy_4: float = 0.9
    asked_busy_8: float = 0.9
    asked_computes_1: float = 1.1
    asked_computes_2: float = 1.1
    asked_computes_4: float = 1.2
    asked_computes_8: float = 1.4
    spread: float = 0.03

    def over_ps(self) -> Machine:
        """Give the machine as it is to workers and a ps, with their costs under the names of those of a group."""
        # What a long message takes is in what a ps does for its bytes, and a worker need not do.
        return replace(
            self,
            message_s=self.asked_message_s,
            hop_s=0.0,
            inside_s=self.asked_s,
            hop_wait_s=self.asked_hop_s,
            wait_s=self.asked_wait_s,
            **{name: getattr(self, f"asked_{name}") for name in CROWDED},
        )

    def shared(self, tasks: int, touched: float) -> Machine:
        """Give the machine as it is to tasks of a host that share it, and touch so many bytes a step together.

        What depends on how many they are is under the name for the fewest.
        """
        share = min(max(math.log(max(touched, 1.0) / NEAR) / math.log(FAR / NEAR), 0.0), 1.0)
        each = share / self.copy_bytes_s + (1 - share) / self.cached_bytes_s
        crowd = tasks / self.cores
        messages = _between(crowd, (self.messages_1, self.messages_2, self.messages_4, self.messages_8))
        copies = _between(crowd, (self.copies_1, self.copies_2, self.copies_4, self.copies_8))
        messages, copies = self._few(tasks, messages), self._few(tasks, copies)
        busy = _between(crowd, (1.0, self.busy_2, self.busy_4, self.busy_8))
        computes = _between(crowd, (self.computes_1, self.computes_2, self.computes_4, self.computes_8))
        return replace(
            self,
            message_s=self.message_s * messages,
            hop_s=self.hop_s * messages,
            step_s=self.step_s * messages,
            wait_s=self.wait_s * messages,
            again_s=self.again_s * messages,
            variable_s=self.variable_s * messages,
            ask_s=self.ask_s * messages,
            serve_s=self.serve_s * messages,
            computes_1=computes,
            busy_2=busy,
            copy_bytes_s=1 / (each * copies),
            cached_bytes_s=1 / (each * copies),
        )

    def _few(self, tasks: int, factor: float) -> float:
        """Find the factor for tasks that may be fewer than processors; one task alone has 1."""
        if tasks >= self.cores:
            return factor
        return 1.0 + (factor - 1.0) * math.log(max(tasks, 1)) / math.log(self.cores)


def _between(crowd: float, factors: Sequence[float]) -> float:
    """Find the factor for so many tasks a processor among those for 1, 2, 4 and 8."""
    at = min(max(math.log2(crowd), 0.0), len(factors) - 1.0)
    low = min(int(at), len(factors) - 2)
    return factors[low] + (at - low) * (factors[low + 1] - factors[low])


@dataclass(frozen=True)
class Places:
    """Where tasks are.

    Attributes:
        hosts: of each task.
        racks: of each host.
    """

    hosts: Sequence[int]
    racks: Sequence[int] = field(default=())

    def rack_of(self, task: int) -> int:
        """Find a task's rack."""
        return self.racks[self.hosts[task]] if self.racks else 0


class World:
    """Tasks that work and send each other messages."""

    def __init__(self, machine: Machine, places: Places) -> None:
        self.machine = machine
        self.places = places
        self.clock = Clock()
        count = max(places.hosts) + 1
        each = (machine.cores, machine.slowdown, machine.crowded, machine.busy_2)
        self.hosts = [Host(self.clock, *each) for _ in range(count)]
        self._out = [Cable(machine.link_bytes_s) for _ in range(count)]
        self._in = [Cable(machine.link_bytes_s) for _ in range(count)]
        racks = set(places.racks) if machine.rack_bytes_s else set()
        self._from_rack = {rack: Cable(machine.rack_bytes_s) for rack in racks}
        self._to_rack = {rack: Cable(machine.rack_bytes_s) for rack in racks}
        self._dealing: dict[int, deque[tuple[float, Then]]] = {}
        self.sent = 0
        self.between_hosts = 0.0

    def work(self, task: int, seconds: float, then: Then) -> None:
        """Have a task's thread work."""
        self.hosts[self.places.hosts[task]].work(seconds, then)

    def look_out(self, task: int, seconds: float) -> None:
        """Note what a task that waits uses of a processor that nobody else needs."""
        self.hosts[self.places.hosts[task]].used_s += seconds

    def _deal(self, task: int, seconds: float, then: Then) -> None:
        """Have a task deal with what has come: one thread of it does, with one message after the other."""
        waiting = self._dealing.get(task)
        if waiting is not None:
            waiting.append((seconds, then))
            return
        waiting = self._dealing[task] = deque([(seconds, then)])

        def begin() -> None:
            self.work(task, waiting[0][0], over)

        def over() -> None:
            _, dealt = waiting.popleft()
            if waiting:
                begin()
            else:
                del self._dealing[task]
            dealt()

        begin()

    def send(self, source: int, to: int, nbytes: float, sent: Then, arrived: Then) -> None:
        """Send a message.

        Args:
            sent: called when the sending thread goes on.
            arrived: called when the receiving one has dealt with it.
        """
        machine, clock = self.machine, self.clock
        half = (machine.message_s + (machine.hop_s if nbytes > LONG else 0.0)) / 2
        hop = machine.hop_wait_s if nbytes > LONG else 0.0
        here, there = self.places.hosts[source], self.places.hosts[to]
        self.sent += 1
        if here == there:

            def deal() -> None:
                self._deal(to, half, arrived)

            def on_its_way() -> None:
                clock.at(clock.now + machine.inside_s + hop, deal)
                sent()

            self.hosts[here].work(half, on_its_way)
            return
        self.between_hosts += nbytes
        each = half + machine.wire_s / 2 * nbytes
        waits = _All(3, arrived)

        def go() -> None:
            first = last = clock.now
            first, last = self._out[here].carry(nbytes, first, last)
            racks = self.places.racks
            if racks and self._from_rack and racks[here] != racks[there]:
                first, last = self._from_rack[racks[here]].carry(nbytes, first, last)
                first, last = self._to_rack[racks[there]].carry(nbytes, first, last)
            first, last = self._in[there].carry(nbytes, first, last)
            clock.at(last + machine.between_s + hop, waits)
            # What comes is opened as it comes, and sealed as it goes.
            clock.at(first + machine.between_s, lambda: self._deal(to, each, waits))

        def sealed() -> None:
            waits()
            sent()

        go()
        self.hosts[here].work(each, sealed)


class _All:
    """Calls something when it was called so often itself."""

    __slots__ = ("_left", "_then")

    def __init__(self, left: int, then: Then) -> None:
        self._left, self._then = left, then

    def __call__(self) -> None:
        self._left -= 1
        if not self._left:
            self._then()


def all_of(count: int, then: Then) -> Callable[[], None]:
    """Make what calls something when it was called that often."""
    return _All(count, then)
