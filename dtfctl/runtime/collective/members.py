"""A task's part in groups: joining them, computing with them, leaving them, and hearing that they have come apart."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.collective.communicator import Communicator, Computation, Member, Room
from dtfctl.runtime.collective.leading import Leading
from dtfctl.runtime.collective.mixed import ForeignTasks, Mixed
from dtfctl.runtime.collective.own_ways import OwnWays, number_of
from dtfctl.runtime.collective.rerouting import plan_of
from dtfctl.runtime.framework.errors import (
    AbortedError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    error_from_code,
)
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.routing import task_of_device
from dtfctl.runtime.rendezvous.transports.base import Transport
from dtfctl.runtime.steps.grace import ENDED
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)
# Numbers of groups that have come apart are remembered so that tensors still on their way find no home.
_REMEMBERED = 4096
_MAX_INSTANCES = 1 << 18


class Neighbours(Transport, Protocol):
    """Other tasks, as members of groups reach them."""

    def learn(self, task: str, life: int) -> None:
        """Note that a task is up in this life."""

    def hear_of(self, task: str) -> None:
        """Wait until it is known in which life a task is.

        Raises:
            OpError: it does not answer.
        """

    def rates(self) -> Mapping[str, float]:
        """Give what ways to other tasks carry that were timed of late, in bytes a second."""


class Key(NamedTuple):
    """A device's membership in a group, of one session."""

    session: str
    device: str
    group_key: int


@dataclass(eq=False)
class _Joining:
    """A membership that the leader was asked for."""

    request: int
    size: int
    job: str
    waiting: list[Computation] = field(default_factory=list)


class Collectives:
    """Groups that devices of this task are in.

    Args:
        task, life: this task and its incarnation.
        neighbours: None where there are none.
        leader_task: who says who is in which group; this task itself where there are no others.
        foreign: how those of the others are reached that are TensorFlow's servers.
        host: names what tasks share that reach each other's memory.

    Attributes:
        ways: what is known of the ways from here to other tasks.
        mixed: what they are told and asked.
        leading: what they and others ask this task as the leader.
    """

    def __init__(
        self,
        task: str,
        life: int = 0,
        neighbours: Neighbours | None = None,
        leader_task: str = "",
        foreign: ForeignTasks | None = None,
        host: str = "",
    ) -> None:
        self.task = task
        self._life = life
        self._neighbours = neighbours
        self._leader_task = leader_task or task
        self._lock = threading.RLock()
        self.mixed = Mixed(task, life, self._leader_task, foreign)
        self.leading = Leading(task, self._tell, self.mixed)
        self._requests = itertools.count(1)
        self._joining: dict[Key, _Joining] = {}
        self._asked: dict[int, Key] = {}
        self._agreeing: dict[int, tuple[Communicator, int]] = {}
        self._communicators: dict[Key, Communicator] = {}
        # Why groups came apart that nothing was going on in here: whoever uses one next is told, once.
        self._untold: dict[Key, OpError] = {}
        self._rooms: dict[int, Room] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()
        self.ways = OwnWays(number_of(host), neighbours)

    # Beginning --------------------------------------------------------------------------------------------------------

    def begin(self, session: str, job: str, computation: Computation, device: str) -> None:
        """Have a device's part computed, once its group is there and all members agree on what."""
        request = computation.request
        key = Key(session, device, request.group_key)
        with self._lock:
            untold = self._untold.pop(key, None)
            communicator = self._communicators.get(key)
            joining = self._joining.get(key)
            size = communicator.size if communicator is not None else joining.size if joining is not None else 0
            if not size and untold is None:
                joining = self._joining[key] = _Joining(next(self._requests), request.group_size, job)
                self._asked[joining.request] = key
            if joining is not None and joining.size == request.group_size and untold is None:
                joining.waiting.append(computation)
        if untold is not None:
            computation.fail(error_from_code(untold.error_code, untold.message, derived=untold.derived))
        elif size not in (0, request.group_size):
            text = f"Group {request.group_key} has {size} members in this session, and is now said to have "
            computation.fail(InvalidArgumentError(f"{text}{request.group_size}"))
        elif communicator is not None:
            self._agree(communicator, computation)
        elif joining is not None and not size:
            asked = worker_pb2.JoinGroup(
                request=joining.request,
                job=job,
                group_key=request.group_key,
                group_size=request.group_size,
                device=device,
                incarnation=self._life,
                place=0 if request.rank is None else request.rank + 1,
                standing=self.ways.standing(),
            )
            self._ask_leader(worker_pb2.CollectiveMessage(join_group=asked), partial(self._cannot_join, key))

    def _agree(self, communicator: Communicator, computation: Computation) -> None:
        """Begin a computation if all members are known to compute the same, else find out."""
        instance = computation.request.instance_key
        computation.communicator = communicator
        with self._lock:
            # Numbers that a communicator gives are used once: that members agree is not worth asking.
            known = communicator.instances.get(instance) if computation.request.rank is None else -1
            if isinstance(known, list):
                known.append(computation)
                return
            is_full = known is None and len(communicator.instances) >= _MAX_INSTANCES
            if is_full:
                number = 0
            elif known is None:
                communicator.instances[instance] = [computation]
                number = next(self._requests)
                self._agreeing[number] = communicator, instance
            elif communicator.room.number in self._ended:
                known = None
                number = 0
            elif computation.request.rank is None and communicator.room.routes.held is not None:
                communicator.room.routes.held.append((communicator, computation))
                return
            else:
                if computation.request.rank is None:
                    computation.count = communicator.counts.get(instance, 0)
                    communicator.counts[instance] = computation.count + 1
                communicator.room.running.add(computation)
        if known is not None and communicator.room.is_mixed:
            self.mixed.begin(computation, known, self._tell)
        elif known is not None:
            computation.begin(communicator, known)
            self._look(communicator.room)
        elif number:
            asked = worker_pb2.JoinInstance(
                request=number,
                communicator=communicator.room.number,
                instance_key=instance,
                device=communicator.room.members[communicator.rank].device,
                what=computation.request.what,
                is_source=computation.request.is_source,
            )
            self._ask_leader(
                worker_pb2.CollectiveMessage(join_instance=asked),
                partial(self._break, communicator.room.number),
                computation.request,
            )
        elif is_full:
            text = f"Group {computation.request.group_key} has computed {_MAX_INSTANCES} different instances in this "
            text += "session. Use an instance key for what is the same in each step, not a new one a step"
            computation.fail(ResourceExhaustedError(text))
        else:
            computation.fail(AbortedError("The group has come apart", derived=True))

    def _look(self, room: Room) -> None:
        """Tell the leader of a group if ways from here to other members carry more or less than it knows."""
        news = self.ways.news(room)
        if news:
            seen = worker_pb2.LinksSeen(communicator=room.number, link=news)
            self._ask_leader(worker_pb2.CollectiveMessage(links_seen=seen), lambda error: None)

    def _pause(self, task: str, pause: worker_pb2.Pause) -> None:
        """Begin nothing more in a group, until members have other places."""
        with self._lock:
            room = self._room(pause.communicator)
            if room is None:
                return
            if room.routes.held is None:
                room.routes.held = []
            begun: dict[int, int] = {}
            for communicator in self._communicators.values():
                if communicator.room is room:
                    for instance, count in communicator.counts.items():
                        begun[instance] = max(count, begun.get(instance, 0))
        paused = worker_pb2.Paused(communicator=pause.communicator, turn=pause.turn, begun=begun)
        self._tell(task, worker_pb2.CollectiveMessage(paused=paused))

    def _reroute(self, told: worker_pb2.Reroute) -> None:
        """Have what begins from now on go by another route.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        with self._lock:
            room = self._room(told.communicator)
            if room is None:
                return
            try:
                plan = plan_of(told.route, len(room.members or told.route.place))
            except ValueError as e:
                raise InvalidArgumentError(str(e)) from None
            held = room.routes.take(told.first, plan)
        for communicator, computation in held:
            self._agree(communicator, computation)

    def _ask_leader(
        self,
        message: worker_pb2.CollectiveMessage,
        failed: Callable[[OpError], None],
        about: CollectiveRequest | None = None,
    ) -> None:
        if self._leader_task == self.task:
            self.told(self.task, message)
            return
        submit(self._reach, self._leader_task, message, failed, about)

    def _tell(self, task: str, message: worker_pb2.CollectiveMessage) -> None:
        if task == self.task:
            self.told(task, message)
        else:
            submit(self._reach, task, message)

    def _reach(
        self,
        task: str,
        message: worker_pb2.CollectiveMessage,
        failed: Callable[[OpError], None] | None = None,
        about: CollectiveRequest | None = None,
    ) -> None:
        """Send to a task that may not have been heard of yet."""
        try:
            if self._neighbours is None:
                raise UnavailableError(f"{task} is not a task of this cluster")
            try:
                self._neighbours.hear_of(task)
            except UnimplementedError:
                # One of TensorFlow's servers.
                if failed is not None:
                    self.mixed.ask(message, about, self.told, failed)
                return
            self._neighbours.send(task, (Message(Kind.COLLECTIVE, 0, "", message.SerializeToString()),))
        except OpError as e:
            log.info("%s cannot be told of a group: %s", task, e.message)
            if failed is not None:
                failed(e)

    def _cannot_join(self, key: Key, error: OpError) -> None:
        with self._lock:
            joining = self._joining.pop(key, None)
            if joining is not None:
                self._asked.pop(joining.request, None)
        for computation in joining.waiting if joining is not None else ():
            computation.fail(error)

    # Hearing ----------------------------------------------------------------------------------------------------------

    def received(self, task: str, payload: bytes) -> None:
        """Take a COLLECTIVE frame.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        try:
            message = worker_pb2.CollectiveMessage.FromString(payload)
        except Exception as e:
            raise InvalidArgumentError(f"What was said of a group cannot be read: {e}") from None
        self.told(task, message)

    def told(self, task: str, message: worker_pb2.CollectiveMessage) -> None:
        """Hear what a task says of a group, also this one itself."""
        kind = message.WhichOneof("kind")
        if kind == "group_ready":
            self._group_ready(message.group_ready)
        elif kind == "instance_ready":
            self._instance_ready(message.instance_ready)
        elif kind == "end_group":
            end = message.end_group
            error = error_from_code(end.code, end.message)
            error.derived = True
            # Who has told this may be gone before it has told all others.
            self.leading.pass_on(task, message)
            self._break(end.communicator, error, tell=False, done=end.done)
        elif kind == "ask_step":
            self.mixed.asked_for_step(task, message.ask_step, self._tell)
        elif kind == "step_known":
            self.mixed.step_known(message)
        elif kind == "pause":
            self._pause(task, message.pause)
        elif kind == "reroute":
            self._reroute(message.reroute)
        else:
            self.leading.asked(task, message)

    def _group_ready(self, ready: worker_pb2.GroupReady) -> None:
        members = [_member(m) for m in ready.member]
        for member in members:
            if member.task != self.task and not member.is_foreign and self._neighbours is not None:
                self._neighbours.learn(member.task, member.life)
        communicator = None
        with self._lock:
            key = self._asked.pop(ready.request, None)
            joining = None if key is None else self._joining.pop(key, None)
            if key is not None and joining is not None and ready.communicator:
                room = self._room(ready.communicator)
                if room is not None:
                    room.members = members
                    room.routes.begin(plan_of(ready.route, len(members)))
                    room.rates = self.ways.rates()
                    rank = next(i for i, member in enumerate(members) if member.device == key.device)
                    communicator = self._communicators[key] = Communicator(room, rank, self._send_to)
        if joining is None:
            if ready.communicator:
                # Nobody waits for it here any more; the others are not to wait for this one either.
                error = AbortedError(f"{self.task} does not want to be in the group any more", derived=True)
                self._break(ready.communicator, error)
                self._tell_end(ready.communicator, members, error)
            return
        for computation in joining.waiting:
            if communicator is not None:
                self._agree(communicator, computation)
            elif ready.communicator:
                computation.fail(AbortedError("The group came apart as it was being formed", derived=True))
            else:
                computation.fail(error_from_code(ready.code, ready.message))

    def _instance_ready(self, ready: worker_pb2.InstanceReady) -> None:
        with self._lock:
            found = self._agreeing.pop(ready.request, None)
            if found is None:
                return
            communicator, instance = found
            waiting = communicator.instances.get(instance)
            communicator.instances[instance] = ready.source
        for computation in waiting if isinstance(waiting, list) else ():
            self._agree(communicator, computation)

    def receive(self, frame: Frame) -> None:
        """Take a tensor that a member has sent."""
        with self._lock:
            room = self._room(frame.step)
        if room is not None:
            room.table.send(frame.key, frame.value, frame.dead)

    def _room(self, number: int) -> Room | None:
        """Find where tensors of a group meet, made at its first mention; None when it has come apart."""
        room = self._rooms.get(number)
        if room is None and number not in self._ended:
            room = self._rooms[number] = Room(number, time.monotonic())
        return room

    def _send_to(self, member: Member, number: int, key: str, value: Any, urgency: int) -> None:
        if member.task == self.task:
            room = self._rooms.get(number)
            if room is not None:
                room.table.send(key, value, False)
            return
        assert self._neighbours is not None
        self._neighbours.send(member.task, (Message(Kind.TENSOR, number, key, value, urgency=urgency),))

    # Ending -----------------------------------------------------------------------------------------------------------

    def step_ended(self, key: Key, computation: Computation) -> None:
        """Note that a computation's step was cancelled; called in the cancelling thread."""
        reason = computation.token.reason
        if reason is None or reason is ENDED:
            return
        with self._lock:
            self._untold.pop(key, None)
        communicator = computation.communicator
        if communicator is not None:
            why = AbortedError(f"{self.task} gave up its part in group {key.group_key}: {reason.message}", derived=True)
            self._break(communicator.room.number, why, told=key)
            return
        with self._lock:
            joining = self._joining.get(key)
            if joining is None or computation not in joining.waiting:
                return
            joining.waiting.remove(computation)
            if joining.waiting:
                return
            del self._joining[key]
            self._asked.pop(joining.request, None)
        leave = worker_pb2.LeaveGroup(job=joining.job, group_key=key.group_key, device=key.device)
        self._ask_leader(worker_pb2.CollectiveMessage(leave_group=leave), lambda error: None)

    def end_session(self, session: str) -> None:
        """Leave all groups that a session has formed."""
        with self._lock:
            for key in [k for k, c in self._communicators.items() if k.session == session and c.room.is_mixed]:
                self._leave_mixed(key)
            own = [c for key, c in self._communicators.items() if key.session == session]
            left: dict[int, dict[int, int]] = {}
            for communicator in own:
                done, others = communicator.done(), left.get(communicator.room.number)
                left[communicator.room.number] = (
                    done if others is None else {i: min(n, others.get(i, 0)) for i, n in done.items()}
                )
            joining = [key for key in self._joining if key.session == session]
        error = AbortedError(f"The session of {self.task} was closed", derived=True)
        for number, done in left.items():
            self._break(number, error, done=done)
        for key in joining:
            self._cannot_join(key, error)
        with self._lock:
            self._untold = {key: why for key, why in self._untold.items() if key.session != session}

    def _leave_mixed(self, key: Key) -> None:
        """Leave a group with TensorFlow's servers, if nothing goes on in it; for them its members stay the same."""
        communicator = self._communicators[key]
        room = communicator.room
        if any(c.communicator is communicator for c in room.running):
            return
        del self._communicators[key]
        self._agreeing = {number: at for number, at in self._agreeing.items() if at[0] is not communicator}
        if not any(c.room is room for c in self._communicators.values()):
            self._rooms.pop(room.number, None)

    def peer_lost(self, task: str, error: OpError) -> None:
        """End the groups that a task which is gone was in, or was about to say who is in them."""
        self.leading.lost(task, error)
        with self._lock:
            # A group that waits for its leader's word does not know by which route the others go on.
            numbers = [
                number
                for number, room in self._rooms.items()
                if any(m.task == task for m in room.members)
                or (room.routes.held is not None and task == self._leader_task)
            ]
            joining = list(self._joining) if task == self._leader_task else []
        for number in numbers:
            self._break(number, error)
        for key in joining:
            self._cannot_join(key, error)

    def _break(
        self,
        number: int,
        error: OpError,
        tell: bool = True,
        told: Key | None = None,
        done: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Take a group that has come apart out of this task, fail what it computes here, and tell the others.

        A device of the group that computes nothing at the moment is told when it does next: it must know that the
        others may have begun anew.

        Args:
            told: whose device knows already, as it is its step that has failed.
            done: of who leaves in peace, how often each computation; these go on here, and the group ends with them.
        """
        self.leading.end(number, error)
        with self._lock:
            room = self._rooms.get(number)
            failed = [] if room is None else [c for c in room.running if c.count >= done.get(c.request.instance_key, 0)]
            going_on = room is not None and len(room.running) > len(failed)
            if not going_on:
                self._rooms.pop(number, None)
                self._ended[number] = None
                if len(self._ended) > _REMEMBERED:
                    self._ended.popitem(last=False)
            if room is None:
                return
            failed += [computation for _, computation in room.routes.held or ()]
            for key, communicator in list(self._communicators.items()):
                if communicator.room is room:
                    del self._communicators[key]
                    for waiting in communicator.instances.values():
                        failed += waiting if isinstance(waiting, list) else []
                    if key != told and not any(c.communicator is communicator for c in failed):
                        self._untold[key] = error
            for request, (communicator, _) in list(self._agreeing.items()):
                if communicator.room is room:
                    del self._agreeing[request]
            room.when_idle = partial(self._break, number, error, False) if going_on else None
        if not going_on:
            room.table.abort(error)
        for computation in failed:
            computation.fail(error_from_code(error.error_code, error.message, derived=error.derived))
        if tell:
            self._tell_end(number, room.members, error, done)
        if going_on and not room.running:
            self._break(number, error, tell=False)

    def _tell_end(
        self, number: int, members: Sequence[Member], error: OpError, done: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        end = worker_pb2.EndGroup(communicator=number, code=error.error_code, message=error.message, done=done)
        message = worker_pb2.CollectiveMessage(end_group=end)
        for task in ({m.task for m in members if not m.is_foreign} | {self._leader_task}) - {self.task}:
            submit(self._reach, task, message)

    @property
    def rooms(self) -> int:
        """Count the groups that something is held of here, and those that are led from here."""
        return len(self._rooms) + self.leading.groups

    def drop_orphans(self, before: float) -> None:
        """Forget tensors of groups that nobody here has joined, which came before that time."""
        with self._lock:
            for number, room in list(self._rooms.items()):
                if not room.members and room.created < before:
                    del self._rooms[number]


def _member(told: worker_pb2.GroupMember) -> Member:
    at = told.standing
    return Member(
        told.device,
        task_of_device(told.device),
        told.incarnation,
        told.is_foreign,
        at.host,
        max(at.cores, 1),
    )


def group_leader(tasks: Iterable[str]) -> str:
    """Choose who leads groups where nobody says: the chief, else the first worker, else the first task of all."""
    return min(tasks, key=lambda task: (_LEADERS.get(task.split("/")[1], 2), task))


_LEADERS = {"job:chief": 0, "job:master": 0, "job:worker": 1}
