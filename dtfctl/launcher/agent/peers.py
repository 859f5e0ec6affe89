"""Where all tasks of the cluster are, and telling this host's tasks about it.

When a task dies, every other one hears of it at once, so that what waits for it fails now and not by a time-out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dtfctl.health import beats
from dtfctl.launcher.agent.contract import Peer
from dtfctl.launcher.agent.line import TaskLine
from dtfctl.launcher.agent.unit import Unit


class PeerBoard:
    """This host's tasks (`units`, shared with the loop that owns them) and those of other hosts."""

    def __init__(self, line: TaskLine, units: Mapping[str, Unit], advertise: str) -> None:
        self._line = line
        self._units = units
        self._advertise = advertise
        self._others: dict[str, Peer] = {}

    def addresses(self) -> dict[str, str]:
        """Every task's `host:port`, as far as it is known."""
        known = {peer.name: peer.address for peer in self._others.values() if peer.address}
        for unit in self._units.values():
            if unit.is_task and unit.record.port:
                known[unit.name] = f"{self._advertise}:{unit.record.port}"
        return known

    def missing(self, expected: Iterable[str]) -> list[str]:
        """Tasks of which it is not known where they will be, and which have not given up finding a place."""
        known = self.addresses()
        return [name for name in expected if name not in known and not self._gave_up(name)]

    def _gave_up(self, name: str) -> bool:
        unit, other = self._units.get(name), self._others.get(name)
        return (unit is not None and unit.record.state == "failed") or (other is not None and not other.address)

    def know(self, others: Iterable[Peer]) -> None:
        """Take over what a former agent knew; the tasks have heard it."""
        self._others = {peer.name: peer for peer in others}

    def update(self, others: Iterable[Peer]) -> None:
        """News of other hosts' tasks."""
        for peer in others:
            before = self._others.get(peer.name)
            self._others[peer.name] = peer
            if before != peer and (peer.up or before is not None):
                self._tell_all(peer)

    def went_down(self, unit: Unit, reason: str) -> None:
        """A task of this host."""
        self._tell_all(self._peer_of(unit, up=False, reason=reason))

    def came_up(self, unit: Unit) -> None:
        """A task of this host: the others hear of it, and it hears who else is up."""
        self._tell_all(self._peer_of(unit, up=True))
        for other in self._units.values():
            if other.is_task and other is not unit and other.record.incarnation:
                up = other.record.state == "running"
                self._line.tell(unit.name, _note(self._peer_of(other, up=up, reason=other.record.reason)))
        for peer in self._others.values():
            if peer.up or peer.incarnation:
                self._line.tell(unit.name, _note(peer))

    def flush(self) -> None:
        """Send what waits."""
        self._line.flush(lambda name: (unit := self._units.get(name)) is not None and unit.record.state == "running")

    def _tell_all(self, peer: Peer) -> None:
        for unit in self._units.values():
            if unit.is_task and unit.name != peer.name and unit.record.state == "running":
                self._line.tell(unit.name, _note(peer))

    def _peer_of(self, unit: Unit, *, up: bool, reason: str = "") -> Peer:
        job, _, index = unit.name.partition("/")
        address = self.addresses().get(unit.name, "")
        return Peer(job, int(index), address, unit.record.incarnation, up, reason)


def _note(peer: Peer) -> beats.Note:
    if peer.up:
        return beats.PeerUp(peer.job, peer.index, peer.address, peer.incarnation)
    return beats.PeerDown(peer.job, peer.index, peer.incarnation, peer.reason)
