"""A value that anybody reads and keeps, and that one at a time changes: what variables are.

                hold                 change, update: nobody else has it
    nothing ───────────► held ◄────────────────────────────────────────► taken out, readers wait
       ▲                 │  ▲
       └───── close ─────┘  └── change, update: somebody else has it, who keeps it; another one takes its place

Readers get the array itself, never a copy, and may keep it: a fetched weight, a tensor waiting in a socket. Writers
update in place only when nobody else holds the array (memory/ownership.py), and otherwise write into a fresh one. Who
writes in place takes the array out first: so nobody comes by it before it is whole again, as a read waits that long.
So a value once read never changes and is never half of one update, a training step that lets go of what it read in time
costs no copy, and readers need no lock but while an update in place goes on. A checkpoint's snapshot is a reader that
need not cost a copy of everything: updates of few rows keep for it what these were, and go on in place.
Who had to copy a large array once, as after each checkpoint, will have to again: the array that was left to its readers
is written into next time, as memory fresh from the system costs several times what copying does.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.memory import shared_memory
from dtfctl.runtime.memory.ownership import is_sole
from dtfctl.runtime.memory.sharing import like, may_be_written, owns_memory

# How long a read waits for the end of an update before it looks whether another one has begun meanwhile.
_LOOK_S = 0.001
# Arrays of fewer bytes are not kept to be copied into: the allocator keeps such memory itself.
_SPARE = 1 << 20


class Snapshot(Protocol):
    """A reader that has what rows were before they are changed."""

    @property
    def shadow(self) -> Any:
        """Return the memory for what is kept, for the next snapshot of the same value."""

    @property
    def is_over(self) -> bool:
        """Tell whether nobody reads it any more."""

    def is_of(self, array: Any) -> bool:
        """Tell whether it is a snapshot of this array."""

    def keep(self, rows: Any, length: int) -> None:
        """Keep what rows are, before they are changed; each has `length` bytes."""


S = TypeVar("S", bound=Snapshot)


class HeldValue:
    """Holds a value.

    Attributes:
        lock: held by every update; hold it to make a read and a write one step.
        version: how often the value was changed.
    """

    __slots__ = ("_has_value", "_shadow", "_snapshot", "_spare", "_value", "lock", "name", "version")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.lock = threading.RLock()
        self.version = 0
        # None while it is written in place, with the lock held, and where there is none.
        self._value: Any = None
        self._has_value = False
        # The value before the last copy; nobody's once its readers have let go of it.
        self._spare: Any = None
        # A checkpoint that is being written from the value, and the memory of the last one for pages it kept.
        self._snapshot: weakref.ref[Any] | None = None
        self._shadow: Any = None

    @property
    def is_initialized(self) -> bool:
        return self._has_value

    def read(self) -> Any:
        """Read the current value; it will not change under the reader. Waits while it is written in place.

        Raises:
            FailedPreconditionError: nothing was assigned yet.
        """
        value = self._value
        return value if value is not None else self._settled()

    def _settled(self) -> Any:
        """Wait until nobody writes the value, and return it."""
        while self._has_value:
            # Those who write one after the other need not let a waiting reader have the lock.
            is_held = self.lock.acquire(timeout=_LOOK_S)
            value = self._value
            if is_held:
                self.lock.release()
            if value is not None:
                return value
        raise self._uninitialized()

    def _uninitialized(self) -> FailedPreconditionError:
        return FailedPreconditionError(f"Attempting to use uninitialized value {self.name}")

    def peek(self) -> Any:
        """Look at the current value without waiting; None where there is none. Call with `lock` held."""
        return self._value

    def hold(self, value: Any, is_passing: bool = False) -> None:
        """Hold another value. The array is shared with the caller, who must not write into it.

        Args:
            is_passing: a copy takes its place soon, and goes to where the value before was.
        """
        with self.lock:
            old, self._value = self._value, value
            self._has_value = True
            if not is_passing:
                self._spare = None
            elif owns_memory(old):
                # Nothing of it has to be given back, and fetched again.
                self._spare = old
            self.version += 1
        self._now_holds(value, old)

    def _now_holds(self, value: Any, before: Any) -> None:
        if getattr(value, "nbytes", 0) >= shared_memory.LEAST:
            shared_memory.held_by(self, value, before)

    def room_for(self, value: Any) -> Any:
        """Find memory for a copy of the value; None if there is another value by now."""
        with self.lock:
            if self._value is not value:
                return None
            copy, self._spare = self._another(value), None
            return copy

    def moved(self, old: Any, new: Any) -> None:
        """Hold a copy of the value in its place, unless there is another by now."""
        with self.lock:
            if self._value is old:
                self._value = new
                self._now_holds(new, old)

    def begin_snapshot(self, value: Any, begin: Callable[[Any, Any], S]) -> S | None:
        """Make a snapshot that keeps a value while rows are updated; None where there can be none.

        Args:
            begin: makes it of the value, with the memory of the last one if there was one.
        """
        with self.lock:
            if self._value is not value or not value.flags.c_contiguous or value.dtype.hasobject:
                return None
            last = None if self._snapshot is None else self._snapshot()
            if last is not None and not last.is_over:
                # It has the memory; and two readers of one array are told from others by nothing.
                return None
            snapshot = begin(value, self._shadow)
            self._shadow, self._snapshot = snapshot.shadow, weakref.ref(snapshot)
            return snapshot

    @property
    def is_kept(self) -> bool:
        """Whether a snapshot may be there for which `change` keeps the rows that it is told of."""
        return self._snapshot is not None

    def _pending(self) -> Snapshot | None:
        """Return the snapshot of the value that is being read, if there is one."""
        snapshot: Snapshot | None = None if self._snapshot is None else self._snapshot()
        if snapshot is None or snapshot.is_over:
            self._snapshot = None
            return None
        return snapshot if snapshot.is_of(self._value) else None

    def change(self, write: Callable[[Any], object], rows: Any = None, depth: int = 1) -> None:
        """Have a part of the value written: `write` gets an array that it may write into, and lets go of it; call with
        `lock` held.

        Args:
            rows: where `write` changes nothing but some slices, a vector of where these are in the first `depth`
                dimensions as if those were one; all in range.

        Raises:
            FailedPreconditionError: nothing was assigned yet.
        """
        value = self._value
        if value is None:
            raise self._uninitialized()
        snapshot = None if rows is None or self._snapshot is None else self._pending()
        try:
            self._value = None
            if snapshot is None:
                is_mine = is_sole(value) and may_be_written(value)
            else:
                # If it has ended meanwhile, it may be somebody else's reference that was counted.
                is_mine = is_sole(value, 1) and not snapshot.is_over and may_be_written(value)
            if is_mine:
                if snapshot is not None:
                    snapshot.keep(rows, value.itemsize * math.prod(value.shape[depth:]))
                write(value)
            else:
                # Others go on reading it.
                self._value = value
                fresh = self._copy(value)
                write(fresh)
                self._replace(value, fresh)
                value = fresh
        finally:
            self._put_back(value)
        self.version += 1

    def update(self, write: Callable[[Any, Any], object]) -> None:
        """Have the next value written: `write` gets the current value and the array for the next one, which is the same
        where nobody else holds that; call with `lock` held.

        Raises:
            FailedPreconditionError: nothing was assigned yet.
        """
        value = self._value
        if value is None:
            raise self._uninitialized()
        try:
            self._value = None
            if is_sole(value) and may_be_written(value):
                write(value, value)
            else:
                # Others go on reading it.
                self._value = value
                fresh = self._another(value) if isinstance(value, (np.ndarray, np.generic)) else value.copy()
                write(value, fresh)
                self._replace(value, fresh)
                value = fresh
        finally:
            self._put_back(value)
        self.version += 1

    def _put_back(self, value: Any) -> None:
        if self._has_value:
            self._value = value

    def _copy(self, value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)):
            return value.copy()
        copy = self._another(value)
        np.copyto(copy, value)
        return copy

    def _another(self, value: Any) -> Any:
        """Find or make an array like the value for what takes its place."""
        spare, self._spare = self._spare, None
        if (
            spare is not None
            and is_sole(spare)
            and (spare.shape, spare.strides, spare.dtype) == (value.shape, value.strides, value.dtype)
        ):
            return spare
        return like(value)

    def _replace(self, value: Any, by: Any) -> None:
        self._value = by
        self._now_holds(by, value)
        # What lies in the arena is found there again when it is free.
        self._spare = value if value.nbytes >= _SPARE and owns_memory(value) else None

    def close(self) -> None:
        self._has_value = False
        self._value = self._spare = self._shadow = None


def change_all(variables: Sequence[HeldValue], write: Callable[..., object], rows: Any = None) -> None:
    """Change several variables, as `HeldValue.change` does one; `write` gets their arrays in order. Hold all locks.

    Args:
        variables: one may be there more than once.
        rows: in the first dimension of each.
    """
    distinct = list(dict.fromkeys(variables))
    if len(distinct) < len(variables):
        places = [distinct.index(v) for v in variables]
        change_all(distinct, lambda *arrays: write(*(arrays[i] for i in places)), rows)
        return
    first, *rest = distinct
    if rest:
        first.change(lambda array: change_all(rest, lambda *others: write(array, *others), rows), rows)
    else:
        first.change(write, rows)
