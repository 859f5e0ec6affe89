"""A variable's storage, behind ref variables (VariableV2) and resource variables (VarHandleOp) alike.

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

import functools
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.checkpoint.mapped import copy_soon, is_mapped
from dtfctl.runtime.checkpoint.preserved import ArraySnapshot, Shadow
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.memory import shared_memory
from dtfctl.runtime.memory.ownership import is_sole
from dtfctl.runtime.memory.sharing import like, may_be_written, owns_memory

# How long a read waits for the end of an update before it looks whether another one has begun meanwhile.
_LOOK_S = 0.001
# Arrays of fewer bytes are not kept to be copied into: the allocator keeps such memory itself.
_SPARE = 1 << 20


class Variable(Resource):
    """A mutable tensor.

    Attributes:
        dtype: base element type.
        shape: declared static shape; a value may be of any shape compatible with it where validation is off.
        lock: held by every update; hold it to make a read and a write one step.
    """

    type_name = "Variable"
    __slots__ = ("_has_value", "_shadow", "_snapshot", "_spare", "_value", "dtype", "lock", "name", "shape", "version")

    def __init__(self, dtype: DType, shape: TensorShape, name: str = "") -> None:
        self.dtype = dtype.base_dtype
        self.shape = shape
        self.name = name
        self.lock = threading.RLock()
        self.version = 0
        # None while it is written in place, with the lock held, and where there is none.
        self._value: Any = None
        self._has_value = False
        # The value before the last copy; nobody's once its readers have let go of it.
        self._spare: Any = None
        # A checkpoint that is being written from the value, and the memory of the last one for pages it kept.
        self._snapshot: weakref.ref[ArraySnapshot] | None = None
        self._shadow: Shadow | None = None

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

    def assign(self, value: Any) -> None:
        """Set the value. The array is shared with the caller, who must not write into it."""
        mapped = getattr(value, "base", None) is not None and is_mapped(value)
        with self.lock:
            old, self._value = self._value, value
            self._has_value = True
            if not mapped:
                self._spare = None
            elif owns_memory(old):
                # A restored value is copied there. Nothing of it has to be given back, and fetched again.
                self._spare = old
            self.version += 1
        self._now_holds(value, old)
        if mapped:
            copy_soon(value, self._for_copy, functools.partial(self._settle, value))

    def _now_holds(self, value: Any, before: Any) -> None:
        if getattr(value, "nbytes", 0) >= shared_memory.LEAST:
            shared_memory.held_by(self, value, before)

    def _for_copy(self, mapped: Any) -> Any:
        """Memory for a copy of a value that is part of a file; None if there is another value by now."""
        with self.lock:
            if self._value is not mapped:
                return None
            copy, self._spare = self._another(mapped), None
            return copy

    def _settle(self, mapped: Any, copy: Any) -> None:
        """Hold a value that is part of a file as a copy from now on, unless there is another by now."""
        with self.lock:
            if self._value is mapped:
                self._value = copy
                self._now_holds(copy, mapped)

    def moved(self, old: Any, new: Any) -> None:
        """Hold a copy of the value in memory that other tasks see, unless there is another value by now."""
        with self.lock:
            if self._value is old:
                self._value = new
                self._now_holds(new, old)

    def snapshot(self, value: Any) -> Any:
        """Make a snapshot that keeps a value while rows are updated; the value itself where there can be none."""
        with self.lock:
            if self._value is not value or not value.flags.c_contiguous or value.dtype.hasobject:
                return value
            last = None if self._snapshot is None else self._snapshot()
            if last is not None and not last.is_over:
                # It has the memory; and two readers of one array are told from others by nothing.
                return value
            snapshot = ArraySnapshot(value, self._shadow)
            self._shadow, self._snapshot = snapshot.shadow, weakref.ref(snapshot)
            return snapshot

    @property
    def is_kept(self) -> bool:
        """Whether a snapshot may be there for which `change` keeps the rows that it is told of."""
        return self._snapshot is not None

    def _pending(self) -> ArraySnapshot | None:
        """Return the snapshot of the value that is being read, if there is one."""
        snapshot = None if self._snapshot is None else self._snapshot()
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

    def describe(self) -> str:
        return f"<Variable {self.name} {self.dtype.name} {self.shape}>"


def change_all(variables: Sequence[Variable], write: Callable[..., object], rows: Any = None) -> None:
    """Change several variables, as `Variable.change` does one; `write` gets their arrays in order. Hold all locks.

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
