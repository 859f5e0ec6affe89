"""The lease of a host: without a word of the controller for too long, it stops its own tasks.

A controller that cannot reach a host gives its tasks to other hosts. The host has to come to the same conclusion by
itself, because nobody can tell it. A controller that merely died moves nothing, so before a lease ends the host looks
whether the machine of the controller can be reached: a connection to where the controller's calls came from is
refused at once there, and lost in a network that is cut.

That says of the machine that it is there, not of the controller that it died: where only some packets pass, a
controller that lives may have given the tasks away. The stream of reports knows better. When the controller dies, its
machine ends the stream. While that is open, what is sent on it is answered (the machine is there, and hears
what goes on here), or has to be sent again and again (it is cut off, whatever its machine says to other packets).

Leases have numbers, terms. While a host is cut off, the kernel of the controller's machine keeps what was sent to it
and sends it again when the cut is mended, long after the host's tasks were given away. So a lease that has ended is
not renewed by what was sent before its end: the host answers with its next term, and only who names that one has
spoken since.

>>> lease = Lease()
>>> lease.renew(0.0, 15.0, 0); lease.look(13.0), lease.look(13.9), lease.look(14.0)
True
('held', 'ask', 'held')
>>> lease.answer(14.9, reachable=False); lease.look(14.9), lease.look(15.0), lease.look(16.0)
('held', 'ended', 'held')
>>> lease.renew(20.0, 15.0, 0), lease.has_ended, lease.term
(False, True, 1)
>>> lease.renew(20.1, 15.0, 1), lease.has_ended
(True, False)
"""

from __future__ import annotations

import socket
from typing import Literal, TypeAlias

from dtfctl.net.tls_socket import Echo

Outlook: TypeAlias = Literal["held", "ask", "ended"]

ASK_BEFORE_S = 1.5
"""How long before its end it is looked whether the controller's machine can be reached."""
REACH_S = 1.0
HEARD_S = 2.0
"""A stream that is watched carries something every second, and that is answered."""
ASK_AGAIN_S = 5.0
SSH_PORT = 22
UNIX = "unix"
"""Who calls through a unix socket is on this machine."""


REPEATS = 3
"""What was sent so often without an answer is not heard: on a link of 1 ms after 1.4 s."""


def stream_says(echo: Echo | None, length_s: float) -> bool | None:
    """Tell whether the controller's machine is there, by the open stream of reports; None: it does not say.

    >>> stream_says(Echo(0, 0.9), 15.0), stream_says(Echo(5, 13.0), 15.0), stream_says(Echo(0, 13.0), 15.0)
    (True, False, None)
    """
    if echo is None:
        return None
    if echo.repeats >= REPEATS:
        return False
    return True if echo.repeats == 0 and echo.silence_s < min(HEARD_S, length_s / 4) else None


class Lease:
    """Times of one monotonic clock. Without a first `renew` of more than 0 s there is no lease and no end."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._is_asking = False
        self._length_s = 0.0
        self.has_ended = False
        self.term = 0
        """How many leases have ended."""

    @property
    def length_s(self) -> float:
        return self._length_s

    def renew(self, now: float, length_s: float, term: int) -> bool:
        """Renew the lease, where the controller has spoken since the last one ended; return whether it has."""
        if length_s > 0 and term != self.term:
            return False
        self._length_s = length_s
        self._until = now + length_s if length_s > 0 else None
        self._is_asking = False
        self.has_ended = False
        return True

    def look(self, now: float) -> Outlook:
        """Say what is to be done: `ask` whether the controller's machine is there, or stop all (`ended`, told once)."""
        if self._until is None or self.has_ended:
            return "held"
        if now >= self._until:
            self.has_ended = True
            self.term += 1
            return "ended"
        if now >= self._until - ASK_BEFORE_S and not self._is_asking:
            self._is_asking = True
            return "ask"
        return "held"

    def answer(self, now: float, *, reachable: bool) -> None:
        """Hold on, and look again later, where the controller died but the host is not cut off."""
        if reachable and self._until is not None and self._is_asking:
            self._until = max(self._until, now + ASK_AGAIN_S + ASK_BEFORE_S)
            self._is_asking = False


def way_back(peer: str, own: str, came_from: str) -> str:
    """Find where to knock for the machine of the controller, whose calls come from `peer`.

    Calls that are forwarded by SSH come from this host itself, which is no news; what lies behind is the other end of
    the SSH connection, `came_from`: the controller's machine, or the jump host nearest to here.

    >>> way_back("10.0.0.1:43210", "10.0.0.7", "10.0.0.2")
    '10.0.0.1:43210'
    >>> way_back("10.0.0.7:43210", "10.0.0.7", "10.0.0.2")
    '10.0.0.2:22'
    >>> way_back("[fd00::7]:43210", "[fd00::7]", "fd00::2")
    '[fd00::2]:22'

    One who has not been called yet was started by the controller: from there, or on this machine.

    >>> way_back("", "10.0.0.7", "10.0.0.2"), way_back("", "127.0.0.1", "")
    ('10.0.0.2:22', 'unix')
    """
    if not peer and not came_from:
        return UNIX
    if peer and (not came_from or not is_forwarded(peer, own)):
        return peer
    return f"[{came_from}]:{SSH_PORT}" if ":" in came_from else f"{came_from}:{SSH_PORT}"


def is_forwarded(peer: str, own: str) -> bool:
    """Tell whether the other end is a process of this very host, such as its SSH server."""
    return peer.rpartition(":")[0].strip("[]") in (own.strip("[]"), "127.0.0.1", "::1")


def can_reach(peer: str) -> bool:
    """Tell whether the machine of `peer` (`10.0.0.1:43210`) answers, be it by refusing a connection."""
    if peer == UNIX:
        return True  # it is this machine
    host, _, port = peer.rpartition(":")
    if not port.isdigit():
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True
