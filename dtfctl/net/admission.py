"""How many may wait at a door before they have said who they are, and who goes first when it is full.

>>> door = Admission(Limits(strangers=3, per_source=2, within_s=5.0))
>>> door.enter("a", "10.0.0.1", 0.0), door.enter("b", "10.0.0.1", 1.0)
([], [])
>>> door.enter("c", "10.0.0.1", 2.0)  # the oldest of that source has to go
['a']
>>> door.enter("d", "10.0.0.2", 3.0), door.enter("e", "10.0.0.3", 3.0)  # the oldest of all
([], ['b'])
>>> door.leave("d")  # it has said who it is
>>> door.due_at(), door.overdue(7.0), door.overdue(7.0)
(7.0, ['c'], [])
"""

from __future__ import annotations

import resource
import socket
from typing import Generic, TypeVar

from dtfctl.values import value

MOST_STRANGERS = 256
FEWEST_STRANGERS = 32
SHARE = 16
"""Strangers may have one of so many of the process's descriptors; a source a quarter of that."""
WITHIN_S = 15.0
"""A handshake takes a loaded machine seconds. A full door turns out the oldest whatever time it has had."""
Guest = TypeVar("Guest")


@value
class Limits:
    """How many strangers one door takes, and for how long."""

    strangers: int
    """Connections that have not proved who they are."""
    per_source: int
    """The same from one address, of IPv6 from one network of 64 bits; within this machine from one other user."""
    within_s: float = WITHIN_S
    """How long one may take to prove it."""

    @classmethod
    def of_process(cls) -> Limits:
        """Return as many as the process's limit of open files bears."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files == resource.RLIM_INFINITY:
            files = MOST_STRANGERS * SHARE
        most = max(FEWEST_STRANGERS, min(MOST_STRANGERS, files // SHARE))
        return cls(most, most // 4)


class Admission(Generic[Guest]):
    """Strangers at one door, the oldest first. For one thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since: dict[Guest, tuple[str, float]] = {}
        self._of_source: dict[str, dict[Guest, None]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def enter(self, guest: Guest, source: str, now: float, *, is_mine: bool = False) -> list[Guest]:
        """Take in who has come, and return who has to go for it. This user's own processes may come many at once."""
        out = []
        beside = self._of_source.get(source, {})
        if len(beside) >= self._limits.per_source and not is_mine:
            out.append(next(iter(beside)))
        elif len(self._since) >= self._limits.strangers:
            out.append(next(iter(self._since)))
        for other in out:
            self.leave(other)
        self._since[guest] = source, now
        self._of_source.setdefault(source, {})[guest] = None
        return out

    def leave(self, guest: Guest) -> None:
        """Forget a guest that is no stranger any more, or gone."""
        source, _ = self._since.pop(guest, ("", 0.0))
        beside = self._of_source.get(source)
        if beside is not None:
            beside.pop(guest, None)
            if not beside:
                del self._of_source[source]

    def oldest(self) -> Guest | None:
        return next(iter(self._since), None)

    def due_at(self) -> float | None:
        """Return when the next one has had its time."""
        first = next(iter(self._since.values()), None)
        return None if first is None else first[1] + self._limits.within_s

    def overdue(self, now: float) -> list[Guest]:
        """Return who has had its time, and has to go."""
        out = []
        for guest, (_, since) in self._since.items():
            if now - since < self._limits.within_s:
                break
            out.append(guest)
        for guest in out:
            self.leave(guest)
        return out


def source_of(host: str) -> str:
    """Name what counts as one source of connections.

    >>> source_of("10.0.0.1"), source_of("2001:db8::1:2:3:4") == source_of("2001:db8::9"), source_of("::ffff:10.0.0.1")
    ('10.0.0.1', True, '10.0.0.1')
    """
    if ":" not in host:
        return host
    if "." in host:
        return host.rpartition(":")[2]
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()
