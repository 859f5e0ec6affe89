"""Who uses which session, and what becomes of its groups when nobody does any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from weakref import WeakSet

from dtfctl.runtime.services.calls import Call
from dtfctl.runtime.services.master_session import MasterSession


class SessionUsers:
    """Connections of clients, whether over gRPC or over the short way, and the sessions that each has used.

    A client that is killed between two steps closes none of its sessions, and nothing of them runs that could fail: the
    other members of their groups would wait for it. One that lives and comes back forms the groups again.

    Args:
        unused: is told of sessions, by their handles, that no connection is left of which used them. Must not block.
    """

    def __init__(self, unused: Callable[[str], object]) -> None:
        self._unused = unused
        self._lock = threading.Lock()
        # A connection may outlive many sessions.
        self._sessions: dict[Hashable, WeakSet[MasterSession]] = {}

    def uses(self, user: Hashable, session: MasterSession) -> bool:
        """Note that a connection uses a session; tell whether it is the first one that it uses."""
        with self._lock:
            used = self._sessions.get(user)
            is_first = used is None
            if used is None:
                used = self._sessions[user] = WeakSet()
            used.add(session)
        return is_first

    def called(self, call: Call, session: MasterSession) -> None:
        """Note that the connection of a call uses a session, until it ends."""
        user = call.peer()
        if self.uses(user, session) and not call.on_left(lambda: self.left(user)):
            self.left(user)

    def left(self, user: Hashable) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            sessions = set(self._sessions.pop(user, ()))
            for others in self._sessions.values():
                sessions.difference_update(others)
        for session in sessions:
            self._unused(session.handle)
