"""Cancellation of a step: one token per step, observed by everything that may wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dtfctl import guard
from dtfctl.runtime.framework.errors import CancelledError, OpError


class CancellationToken:
    """Set once, with the error that explains why; callbacks run at that moment, in the cancelling thread."""

    def __init__(self, callback: Callable[[], None] | None = None) -> None:
        """Start uncancelled; `callback` is called on cancellation, as one given to `on_cancel`."""
        self._lock = threading.Lock()
        self._reason: OpError | None = None
        self._callbacks: dict[int, Callable[[], None]] = {} if callback is None else {-1: callback}
        self._next = 0

    @property
    def reason(self) -> OpError | None:
        """Why the step was cancelled, or None while it was not."""
        return self._reason

    def cancel(self, reason: OpError | None = None) -> bool:
        """Cancel, unless that happened already. Returns whether this call was the one that did it."""
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason or CancelledError("Step was cancelled")
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()
        return True

    def check(self) -> None:
        """Raise the reason when cancelled."""
        if self._reason is not None:
            raise CancelledError(self._reason.message, self._reason.node, derived=True)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on cancellation, at once if it was already; returns a function that withdraws it.

        The callback must not block: wake the waiter, let the waiter clean up.
        """
        with self._lock:
            if self._reason is None:
                key = self._next
                self._next += 1
                self._callbacks[key] = callback
                return lambda: self._withdraw(key)
        callback()
        return lambda: None

    def _withdraw(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], until: float | None = None) -> bool:
        """Wait on `condition` (held by the caller) until `ready()`, or `until` of time.monotonic(); tells which.

        Raises:
            CancelledError: the step was cancelled first.
        """

        def wake() -> None:
            # The callback may run in a thread that must not block on a busy resource.
            guard.once(notify, name="dtf-wake").start()

        def notify() -> None:
            with condition:
                condition.notify_all()

        if ready():
            return True
        withdraw = self.on_cancel(wake)
        try:
            while not ready():
                self.check()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                condition.wait(left)
            return True
        finally:
            withdraw()
