"""A step's rendezvous in a cluster: sends to another task are pushed to it, all else meets in this task's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.compression.payoff import Ledger
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.memory.shared_memory import LEAST
from dtfctl.runtime.rendezvous.frames import Kind, Message
from dtfctl.runtime.rendezvous.local import Done, LocalRendezvous
from dtfctl.runtime.rendezvous.transports.base import Transport

# Routes remembered: keys are the same in every step, except those of loops.
_MOST_ROUTES = 1 << 16


class Routes:
    """Where keys lead, as seen from one task; shared by its steps."""

    def __init__(self, task: str) -> None:
        self._prefix = task + "/"
        self.known: dict[str, str] = {}

    def task_of(self, key: str) -> str:
        """Return the other task a key's tensor goes to, "" when it stays here."""
        found = self.known.get(key)
        if found is None:
            found = ""
            if not key.startswith("client;"):
                device = key.split(";", 3)[2]
                if not device.startswith(self._prefix):
                    found = task_of_device(device)
            if len(self.known) < _MOST_ROUTES:
                self.known[key] = found
        return found


class RoutingRendezvous:
    """A kernels.context.Rendezvous for one step of one task.

    Attributes:
        holds_back: sends wait for a receive that must be waited for, or the end, to travel together; for steps that
            compute so little that nobody waits for them meanwhile. A long tensor does not wait: who gets it has much
            to do with it, and can while this step makes the next one.
    """

    __slots__ = ("_held", "_routes", "_step", "_table", "_transport", "holds_back")

    def __init__(self, table: LocalRendezvous, step: int, routes: Routes, transport: Transport) -> None:
        self._table = table
        self._step = step
        self._routes = routes
        self._transport = transport
        self._held: dict[str, list[Message]] = {}
        self.holds_back = False

    def send(self, key: str, value: Any, dead: bool) -> None:
        """Leave a value here, or have it on its way to the task in the key; never waits.

        Raises:
            OpError: the value cannot leave this task, or the other one is known to be down.
        """
        task = self._routes.known.get(key)
        if task is None:
            task = self._routes.task_of(key)
        if not task:
            self._table.send(key, value, dead)
            return
        message = Message(Kind.TENSOR, self._step, key, value, dead)
        if not self.holds_back:
            self._transport.send(task, (message,))
        elif getattr(value, "nbytes", 0) >= LEAST:
            self._transport.send(task, (*self._held.pop(task, ()), message))
        elif task in self._held:
            self._held[task].append(message)
        else:
            self._held[task] = [message]

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        """Wait for a value.

        Raises:
            OpError: the step was aborted, or what was held back cannot be sent.
        """
        found = self._table.take(key)
        if found is not None:
            return found
        if self._held:
            self.flush()
        return self._table.recv(key, cancellation)

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        """Wait until `recv` of one of these keys need not wait; which of them.

        Raises:
            OpError: what was held back cannot be sent.
        """
        found = self._table.found(keys)
        if found is not None:
            return found
        if self._held:
            self.flush()
        return self._table.first(keys, cancellation)

    def recv_async(self, key: str, done: Done) -> None:
        """See LocalRendezvous."""
        if self._held:
            self.flush()
        self._table.recv_async(key, done)

    def wait(self, came: Callable[[], str]) -> None:
        """See LocalRendezvous."""
        self._table.wait(came)

    def ledger(self, task: str) -> Ledger | None:
        """Find what is known of codecs on the way to a task."""
        return self._transport.ledger(task)

    def flush(self, task: str = "", last: Message | None = None) -> bool:
        """Send what was held back, and `last` with what goes to `task`. Returns False when nothing went to `task`.

        Raises:
            OpError: see `send`.
        """
        held, self._held = self._held, {}
        found = False
        for to, messages in held.items():
            if last is not None and to == task:
                messages.append(last)
                found = True
            self._transport.send(to, messages)
        return found


def task_of_device(device: str) -> str:
    """Return the task part of a full device name.

    >>> task_of_device("/job:ps/replica:0/task:0/device:CPU:0")
    '/job:ps/replica:0/task:0'

    Raises:
        InvalidArgumentError: it is not one.
    """
    task, slash, _ = device.rpartition("/")
    if not slash:
        raise InvalidArgumentError(f"'{device}' is not the full name of a device")
    return task
