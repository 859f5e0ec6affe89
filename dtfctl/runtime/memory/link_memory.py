"""Shared memory as one end of a link has it: what is lent over it, what came over it, what becomes of both at its end.

what is lent:   lent ──── the peer gives it back ─────────────────────────────────────► returned
                  └── the link ends ──► left to the peer's process ── that ends, or ───────▲
                                                                      says over the next link that it has nothing
what came:      held ──── nobody here has it ──► released, to be told with the next frames
                  └── the link ends ──► held ── nobody here has it ──► idle, to be told over the next link
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.memory.borrowed import Mapping
from dtfctl.runtime.memory.borrower import Borrower
from dtfctl.runtime.memory.remains import Remains
from dtfctl.runtime.memory.shared_memory import Arena, Loans


class LinkMemory:
    """Memory of one end of a link.

    Attributes:
        loans: what the peer may look at here; None where nothing is lent over the link.
        mapping: what the peer lends; None where it lends nothing.
        released: where things were in the peer's arena that it is to be told are not held here any more; to be looked
            at only, with each frame that is sent.

    Args:
        arena: what is lent lies there.
        mapping_of: the descriptor of the peer's arena, which is taken over, and its size.
        borrower: the process at the other end, where that may go on without the link.
        remains: of links to the same life of the peer, of which this one has this name; they are told of over the next.
    """

    def __init__(
        self,
        arena: Arena | None,
        mapping_of: tuple[int, int] | None,
        borrower: Borrower | None = None,
        remains: Remains | None = None,
        name: int = 0,
    ) -> None:
        # Noted in the middle of anything else: to be told with the next frames, or the next tick.
        self.released: deque[int] = deque()
        self.loans = None if arena is None else Loans(arena)
        self.mapping = None if mapping_of is None else Mapping(*mapping_of, self.released.append)
        self._borrower = borrower
        self._remains = remains
        self._name = name
        if remains is not None:
            remains.begun(name)

    def take_released(self) -> list[int]:
        """Take where things were in the peer's arena of which nobody here holds an array any more."""
        return [self.released.popleft() for _ in range(len(self.released))]

    def take_back(self, offsets: Iterable[int]) -> None:
        """Take back what the peer looks at no more.

        Raises:
            InvalidArgumentError: it was not lent it.
        """
        for offset in offsets:
            if self.loans is None or not self.loans.take_back(offset):
                raise InvalidArgumentError("A peer gives back memory it was not lent")

    def returned(self, name: int) -> None:
        """Note that the peer looks at nothing any more that it was lent over another link, which has ended.

        Raises:
            InvalidArgumentError: there was no such link.
        """
        if self._remains is None:
            raise InvalidArgumentError("A peer returns what it was lent over a link that never was")
        self._remains.returned(name)

    def take_idle(self) -> list[int]:
        """Take the ended links to the peer of which nothing is left here, and of which it was not told."""
        return [] if self._remains is None else self._remains.take_idle()

    def end(self) -> None:
        """Go on without the link: nothing more is lent or comes over it."""
        if self.loans is None:
            return
        self.loans.arena.close()
        if self._borrower is not None:
            self._borrower.outlive(self.loans)
            if self._remains is not None and self.mapping is not None:
                self._remains.ended(self._name, self.loans, self.mapping.end())
