"""Who belongs to a group, and that all its members compute the same: what the group's leader decides.

Members ask, and are answered when all have asked. A group holds until it comes apart: a member's task is lost, its step
fails or its session ends. Who then asks again waits for a new group with everybody else.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.collective.rerouting import Router, route_of
from dtfctl.runtime.framework.errors import AbortedError, InvalidArgumentError, OpError, ResourceExhaustedError

GROUP_BIT = 1 << 63
"""Marks numbers of communicators, and no step's."""
MAX_MEMBERS = 1 << 16
MAX_PLACES = 1 << 17
"""Places in all groups together: of members, and of those who ask to be one."""
MAX_ASKED = 1 << 16
"""Wishes to compute, in all groups together, that wait for other members'."""
MAX_REMEMBERED = 1 << 16
"""Computations, of all groups with foreign members together, that are remembered for who asks for them later."""

Answer = tuple[str, worker_pb2.CollectiveMessage]
"""Names a task, and what to tell it."""


@dataclass
class _Forming:
    """A group that waits for members.

    Attributes:
        asked: by device: the task, and what it has asked.
        repeated: what TensorFlow's servers have asked again for a device: they do for each computation until answered.
    """

    size: int
    asked: dict[str, tuple[str, worker_pb2.JoinGroup]] = field(default_factory=dict)
    repeated: list[tuple[str, worker_pb2.JoinGroup]] = field(default_factory=list)

    @property
    def places(self) -> int:
        return len(self.asked) + len(self.repeated)


@dataclass
class _Formed:
    """A group.

    Attributes:
        tasks: of its members, by device.
        instances: computations that not all members have asked for yet: by device, the task and what it has asked.
        ready: what members were told, of a group that TensorFlow's servers are in: these ask once in their lives, so
            others may ask again.
        agreed: what its computations are, the one that was asked for last at the end. The oldest may be forgotten:
            who asks for it again is believed.
        sources: from whom its broadcasts come. These cannot be forgotten: TensorFlow's servers never say it again.
        router: says who is whose neighbour; None with foreign members, which have an order of their own.
    """

    tasks: dict[str, str]
    ranks: dict[str, int]
    instances: dict[int, dict[str, tuple[str, worker_pb2.JoinInstance]]] = field(default_factory=dict)
    ready: worker_pb2.GroupReady | None = None
    agreed: OrderedDict[int, str] = field(default_factory=OrderedDict)
    sources: dict[int, int] = field(default_factory=dict)
    router: Router | None = None

    @property
    def asked(self) -> int:
        return sum(map(len, self.instances.values()))

    @property
    def remembered(self) -> int:
        return len(self.agreed) + len(self.sources)


class Leader:
    """Groups that this task leads. Not thread-safe: the caller takes turns.

    What is remembered for others is bounded, whatever they ask for: beyond that they are refused.

    Args:
        is_foreign: tells by the name that a task asks under whether it is one of TensorFlow's servers.
    """

    def __init__(
        self,
        new_number: Callable[[], int] = lambda: secrets.randbits(63),
        is_foreign: Callable[[str], bool] = lambda task: False,
    ) -> None:
        self._new_number = new_number
        self._is_foreign = is_foreign
        self._forming: dict[tuple[str, int], _Forming] = {}
        self._formed: dict[int, _Formed] = {}
        # Groups with foreign members; these stand until they fail.
        self._standing: dict[tuple[str, int], int] = {}
        self._places = 0
        self._asked = 0
        self._remembered = 0

    @property
    def groups(self) -> int:
        """Count the groups that were formed and have not ended, those aside that wait for foreign members."""
        return len(self._formed) - len(self._standing)

    def standing(self, job: str, group_key: int) -> int:
        """Find the group with foreign members that has a key; 0 if there is none."""
        return self._standing.get((job, group_key), 0)

    def join_group(self, task: str, asked: worker_pb2.JoinGroup) -> list[Answer]:
        """Take a member's wish to be in a group; return whom to answer what."""
        key = asked.job, asked.group_key
        ended: list[Answer] = []
        if key in self._standing:
            ready = self._formed[self._standing[key]].ready
            assert ready is not None
            if _is_in(asked, ready):
                again = worker_pb2.GroupReady()
                again.CopyFrom(ready)
                again.request = asked.request
                return [(task, worker_pb2.CollectiveMessage(group_ready=again))]
            ended = self.end(self._standing[key], AbortedError(f"{asked.device} asks for another group {key[1]}"))
        return ended + self._wait_in_group(task, asked)

    def _wait_in_group(self, task: str, asked: worker_pb2.JoinGroup) -> list[Answer]:
        key = asked.job, asked.group_key
        forming = self._forming.get(key)
        try:
            if not 0 < asked.group_size <= MAX_MEMBERS:
                raise InvalidArgumentError(f"A group of {asked.group_size} devices")
            if self._places >= MAX_PLACES:
                raise ResourceExhaustedError(
                    f"{self._places} places in groups are taken or asked for; no group may begin until others end"
                )
            if forming is None:
                forming = self._forming[key] = _Forming(asked.group_size)
            elif forming.size != asked.group_size:
                raise InvalidArgumentError(
                    f"Device {asked.device} has group size {asked.group_size} for group {asked.group_key}, others have "
                    f"{forming.size}"
                )
        except OpError as e:
            refused = worker_pb2.GroupReady(request=asked.request, code=e.error_code, message=e.message)
            return [(task, worker_pb2.CollectiveMessage(group_ready=refused))]
        self._places -= forming.places
        before = forming.asked.get(asked.device)
        is_repeated = before is not None and self._is_foreign(task)
        if before is not None and is_repeated:
            is_repeated = before[1].incarnation == asked.incarnation or not self._is_foreign(before[0])
            if not is_repeated:
                # It was restarted: nobody is there any more who waits for what it has asked before.
                forming.repeated = [(of, a) for of, a in forming.repeated if a.device != asked.device]
        if is_repeated:
            forming.repeated.append((task, asked))
        else:
            forming.asked[asked.device] = task, asked
        if len(forming.asked) < forming.size:
            self._places += forming.places
            return []
        del self._forming[key]
        return self._form(key, forming)

    def _form(self, key: tuple[str, int], forming: _Forming) -> list[Answer]:
        number = self._new_number() | GROUP_BIT
        members = sorted(forming.asked.values(), key=lambda m: (m[1].place, *_place(m[1].device)))
        self._formed[number] = _Formed(
            {asked.device: task for task, asked in members}, {asked.device: i for i, (_, asked) in enumerate(members)}
        )
        self._places += len(members)
        listed = [
            worker_pb2.GroupMember(
                device=a.device, incarnation=a.incarnation, is_foreign=self._is_foreign(task), standing=a.standing
            )
            for task, a in members
        ]
        route = None
        if any(member.is_foreign for member in listed):
            self._standing[key] = number
            self._formed[number].ready = worker_pb2.GroupReady(communicator=number, member=listed)
        else:
            router = self._formed[number].router = Router([(a.device, task, a.standing) for task, a in members])
            route = route_of(router.plan)
        return [
            (
                task,
                worker_pb2.CollectiveMessage(
                    group_ready=worker_pb2.GroupReady(
                        request=asked.request, communicator=number, member=listed, route=route
                    )
                ),
            )
            for task, asked in (*members, *forming.repeated)
        ]

    def links_seen(self, task: str, seen: worker_pb2.LinksSeen, now: float) -> list[Answer]:
        """Take what a member has measured; return whom to ask to pause, so that members change places.

        Args:
            now: by a clock that only goes forward, in seconds.
        """
        formed = self._formed.get(seen.communicator)
        turn = 0 if formed is None or formed.router is None else formed.router.seen(task, seen.link, now)
        if formed is None or not turn:
            return []
        pause = worker_pb2.Pause(communicator=seen.communicator, turn=turn)
        return [(to, worker_pb2.CollectiveMessage(pause=pause)) for to in sorted(set(formed.tasks.values()))]

    def paused(self, task: str, paused: worker_pb2.Paused) -> tuple[list[Answer], str]:
        """Take a task's answer; return whom to tell the new route, after the last one, and what a person is told."""
        formed = self._formed.get(paused.communicator)
        if formed is None or formed.router is None:
            return [], ""
        before = formed.router.plan
        reroute = formed.router.paused(task, paused.turn, paused.begun)
        if reroute is None:
            return [], ""
        reroute.communicator = paused.communicator
        message = worker_pb2.CollectiveMessage(reroute=reroute)
        return [(to, message) for to in sorted(set(formed.tasks.values()))], formed.router.text(before)

    def leave_group(self, asked: worker_pb2.LeaveGroup) -> None:
        """Forget that a device has asked to be in a group."""
        forming = self._forming.get((asked.job, asked.group_key))
        if forming is not None and forming.asked.pop(asked.device, None) is not None:
            self._places -= 1
            self._drop_if_empty((asked.job, asked.group_key))

    def _drop_if_empty(self, key: tuple[str, int]) -> None:
        forming = self._forming[key]
        if not forming.asked:
            self._places -= forming.places
            del self._forming[key]

    def withdraw_group(self, asked: worker_pb2.JoinGroup) -> None:
        """Forget a wish to be in a group, if it is not answered yet: nobody waits for the answer any more."""
        key = asked.job, asked.group_key
        forming = self._forming.get(key)
        if forming is None:
            return
        self._places -= forming.places
        forming.repeated = [(of, a) for of, a in forming.repeated if a.request != asked.request]
        found = forming.asked.get(asked.device)
        if found is not None and found[1].request == asked.request:
            again = next((at for at in forming.repeated if at[1].device == asked.device), None)
            if again is None:
                del forming.asked[asked.device]
            else:
                forming.asked[asked.device] = again
                forming.repeated.remove(again)
        self._places += forming.places
        self._drop_if_empty(key)

    def join_instance(self, task: str, asked: worker_pb2.JoinInstance) -> list[Answer]:
        """Take what a member is about to compute with its group; return whom to answer what."""
        formed = self._formed.get(asked.communicator)
        if formed is None or asked.device not in formed.tasks:
            error = AbortedError("the group has come apart")
            if self._is_foreign(task):
                return [(task, _refused(asked.request, error))]
            return [(task, _ended(asked.communicator, error))]
        if formed.ready is not None:
            return self._join_mixed(formed, task, asked)
        waiting = self._wait_in_instance(formed, task, asked)
        if self._asked > MAX_ASKED:
            return self.end(asked.communicator, _too_many(self._asked))
        if len(waiting) < len(formed.tasks):
            return []
        self._forget_wishes(formed, asked.instance_key)
        try:
            source = _agreed(formed, waiting)
        except InvalidArgumentError as e:
            return self.end(asked.communicator, e)
        return _all_ready(waiting, source)

    def _wait_in_instance(
        self, formed: _Formed, task: str, asked: worker_pb2.JoinInstance
    ) -> dict[str, tuple[str, worker_pb2.JoinInstance]]:
        waiting = formed.instances.setdefault(asked.instance_key, {})
        self._asked += asked.device not in waiting
        waiting[asked.device] = task, asked
        return waiting

    def _forget_wishes(self, formed: _Formed, instance: int) -> None:
        self._asked -= len(formed.instances.pop(instance, ()))

    def withdraw_instance(self, asked: worker_pb2.JoinInstance) -> None:
        """Forget a wish to compute, if it is not answered yet: nobody waits for the answer any more."""
        formed = self._formed.get(asked.communicator)
        waiting = {} if formed is None else formed.instances.get(asked.instance_key, {})
        found = waiting.get(asked.device)
        if formed is not None and found is not None and found[1].request == asked.request:
            del waiting[asked.device]
            self._asked -= 1
            if not waiting:
                del formed.instances[asked.instance_key]

    def _join_mixed(self, formed: _Formed, task: str, asked: worker_pb2.JoinInstance) -> list[Answer]:
        """Answer at once, as soon as it is known who the source is: TensorFlow's servers ask only once."""
        instance = asked.instance_key
        before = formed.instances.get(instance, {}).get(asked.device)
        answers: list[Answer] = []
        if before is not None and self._is_foreign(before[0]):
            again = AbortedError(f"{asked.device} has asked for instance {instance} again")
            answers.append((before[0], _refused(before[1].request, again)))
        waiting = self._wait_in_instance(formed, task, asked)
        try:
            source = self._accept_mixed(formed, asked)
        except OpError as e:
            return answers + self.end(asked.communicator, e)
        if source is None:
            return answers
        self._forget_wishes(formed, instance)
        return answers + _all_ready(waiting, source)

    def _accept_mixed(self, formed: _Formed, asked: worker_pb2.JoinInstance) -> int | None:
        """Find the rank of the source, -1 if there is to be none; None if it is not known yet.

        Raises:
            InvalidArgumentError: others compute something else, or another one is the source.
            ResourceExhaustedError: too much waits, or is to be remembered.
        """
        instance = asked.instance_key
        what = formed.agreed.get(instance, asked.what)
        source = formed.sources.get(instance, -1)
        if _unmerged(what) != _unmerged(asked.what):
            raise InvalidArgumentError(
                f"Shape mismatch in the collective instance {instance}. {asked.device} has {asked.what}, others have "
                f"{what}"
            )
        if asked.is_source:
            if source not in (-1, formed.ranks[asked.device]):
                raise InvalidArgumentError(
                    f"Instance {instance} has several sources: {list(formed.ranks)[source]}, {asked.device}"
                )
            source = formed.ranks[asked.device]
        if not self._remember(formed, instance, what, source):
            text = f"{self._remembered} computations of groups with TensorFlow's servers are remembered; no more may be"
            raise ResourceExhaustedError(f"{text} new. Start the servers again")
        if self._asked > MAX_ASKED:
            raise _too_many(self._asked)
        return None if what.startswith("Broadcast") and source < 0 else source

    def _remember(self, formed: _Formed, instance: int, what: str, source: int) -> bool:
        """Keep what a computation is for who asks later; return whether there is room for it."""
        self._remembered -= formed.remembered
        formed.agreed[instance] = what
        formed.agreed.move_to_end(instance)
        if source >= 0:
            formed.sources[instance] = source
        while self._remembered + formed.remembered > MAX_REMEMBERED and len(formed.agreed) > 1:
            formed.agreed.popitem(last=False)
        self._remembered += formed.remembered
        return self._remembered <= MAX_REMEMBERED

    def end(self, communicator: int, error: OpError) -> list[Answer]:
        """Dissolve a group; return who is to be told."""
        formed = self._formed.pop(communicator, None)
        if formed is None:
            return []
        self._places -= len(formed.tasks)
        self._asked -= formed.asked
        self._remembered -= formed.remembered
        self._standing = {key: number for key, number in self._standing.items() if number != communicator}
        message = _ended(communicator, error)
        # Foreign members know nothing of a group's end, but those that wait for an answer must have one.
        refused = [
            (task, _refused(asked.request, error))
            for waiting in formed.instances.values()
            for task, asked in waiting.values()
            if self._is_foreign(task)
        ]
        return refused + [(task, message) for task in sorted(set(formed.tasks.values())) if not self._is_foreign(task)]

    def lost(self, task: str, error: OpError) -> list[Answer]:
        """Take out a task that is gone; return who is to be told."""
        for key, forming in list(self._forming.items()):
            for device in [d for d, (of, _) in forming.asked.items() if of == task]:
                del forming.asked[device]
                self._places -= 1
            self._drop_if_empty(key)
        gone = [number for number, formed in self._formed.items() if task in formed.tasks.values()]
        return [answer for number in gone for answer in self.end(number, error) if answer[0] != task]


def _place(device: str) -> tuple[str, list[int], str]:
    """Order devices by job, task and number: `worker/10` after `worker/9`."""
    numbers = [int(part) for part in device.replace("/", ":").split(":") if part.isdigit()]
    return device.partition("/replica")[0], numbers, device


def _is_in(asked: worker_pb2.JoinGroup, ready: worker_pb2.GroupReady) -> bool:
    """Tell whether a group is the one that is asked for, with the device in this very life."""
    return asked.group_size == len(ready.member) and any(
        (m.device, m.incarnation) == (asked.device, asked.incarnation) for m in ready.member
    )


def _unmerged(what: str) -> str:
    """Leave out how values are merged, of what is computed: TensorFlow's servers do not say."""
    kind, _, of = what.partition(" of ")
    return f"{kind.partition(' ')[0]} of {of}"


def _agreed(formed: _Formed, waiting: dict[str, tuple[str, worker_pb2.JoinInstance]]) -> int:
    """Find the rank of the source, -1 if there is none.

    Raises:
        InvalidArgumentError: members are about to compute different things, or several say that they are the source.
    """
    (first, (_, wanted)), *others = waiting.items()
    for device, (_, asked) in others:
        if asked.what != wanted.what:
            raise InvalidArgumentError(
                f"Shape mismatch in the collective instance {asked.instance_key}. {first} has {wanted.what}, {device} "
                f"has {asked.what}"
            )
    sources = [device for device, (_, asked) in waiting.items() if asked.is_source]
    if len(sources) > 1:
        raise InvalidArgumentError(f"Instance {wanted.instance_key} has several sources: {', '.join(sorted(sources))}")
    if not sources and wanted.what.startswith("Broadcast"):
        raise InvalidArgumentError(f"Instance {wanted.instance_key} found no source for broadcast")
    return formed.ranks[sources[0]] if sources else -1


def _all_ready(waiting: Mapping[str, tuple[str, worker_pb2.JoinInstance]], source: int) -> list[Answer]:
    ready = [(to, worker_pb2.InstanceReady(request=asked.request, source=source)) for to, asked in waiting.values()]
    return [(to, worker_pb2.CollectiveMessage(instance_ready=message)) for to, message in ready]


def _too_many(asked: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(f"{asked} wishes to compute wait for other members of their groups; no more may")


def _refused(request: int, error: OpError) -> worker_pb2.CollectiveMessage:
    ready = worker_pb2.InstanceReady(request=request, code=error.error_code, message=error.message)
    return worker_pb2.CollectiveMessage(instance_ready=ready)


def _ended(communicator: int, error: OpError) -> worker_pb2.CollectiveMessage:
    end = worker_pb2.EndGroup(communicator=communicator, code=error.error_code, message=error.message)
    return worker_pb2.CollectiveMessage(end_group=end)
