"""Calls into the one thread that owns a daemon's state."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import TypeVar

from dtfctl.launcher.errors import Conflict

T = TypeVar("T")


class Mailbox:
    """Functions for the owner's thread to run, in order; after `close` every call fails at once."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[bool], None], bool]] = queue.SimpleQueue()
        self._lock = Lock()
        self._closed = False
        self._wake = wake

    def post(self, function: Callable[[], None]) -> None:
        """Run it some time, unless the owner ends before."""

        def run(alive: bool) -> None:
            if alive:
                function()

        self._put(run)

    def call(self, function: Callable[[], T], timeout_s: float, *, changes: bool = True) -> T:
        """Run it and wait for its result. `changes`: whether it may change anything; see `run_one`.

        Raises:
            Conflict: the owner has ended or ends before it comes to this call.
            TimeoutError: it took longer.
        """
        future: Future[T] = Future()

        def run(alive: bool) -> None:
            if not alive:
                future.set_exception(Conflict("this process is ending"))
                return
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        if not self._put(run, changes):
            raise Conflict("this process is ending")
        return future.result(timeout_s)

    def _put(self, run: Callable[[bool], None], changes: bool = True) -> bool:
        with self._lock:
            if self._closed:
                return False
            self._queue.put((run, changes))
        self._wake()
        return True

    def run_one(self, timeout_s: float) -> bool:
        """Run the next one, if one comes in time; whether it may have changed anything. Owner only."""
        try:
            run, changes = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return False
        run(True)
        return changes

    def run_all(self) -> bool:
        """Run all that are there now; whether any may have changed anything. Owner only."""
        changed = False
        while True:
            try:
                run, changes = self._queue.get_nowait()
            except queue.Empty:
                return changed
            run(True)
            changed = changed or changes

    def close(self) -> None:
        """The owner ends: fail all that wait, and all later ones."""
        with self._lock:
            self._closed = True
        while True:
            try:
                run, _ = self._queue.get_nowait()
            except queue.Empty:
                return
            run(False)
