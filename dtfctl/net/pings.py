"""Tell whether the other end of a connection still lives, by what comes from it: once for launcher and runtime.

Each end says something every `PING_S`, a ping if there is nothing else to say. An end from which nothing came for
`SILENT_TICKS` is taken for gone: frozen, or cut off. Ticks are counted, not seconds, as a process that was itself held
up has not listened; for the same reason what lies unread in the socket counts as having come.

The runtime's links have their ticks from the reactor; connections that a thread reads have them from `HEART`.
"""

from __future__ import annotations

import select
import threading
import time
import weakref
from typing import Protocol

from dtfctl import guard

TICK_S = 1.0
PING_S = 4.0
SILENT_TICKS = 18
SILENT_S = int(SILENT_TICKS * TICK_S)
"""The same for ends that wait with a timeout and have no ticks."""


class Pings:
    """What one end of a connection has said and heard. Plain attributes, as they are set with everything that passes.

    Attributes:
        spoke_at: when this end said something last, by the monotonic clock.
        silent_ticks: since something came; set to 0 then.
    """

    __slots__ = ("silent_ticks", "spoke_at")

    def __init__(self) -> None:
        self.spoke_at = time.monotonic()
        self.silent_ticks = 0

    def tick(self, descriptor: int) -> bool:
        """Count one more tick; tell whether the other end has been silent for too long.

        Args:
            descriptor: of the socket, in which something may lie unread.
        """
        self.silent_ticks += 1
        return self.silent_ticks > SILENT_TICKS and not has_unread(descriptor)

    def is_due(self, now: float) -> bool:
        """Tell whether this end has to say something."""
        return now - self.spoke_at > PING_S


def has_unread(descriptor: int) -> bool:
    """Tell whether something has come that nobody has read yet, be it the end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class Ticking(Protocol):
    """A connection that wants to be called about every `TICK_S`, and never waits then."""

    def tick(self, now: float) -> None: ...


class Heart:
    """One thread that ticks while there are connections to tick; all methods by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[Ticking] = weakref.WeakSet()
        self._beats = False

    def add(self, connection: Ticking) -> None:
        """Tick a connection from now on."""
        with self._lock:
            self._connections.add(connection)
            if not self._beats:
                self._beats = True
                guard.forever(self._run, name="heart").start()

    def remove(self, connection: Ticking) -> None:
        """Tick a connection no more."""
        with self._lock:
            self._connections.discard(connection)

    def _run(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                connections = list(self._connections)
                if not connections:
                    self._beats = False
                    return
            now = time.monotonic()
            for connection in connections:
                try:
                    connection.tick(now)
                except Exception:
                    guard.note("what a connection does by the clock")
                    self.remove(connection)


HEART = Heart()
