"""Work that a step does not wait for, in a thread that ends with the process."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dtfctl import guard

T = TypeVar("T")

# How often who waits is asked whether it still wants to.
_LOOK_S = 0.05
_ONE = threading.Lock()
_ending = threading.Event()
_all: weakref.WeakSet[Any] = weakref.WeakSet()


class InBackground(Generic[T]):
    """A function called by a thread of its own, one such thread at a time in a process.

    What it raises is logged, and its result is None then.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._function: Callable[[], T] | None = function
        self._result: T | None = None
        self._thread = guard.once(self._run, name="compile")
        _all.add(self)
        self._thread.start()

    def _run(self) -> None:
        with _ONE:
            function, self._function = self._function, None
            if function is not None and not _ending.is_set():
                self._result = function()

    def result(self, check: Callable[[], None]) -> T | None:
        """Return what the function has returned, once it has; None where it failed.

        Args:
            check: called now and then meanwhile; what it raises ends the wait.
        """
        self._thread.join(_LOOK_S)
        while self._thread.is_alive():
            check()
            self._thread.join(_LOOK_S)
        return self._result


@atexit.register
def _end() -> None:
    """Wait for what is being compiled: a library must not be unloaded under a thread that runs it."""
    _ending.set()
    for work in list(_all):
        work._thread.join()
