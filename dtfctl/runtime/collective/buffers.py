"""What members of groups leave for those of TensorFlow's servers, which fetch it by step and key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from dtfctl.runtime.collective.algorithms import Array
from dtfctl.runtime.framework.errors import AbortedError, OpError, ResourceExhaustedError, error_from_code

Fetched = Callable[[Array | None, OpError | None], None]
_REMEMBERED = 4096
MAX_WAITING = 1 << 16
"""Arrays that are fetched before they are there."""


class _Left(NamedTuple):
    value: Array
    taken: Callable[[], None]


class Buffers:
    """Arrays by step and key. All methods may be called from any thread; callbacks must not block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[tuple[int, str], _Left] = {}
        self._waiting: dict[tuple[int, str], Fetched] = {}
        # Steps in which a computation has failed: nobody is to wait for more of them.
        self._failed: OrderedDict[int, OpError] = OrderedDict()

    def leave(self, step: int, key: str, value: Array, taken: Callable[[], None]) -> None:
        """Leave an array until it is fetched, of which `taken` tells."""
        with self._lock:
            waiting = self._waiting.pop((step, key), None)
            if waiting is None:
                if step not in self._failed:
                    self._left[step, key] = _Left(value, taken)
                return
        waiting(value, None)
        taken()

    def fetch(self, step: int, key: str, done: Fetched) -> Callable[[], None]:
        """Have `done` called with an array once it is there, or with why it will not be; returns what ends that."""
        with self._lock:
            error = self._failed.get(step)
            left = self._left.pop((step, key), None)
            before = self._waiting.get((step, key)) if left is None and error is None else None
            if left is None and error is None and before is None and len(self._waiting) >= MAX_WAITING:
                error = ResourceExhaustedError(f"{len(self._waiting)} arrays are waited for here; {key} may not be")
            waits = left is None and error is None
            if waits:
                self._waiting[step, key] = done
        if before is not None:
            before(None, AbortedError(f"{key} of step {step} is fetched again"))
        if waits:
            return lambda: self._give_up(step, key, done)
        if left is None:
            done(None, error)
            return lambda: None
        done(left.value, None)
        left.taken()
        return lambda: None

    def _give_up(self, step: int, key: str, done: Fetched) -> None:
        with self._lock:
            if self._waiting.get((step, key)) is done:
                del self._waiting[step, key]

    def fail(self, step: int, error: OpError) -> None:
        """Tell all who fetch something of a step that they will not get it."""
        with self._lock:
            self._failed[step] = error
            if len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)
            waiting = [self._waiting.pop(at) for at in list(self._waiting) if at[0] == step]
            for at in [at for at in self._left if at[0] == step]:
                del self._left[at]
        for done in waiting:
            done(None, error_from_code(error.error_code, error.message, derived=error.derived))
