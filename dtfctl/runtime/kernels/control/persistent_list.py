"""A list whose old versions stay readable while changes cost the same as on a plain list.

Baker's trick (Conchon and Filliâtre, "A persistent union-find data structure", 2007): the newest version holds the
items, each older one only how it differs from a newer one. Changing the newest version takes constant time, which is
what loops do; reading an old one first makes it the one that holds the items.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

_LOCK = threading.Lock()
_SET, _APPEND, _POP = 0, 1, 2
_LESS = (_POP, 0, None)


class PersistentList:
    """An immutable list; `set`, `append` and `pop` give new ones."""

    __slots__ = ("_change", "_items", "_newer", "_size")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items: list[Any] | None = list(items)
        self._newer: PersistentList | None = None
        # How to get this version's items from those of `_newer`: (what, index, value).
        self._change: tuple[int, int, Any] = (_POP, 0, None)
        self._size = len(self._items)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Any:
        with _LOCK:
            items = self._items
            return (self._root() if items is None else items)[index]

    def to_list(self) -> list[Any]:
        with _LOCK:
            return self._root().copy()

    def set(self, index: int, value: Any) -> PersistentList:
        with _LOCK:
            items = self._root()
            old, items[index] = items[index], value
            return self._replaced(items, (_SET, index, old))

    def append(self, value: Any) -> PersistentList:
        with _LOCK:
            items = self._items
            if items is None:
                items = self._root()
            items.append(value)
            return self._replaced(items, _LESS)

    def pop(self) -> PersistentList:
        with _LOCK:
            items = self._items
            if items is None:
                items = self._root()
            return self._replaced(items, (_APPEND, 0, items.pop()))

    def _replaced(self, items: list[Any], change: tuple[int, int, Any]) -> PersistentList:
        """Hand the items on to a new version; this one keeps the way back."""
        new: PersistentList = _new(PersistentList)
        new._items, new._newer, new._change, new._size = items, None, _LESS, len(items)
        self._items, self._newer, self._change = None, new, change
        return new

    def _root(self) -> list[Any]:
        """Make this the version that holds the items; call with the lock held."""
        if self._items is not None:
            return self._items
        chain = [self]
        while chain[-1]._newer is not None:
            chain.append(chain[-1]._newer)
        root = chain.pop()
        items = root._items
        assert items is not None
        while chain:
            version = chain.pop()
            what, index, value = version._change
            if what == _SET:
                back = _SET, index, items[index]
                items[index] = value
            elif what == _APPEND:
                back = _POP, 0, None
                items.append(value)
            else:
                back = _APPEND, 0, items.pop()
            root._items, root._newer, root._change = None, version, back
            version._items, version._newer = items, None
            root = version
        return items


# Loops make thousands of them a second.
_new: Any = PersistentList.__new__
