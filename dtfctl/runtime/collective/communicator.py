"""A group as a task takes part in it: its members, what they have sent, and the computations that go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from dtfctl.runtime.collective import algorithms, foreign_orders
from dtfctl.runtime.collective.algorithms import Algorithm, Array
from dtfctl.runtime.collective.all_reduce import all_reduce
from dtfctl.runtime.collective.choice import Layout, choose, choose_coded
from dtfctl.runtime.collective.coded import LEAST, Coding, codec_of
from dtfctl.runtime.collective.merging import MERGES, final_of
from dtfctl.runtime.collective.rerouting import Routes
from dtfctl.runtime.collective.topology import Plan
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.memory import shared_memory
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.steps.threads import submit

SHORT = 1 << 20
"""Arrays up to this size (bytes) are dealt with in the thread that reads them."""


_LAYOUTS = 64


class Member(NamedTuple):
    """A device of a group, and the task and life it is in.

    Attributes:
        is_foreign: the task is one of TensorFlow's servers.
        host: those with the same number share memory.
        cores: processors that the task may use.
    """

    device: str
    task: str
    life: int
    is_foreign: bool = False
    host: int = 0
    cores: int = 1


class Origin(NamedTuple):
    """Where a computation comes from.

    Attributes:
        step: number of its step in this cluster.
        graph_key: of its graph; see step_ids.py.
        master: the task that runs the step.
    """

    step: int = 0
    graph_key: int = 0
    master: str = ""


class SharedStep(Protocol):
    """A step as members that are TensorFlow's servers know it (mixed.py).

    Attributes:
        number: what they and this task have agreed on.
    """

    number: int

    def leave(self, key: str, value: Array, taken: Callable[[], None]) -> None:
        """Leave an array for who fetches it."""

    def fetch(
        self, member: Member, device: str, key: str, like: Array, done: Callable[[Array | None, OpError | None], None]
    ) -> Callable[[], None]:
        """Have a device fetch from another one an array like that; what is returned gives it up."""

    def ended(self, error: OpError | None) -> None:
        """Note that the computation has ended: whoever fetches more of the step fails, too, if it has failed."""


class Room:
    """Where the tensors of a group meet in this task, for all of its devices here.

    Attributes:
        members: by rank; empty as long as nobody here knows that the group is there.
        running: computations that devices here have begun and not finished.
        when_idle: called when the last of them has ended, once the group has come apart.
        routes: who is whose neighbour.
        rates: by task: what its leader knows of the ways from here, in bytes a second.
        looked_at: when it was last looked what they carry, by a clock that only goes forward.
    """

    def __init__(self, number: int, created: float) -> None:
        self.number = number
        self.created = created
        self.table = LocalRendezvous()
        self.members: Sequence[Member] = ()
        self.running: set[Computation] = set()
        self.when_idle: Callable[[], None] | None = None
        self.routes: Routes[tuple[Communicator, Computation]] = Routes()
        self.rates: dict[str, float] = {}
        self.looked_at = 0.0

    def layout(self, ranks: Sequence[int], plan: Plan) -> Layout:
        """Tell where some of the members stand."""
        hosts, cores = tuple(m.host for m in self.members), tuple(m.cores for m in self.members)
        return Layout(hosts, cores, plan).part(ranks)

    @property
    def is_mixed(self) -> bool:
        """Tell whether some members are TensorFlow's servers, in whose ways all compute."""
        return any(member.is_foreign for member in self.members)


@dataclass(eq=False)
class Communicator:
    """A device's membership.

    Attributes:
        instances: the rank of the source, -1 where there is none, of computations that all members have agreed on;
            those that wait until they have.
        counts: how often each computation was begun here.
        owed: what codecs have left out of what this device has sent, by instance and piece.
    """

    room: Room
    rank: int
    send_to: Callable[[Member, int, str, Array, int], None]
    instances: dict[int, int | list[Computation]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    owed: dict[int, dict[str, Array]] = field(default_factory=dict)
    _layouts: dict[tuple[tuple[int, ...], Plan], Layout] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.room.members)

    def layout(self, ranks: tuple[int, ...], plan: Plan) -> Layout:
        """Tell where members stand: those of these ranks, or all."""
        found = self._layouts.get((ranks, plan))
        if found is None:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            found = self._layouts[ranks, plan] = self.room.layout(ranks or range(self.size), plan)
        return found

    def done(self) -> dict[int, int]:
        """Count how often this device has done all of its part, by instance."""
        going_on = [c.request.instance_key for c in self.room.running if c.communicator is self]
        return {instance: count - going_on.count(instance) for instance, count in self.counts.items()}


class Computation:
    """A device's part of one computation, from the kernel that asks to the result: an algorithm, and what drives it.

    Raises (from `begin`): nothing; what fails cancels the step.
    """

    def __init__(
        self, request: CollectiveRequest, token: CancellationToken, done: Callable[[Any], None], origin: Origin
    ) -> None:
        self.request = request
        self.token = token
        self.origin = origin
        self.withdraw: list[Callable[[], None]] = []
        self.communicator: Communicator | None = None
        self.count = 0
        self.rank = 0
        self.size = 0
        self.tasks: Sequence[str] = ()
        self.hosts: Sequence[int] = ()
        self.racks: Sequence[int] = ()
        self.places: Sequence[int] = ()
        self._shared: SharedStep | None = None
        self._done = done
        self._prefix = ""
        self._ranks: Sequence[int] = ()
        self._algorithm: Algorithm | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._error: OpError | None = None

    def begin(self, communicator: Communicator, source: int, shared: SharedStep | None = None) -> None:
        """Start it in its group; in any thread, which computes as far as it can without waiting.

        Args:
            shared: the step, in a group with TensorFlow's servers.
        """
        request = self.request
        self._ranks = request.ranks or range(communicator.size)
        self.rank, self.size = self._ranks.index(communicator.rank), len(self._ranks)
        if shared is None:
            self._prefix = f"{request.instance_key}.{self.count}."
            plan = communicator.room.routes.at(request.instance_key, self.count)
            layout = communicator.layout(request.ranks, plan)
            self.hosts, self.racks, self.places = layout.hosts, layout.racks, layout.places
            owed = communicator.owed.setdefault(request.instance_key, {}) if request.codec else {}
            self._algorithm = _algorithm(self, request, source, layout, owed)
        else:
            self.tasks = [member.task for member in communicator.room.members]
            self._prefix = f"{request.group_key}:{request.instance_key}:{request.frame}"
            with self._lock:
                self._shared = shared
                is_over = self._is_over
            if is_over:
                shared.ended(self._error)
                return
            self._algorithm = _foreign_algorithm(self, request, source)
        self._advance(None)

    # What the algorithm uses (algorithms.Group) -----------------------------------------------------------------------

    def send(self, to: int, tag: str, value: Array) -> None:
        communicator, shared = self.communicator, self._shared
        assert communicator is not None
        room = communicator.room
        if shared is not None and self.fetches(to):
            taken = self._key(tag + foreign_orders.TAKEN, to, self.rank)
            shared.leave(self._prefix + tag, value, lambda: room.table.send(taken, None, False))
            return
        key, urgency = self._key(tag, self.rank, to), self.request.urgency
        communicator.send_to(room.members[self._ranks[to]], room.number, key, value, urgency)

    def _key(self, tag: str, source: int, to: int) -> str:
        if self._shared is not None:
            return f"{self._shared.number}/{self._prefix}{tag}"
        return f"{self._prefix}{tag}.{self._ranks[source]}>{self._ranks[to]}"

    def fetches(self, rank: int) -> bool:
        communicator = self.communicator
        assert communicator is not None
        return communicator.room.members[rank].is_foreign

    def fetch(self, rank: int, tag: str, count: int, dtype: Any) -> None:
        communicator, shared = self.communicator, self._shared
        if not self.fetches(rank):
            return
        assert communicator is not None and shared is not None
        table, members, key = communicator.room.table, communicator.room.members, self._key(tag, rank, self.rank)

        def done(value: Array | None, error: OpError | None) -> None:
            if error is None:
                table.send(key, value, False)
            else:
                self.fail(error)

        like = self.empty((count,), dtype)
        give_up = shared.fetch(members[rank], members[self.rank].device, self._prefix + tag, like, done)
        self.when_over(give_up)

    def when_over(self, withdraw: Callable[[], None]) -> None:
        """Have something called once this has ended, at once if it has."""
        self.withdraw.append(withdraw)
        if self._is_over:
            withdraw()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return shared_memory.empty(shape, np.dtype(dtype))

    # What drives it ---------------------------------------------------------------------------------------------------

    def _advance(self, value: Any) -> None:
        """Go on until something must be waited for."""
        communicator, algorithm = self.communicator, self._algorithm
        if communicator is None or algorithm is None:
            return
        table = communicator.room.table
        try:
            while True:
                source, tag = algorithm.send(value)
                key = self._key(tag, source, self.rank)
                found = table.take(key)
                if found is None:
                    table.recv_async(key, self._arrived)
                    return
                value = found[0]
        except StopIteration as e:
            self._finish(e.value)
        except OpError as e:
            self.fail(e)
        except ValueError as e:
            self.fail(InvalidArgumentError(str(e)))
        except Exception as e:
            self.fail(InternalError(f"{type(e).__name__}: {e}"))

    def _arrived(self, value: Any, dead: bool, error: OpError | None) -> None:
        if error is not None:
            # Whoever has aborted the table has failed this, too.
            return
        if getattr(value, "nbytes", 0) <= SHORT:
            self._advance(value)
        else:
            submit(self._advance, value)

    def _finish(self, result: Any) -> None:
        if self._end(None):
            self._done(result)

    def fail(self, error: OpError) -> None:
        """Cancel the step, for that reason."""
        if self._end(error):
            self.token.cancel(error.at(self.request.node) if self.request.node else error)

    def _end(self, error: OpError | None) -> bool:
        with self._lock:
            if self._is_over:
                return False
            self._is_over = True
            self._error = error
            shared = self._shared
        self._algorithm = None
        if shared is not None:
            shared.ended(error)
        # Whoever watches the step still holds this, and need not hold the array.
        self.request = replace(self.request, value=None)
        for withdraw in self.withdraw:
            withdraw()
        if self.communicator is not None:
            room = self.communicator.room
            room.running.discard(self)
            if room.when_idle is not None and not room.running:
                room.when_idle()
        return True


def _algorithm(
    group: algorithms.Group, request: CollectiveRequest, source: int, layout: Layout, owed: dict[str, Array]
) -> Algorithm:
    """Choose how a computation is done."""
    value = request.value
    if request.kind == "Broadcast":
        return algorithms.broadcast(group, source, value, request.shape)
    assert value is not None
    if request.kind == "Place":
        return algorithms.place(group)
    if request.kind == "Gather":
        return algorithms.all_gather(group, value, request.is_even)
    if request.kind == "AllToAll":
        return algorithms.all_to_all(group, value)
    merge, final = MERGES[request.merge], final_of(request.final, group.size)
    if request.kind == "ReduceScatter":
        return algorithms.reduce_scatter(group, value, merge, final)
    if request.codec and value.size >= LEAST and len(set(layout.hosts)) > 1:
        return all_reduce(group, value, merge, final, choose_coded(layout), Coding(codec_of(request.codec), owed))
    return all_reduce(group, value, merge, final, choose(value.nbytes, layout, request.hint))


def _foreign_algorithm(group: foreign_orders.MixedGroup, request: CollectiveRequest, source: int) -> Algorithm:
    """Choose what TensorFlow's servers do, which are members."""
    value = request.value
    if request.kind == "Broadcast":
        return foreign_orders.tree_broadcast(group, source, value, request.shape, request.dtype)
    assert value is not None
    if request.kind == "Place":
        raise ValueError("Places in a group are not known where TensorFlow's servers are members")
    if request.kind == "Gather":
        return foreign_orders.ring_gather(group, value)
    if request.kind == "AllToAll":
        return foreign_orders.all_to_all(group, value)
    merge, final = MERGES[request.merge], final_of(request.final, group.size)
    return foreign_orders.ring_reduce(group, value, merge, final, request.subdivs, request.most_subdivs)
