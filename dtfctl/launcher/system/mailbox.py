"""Calls into the one thread that owns a daemon's state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Event
from typing import Generic, TypeVar

from dtfctl import guard
from dtfctl.launcher.errors import Conflict

T = TypeVar("T")


class _Outcome(Generic[T]):
    """What a call comes to. (`concurrent.futures` has this too, and takes 3 ms of an agent's start to import.)"""

    def __init__(self) -> None:
        self._known = Event()
        self._values: list[T] = []
        self._error: BaseException | None = None

    def returned(self, value: T) -> None:
        self._values.append(value)
        self._known.set()

    def raised(self, error: BaseException) -> None:
        self._error = error
        self._known.set()

    def wait(self, timeout_s: float) -> T:
        if not self._known.wait(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._values[0]


class Mailbox:
    """Functions for the owner's thread to run, in order; after `close` every call fails at once."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._waiting: deque[tuple[Callable[[bool], None], bool]] = deque()
        self._changed = Condition()
        self._closed = False
        self._wake = wake

    def post(self, function: Callable[[], None]) -> None:
        """Run it some time, unless the owner ends before."""

        def run(alive: bool) -> None:
            if alive:
                guard.call(function, "what was posted to the loop")

        self._put(run)

    def call(self, function: Callable[[], T], timeout_s: float, *, changes: bool = True) -> T:
        """Run it and wait for its result. `changes`: whether it may change anything; see `run_one`.

        Raises:
            Conflict: the owner has ended or ends before it comes to this call.
            TimeoutError: it took longer.
        """
        outcome: _Outcome[T] = _Outcome()

        def run(alive: bool) -> None:
            if not alive:
                outcome.raised(Conflict("this process is ending"))
                return
            try:
                outcome.returned(function())
            except BaseException as error:
                outcome.raised(error)

        if not self._put(run, changes):
            raise Conflict("this process is ending")
        return outcome.wait(timeout_s)

    def _put(self, run: Callable[[bool], None], changes: bool = True) -> bool:
        with self._changed:
            if self._closed:
                return False
            self._waiting.append((run, changes))
            self._changed.notify()
        self._wake()
        return True

    def run_one(self, timeout_s: float) -> bool:
        """Run the next one, if one comes in time; whether it may have changed anything. Owner only."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, timeout_s):
                return False
            run, changes = self._waiting.popleft()
        run(True)
        return changes

    def run_all(self) -> bool:
        """Run all that are there now; whether any may have changed anything. Owner only."""
        changed = False
        while self._waiting:
            run, changes = self._waiting.popleft()
            run(True)
            changed = changed or changes
        return changed

    def close(self) -> None:
        """Fail all that wait, and all later ones: the owner ends."""
        with self._changed:
            self._closed = True
        while self._waiting:
            run, _ = self._waiting.popleft()
            run(False)
