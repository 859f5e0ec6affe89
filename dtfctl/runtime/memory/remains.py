"""What is left of links that ended between two tasks that live on: loans of shared memory.

A link that ends cannot say any more what its receiver lets go of. The next link of the same two lives does: once the
receiver holds nothing more of what came over the old one, RETURNED ends all that was lent over it.
"""

from __future__ import annotations

import threading
import weakref

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.memory.borrowed import Held
from dtfctl.runtime.memory.shared_memory import Loans


class Remains:
    """What is left of the links between a task and one life of a peer, by the names of the links."""

    def __init__(self, peer_life: int) -> None:
        self.peer_life = peer_life
        self._lock = threading.Lock()
        # Links that are there, and whether the peer has said that it is done with what came over them.
        self._there: dict[int, bool] = {}
        self._lent: dict[int, Loans] = {}
        self._held: dict[int, Held] = {}

    def begun(self, name: int) -> None:
        with self._lock:
            self._there[name] = False

    def ended(self, name: int, loans: Loans, held: Held) -> None:
        """Note that a link has ended.

        Args:
            loans: what the peer was lent over it.
            held: what is left here of what the peer has lent.
        """
        with self._lock:
            is_returned = self._there.pop(name, False)
            self._held[name] = held
            if not is_returned:
                self._lent[name] = loans
        if is_returned:
            loans.end()

    def returned(self, name: int) -> None:
        """Note that the peer looks at nothing any more that it was lent over a link.

        Raises:
            InvalidArgumentError: there was no such link.
        """
        with self._lock:
            loans = self._lent.pop(name, None)
            if loans is None:
                if name not in self._there:
                    raise InvalidArgumentError("A peer returns what it was lent over a link that never was")
                # It is lost, and this end will find out.
                self._there[name] = True
                return
        loans.end()

    def take_idle(self) -> list[int]:
        """Take the ended links of which nothing is left here, and of which nobody has told the peer."""
        with self._lock:
            idle = [name for name, held in self._held.items() if not held]
            for name in idle:
                del self._held[name]
        return idle


_lock = threading.Lock()
_all: weakref.WeakKeyDictionary[object, dict[str, Remains]] = weakref.WeakKeyDictionary()


def remains_of(owner: object, peer_task: str, peer_life: int) -> Remains:
    """Return what is left of an owner's links to a life of a peer; of lives before it nothing is."""
    with _lock:
        peers = _all.setdefault(owner, {})
        found = peers.get(peer_task)
        if found is None or found.peer_life != peer_life:
            found = peers[peer_task] = Remains(peer_life)
        return found
