"""Where all tasks of the cluster are, and telling this host's tasks about it.

When a task dies, every other one hears of it at once, so that what waits for it fails now and not by a time-out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Protocol

from dtfctl.health import beats
from dtfctl.launcher.agent.tell.task_socket import TaskSocket
from dtfctl.launcher.messages.orders import Peer, Way
from dtfctl.launcher.model import TaskState


class Standing(Protocol):
    """What is told of a task's record."""

    @property
    def port(self) -> int: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def reason(self) -> str: ...


class LocalTask(Protocol):
    """A task of this host."""

    @property
    def name(self) -> str: ...
    @property
    def is_wanted(self) -> bool: ...
    @property
    def record(self) -> Standing: ...


class PeerBoard:
    """The tasks of this host (`tasks`, shared with the loop that owns them) and those of other hosts."""

    def __init__(self, socket: TaskSocket, tasks: Mapping[str, LocalTask], advertise: str) -> None:
        self._socket = socket
        self._tasks = tasks
        self._advertise = advertise
        self._others: dict[str, Peer] = {}
        self._place = beats.Place("", ())
        self._wanted: frozenset[str] = frozenset()
        """The tasks that belong to the cluster now."""

    def addresses(self) -> dict[str, str]:
        """Find every task's `host:port`, as far as it is known."""
        known = {peer.name: peer.address for peer in self._others.values() if peer.address}
        for task in self._tasks.values():
            if self._is_here(task.name) and task.record.port:
                known[task.name] = f"{self._advertise}:{task.record.port}"
        return known

    def missing(self, expected: Iterable[str]) -> list[str]:
        """List the tasks that have no known place yet, and have not given up finding one."""
        return [name for name in expected if not self._has_place(name) and not self._gave_up(name)]

    def _has_place(self, name: str) -> bool:
        task, other = self._tasks.get(name), self._others.get(name)
        if task is not None and task.record.port and self._is_here(name):
            return True
        return other is not None and bool(other.address)

    def _gave_up(self, name: str) -> bool:
        task, other = self._tasks.get(name), self._others.get(name)
        return (task is not None and task.record.state == "failed") or (other is not None and not other.address)

    def stand(self, rack: str, ways: Iterable[Way], *, heard: bool = False) -> None:
        """Tell the tasks where this host stands, and what ways from it carry; if `heard`, a former agent has."""
        place = beats.Place(rack, tuple((way.task, way.bytes_s) for way in ways))
        if place != self._place and not heard:
            self._socket.tell(self._running(), _packed(place))
        self._place = place

    def know(self, others: Iterable[Peer], expected: Iterable[str]) -> None:
        """Take over what a former agent knew; the tasks have heard it."""
        self._others = {peer.name: peer for peer in others}
        self._wanted = frozenset(expected)

    def update(self, others: Iterable[Peer], expected: Iterable[str]) -> None:
        """Take news of other hosts' tasks, and of which tasks belong to the cluster now."""
        news = {peer.name: peer for peer in others}
        wanted = frozenset(expected)
        for name in [name for name in self._others if name not in news and not self._is_here(name)]:
            self._tell_all_gone(self._others.pop(name))
        for peer in news.values():
            before = self._others.get(peer.name)
            if before is not None and before.incarnation and not peer.incarnation:
                continue  # of a controller that has not heard yet that it was started
            self._others[peer.name] = peer
            if peer.name not in wanted:
                if before is None or before.name in self._wanted:
                    self._tell_all_gone(peer, lost=True)
            elif before != peer and (peer.up or before is not None):
                self._tell_all(peer)
        for name in [name for name in self._others if self._is_here(name)]:
            del self._others[name]
        self._wanted = wanted

    def went_away(self, task: LocalTask) -> None:
        """Tell the others that a task of this host was taken out of the cluster, and has ended."""
        self._tell_all_gone(self._peer_of(task, up=False))

    def _is_here(self, name: str) -> bool:
        """Tell whether this host is to have the task: one that was moved elsewhere may still be ending."""
        task = self._tasks.get(name)
        return task is not None and task.is_wanted

    def is_whole(self) -> bool:
        """Tell whether every task of the cluster is up."""
        for name in self._wanted:
            task, other = self._tasks.get(name), self._others.get(name)
            if task is not None and task.is_wanted:
                if task.record.state != "running":
                    return False
            elif other is None or not other.up:
                return False
        return True

    def went_down(self, task: LocalTask, reason: str) -> None:
        """Tell the others that a task of this host went down."""
        self._tell_all(self._peer_of(task, up=False, reason=reason))

    def came_up(self, task: LocalTask) -> None:
        """Tell the others that a task of this host came up, and tell it who else is up."""
        self._tell_all(self._peer_of(task, up=True))
        if self._place.rack or self._place.rates:
            self._socket.tell((task.name,), _packed(self._place))
        for other in self._tasks.values():
            if self._is_here(other.name) and other is not task and other.record.incarnation:
                up = other.record.state == "running"
                self._socket.tell((task.name,), _note(self._peer_of(other, up=up, reason=other.record.reason)))
        for peer in self._others.values():
            if peer.name not in self._wanted:
                self._socket.tell((task.name,), _packed(beats.PeerGone(peer.job, peer.index, peer.reason, lost=True)))
            elif peer.up or peer.incarnation:
                self._socket.tell((task.name,), _note(peer))

    def job_ended(self, job_id: str) -> None:
        """Tell this host's tasks to drop what they hold for that job."""
        self._socket.tell(self._running(), _packed(beats.JobEnded(job_id)))

    def flush(self) -> None:
        """Send what waits."""
        self._socket.flush(lambda name: (task := self._tasks.get(name)) is not None and task.record.state == "running")

    def _tell_all(self, peer: Peer) -> None:
        self._socket.tell(self._running(but=peer.name), _note(peer))

    def _running(self, but: str = "") -> list[str]:
        """List the tasks of this host that listen."""
        tasks = self._tasks.values()
        return [task.name for task in tasks if task.name != but and task.record.state == "running"]

    def _tell_all_gone(self, peer: Peer, *, lost: bool = False) -> None:
        """Tell all that a task is gone; `lost`: it is of the cluster, and comes back when there is a place for it."""
        reason = peer.reason or "taken out of the cluster"
        self._socket.tell(self._running(but=peer.name), _packed(beats.PeerGone(peer.job, peer.index, reason, lost)))

    def _peer_of(self, task: LocalTask, *, up: bool, reason: str = "") -> Peer:
        job, _, index = task.name.partition("/")
        address = f"{self._advertise}:{task.record.port}" if task.record.port and self._is_here(task.name) else ""
        if not address and task.name in self._others:
            address = self._others[task.name].address
        return Peer(job, int(index), address, task.record.incarnation, up, reason)


def _note(peer: Peer) -> bytes:
    if peer.up:
        return _packed(beats.PeerUp(peer.job, peer.index, peer.address, peer.incarnation))
    return _packed(beats.PeerDown(peer.job, peer.index, peer.incarnation, peer.reason))


@functools.lru_cache(maxsize=4096)
def _packed(note: beats.Note) -> bytes:
    """Pack a note once: the same words go to every task of the host, and again to each that starts."""
    return beats.pack(note)
