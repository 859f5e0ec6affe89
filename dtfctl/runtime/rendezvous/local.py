"""The table in which one step's tensors meet inside one task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import AbortedError, OpError, error_from_code
from dtfctl.runtime.rendezvous.frames import Message
from dtfctl.runtime.rendezvous.reactor import REACTOR, Slot

Done = Callable[[Any, bool, OpError | None], None]


class _Receive(Slot):
    """A receive that a thread waits for."""

    __slots__ = ("dead", "error", "value")

    def __init__(self) -> None:
        super().__init__()
        self.value: Any = None
        self.dead = False
        self.error: OpError | None = None

    def __call__(self, value: Any, dead: bool, error: OpError | None) -> None:
        self.value, self.dead, self.error = value, dead, error
        self.set()


class LocalRendezvous:
    """Values of one step by key, each key first in first out. A kernels.context.Rendezvous.

    Whoever owns the step aborts the table when the step is cancelled; waiting receives then fail with a derived error.

    Attributes:
        leads: threads that wait here may serve the links meanwhile; see `Reactor.wait`.
        waited_s, waits: for how long some thread has waited for a value, and how often one has.
        holds_back: see RoutingRendezvous; nothing leaves this table.
    """

    __slots__ = (
        "_error",
        "_lock",
        "_values",
        "_waiters",
        "_waiting",
        "_waits_since",
        "_watching",
        "holds_back",
        "leads",
        "waited_s",
        "waits",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, list[tuple[Any, bool]]] = {}
        self._waiting: dict[str, list[Done]] = {}
        # Who waits for a value of one of several keys.
        self._watching: list[tuple[Sequence[str], Slot]] = []
        self._error: OpError | None = None
        self.leads = True
        self.holds_back = False
        self.waited_s = 0.0
        self.waits = 0
        self._waiters = 0
        self._waits_since = 0.0

    def send(self, key: str, value: Any, dead: bool) -> None:
        """Leave a value, or hand it to the receive that waits for it; dropped once aborted."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting:
                done = waiting.pop(0)
                if not waiting:
                    del self._waiting[key]
            else:
                done = None
                if self._error is None:
                    held = self._values.get(key)
                    if held is None:
                        self._values[key] = [(value, dead)]
                    else:
                        held.append((value, dead))
            watching = self._found(key) if done is None and self._watching else ()
        if done is not None:
            done(value, dead, None)
        for arrival in watching:
            arrival.set()

    def _found(self, key: str) -> list[Slot]:
        """Return those who wait for a value of this key or another, no longer to be told; call with the lock held."""
        found = [arrival for keys, arrival in self._watching if key in keys]
        self._watching = [watch for watch in self._watching if watch[1] not in found]
        return found

    def take(self, key: str) -> tuple[Any, bool] | None:
        """Return the oldest value of a key, or None when there is none now."""
        with self._lock:
            held = self._values.get(key)
            if not held:
                return None
            if len(held) == 1:
                del self._values[key]
                return held[0]
            return held.pop(0)

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        """Wait for a value.

        Raises:
            OpError: the step was aborted; derived, with the reason's code and text.
        """
        found = self.take(key)
        if found is not None:
            return found
        receive = _Receive()
        self.recv_async(key, receive)
        if not receive.is_set:
            self._wait(receive)
        if receive.error is not None:
            raise receive.error
        return receive.value, receive.dead

    def found(self, keys: Sequence[str]) -> int | None:
        """Return for which of these keys there is a value; None if there is none."""
        values = self._values
        return next((n for n, key in enumerate(keys) if key in values), None)

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        """Wait until `recv` of one of these keys need not wait; which of them."""
        while True:
            with self._lock:
                found = self.found(keys)
                if found is not None:
                    return found
                if self._error is not None:
                    return 0
                arrival = Slot()
                self._watching.append((keys, arrival))
            self._wait(arrival)

    def wait(self, came: Callable[[], str]) -> None:
        """Have a thread wait that has nothing to do until a value comes; `came` waits, and tells for which key."""
        self._waits()
        try:
            came()
        finally:
            self._has_waited()

    def _wait(self, slot: Slot) -> None:
        self._waits()
        REACTOR.wait(slot, self.leads)
        self._has_waited()

    def _waits(self) -> None:
        # Threads that wait at the same time wait once: it is the step's time that passes.
        with self._lock:
            if not self._waiters:
                self._waits_since = time.perf_counter()
            self._waiters += 1

    def _has_waited(self) -> None:
        with self._lock:
            self._waiters -= 1
            if not self._waiters:
                self.waited_s += time.perf_counter() - self._waits_since
            self.waits += 1

    def recv_async(self, key: str, done: Done) -> None:
        """Call `done` with the value once it is there, or with the error once the step is aborted."""
        with self._lock:
            held = self._values.get(key)
            if held:
                value, dead = held.pop(0)
                if not held:
                    del self._values[key]
                error = None
            elif self._error is not None:
                value, dead, error = None, False, derived(self._error)
            else:
                self._waiting.setdefault(key, []).append(done)
                return
        done(value, dead, error)

    def flush(self, task: str = "", last: Message | None = None) -> bool:
        """See RoutingRendezvous; nothing was held back."""
        return False

    def ledger(self, task: str) -> None:
        """See RoutingRendezvous; nothing crosses a network."""
        return

    def abort(self, reason: OpError | None) -> None:
        """Fail all waiting receives, and later ones, and drop what nobody fetched."""
        with self._lock:
            if self._error is not None:
                return
            self._error = reason or AbortedError("Step was aborted")
            waiting, self._waiting = self._waiting, {}
            watching, self._watching = self._watching, []
            self._values.clear()
        for _, arrival in watching:
            arrival.set()
        for callbacks in waiting.values():
            for done in callbacks:
                done(None, False, derived(self._error))

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._values.values()))


def derived(error: OpError) -> OpError:
    """Return a copy of `error` for those who only suffer from it."""
    return error_from_code(error.error_code, error.text, derived=True)
