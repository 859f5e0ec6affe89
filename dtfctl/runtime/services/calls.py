"""Methods that are called over gRPC, the calls, and what serves them: what its two servers have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias

import grpc

from dtfctl.errors import Signal
from dtfctl.net.gate import Gate

# What gRPC's name for the other end of a connection through a gate begins with; the gate's own follows.
THROUGH_GATE = "unix-abstract:"
NO_REQUEST = grpc.StatusCode.UNIMPLEMENTED, "The method needs exactly one request"
GIVEN_UP = "The other end has given up the stream, or is gone"
# Without a deadline gRPC says that a time beyond any counting is left.
FOR_EVER_S = 1e8


def no_method(path: str) -> str:
    return f"There is no method {path}"


def when_left(gates: Iterable[Gate], peer: str, callback: Callable[[], object]) -> bool:
    """Call back when a connection through one of the gates has ended; False where it has."""
    name = peer.removeprefix(THROUGH_GATE)
    return any(gate.when_ended(name, callback) for gate in gates)


class Call(Protocol):
    """One call, for its handler. Methods may be called from any thread."""

    @property
    def method(self) -> str:
        """The path of the method that is called."""

    @property
    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """What the client says besides the request: names and values."""

    @property
    def is_gone(self) -> bool:
        """Whether it was over before it was answered: cancelled, its deadline passed, or the client is gone."""

    def on_gone(self, callback: Callable[[], object]) -> bool:
        """Call back when it is over before it is answered; False where it is already. The callback must not block."""

    def on_left(self, callback: Callable[[], object]) -> bool:
        """Call back when the connection it came over has ended; False where it has. The callback must not block."""

    def refuse(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End it with that status, by an exception."""

    def time_left(self) -> float | None:
        """Count the seconds until the call's deadline; None without one."""

    def peer(self) -> str:
        """Give gRPC's name for the other end, such as `ipv4:127.0.0.1:4711`."""

    def auth_context(self) -> dict[str, list[bytes]]:
        """Get what is known of the other end for certain, such as `x509_common_name` of its certificate."""


class Refused(Signal):
    """What a handler raises to end its call with another status than OK."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


@dataclass(frozen=True)
class Unary:
    """A method with one request and one answer.

    Attributes:
        function: the answer to a request; may block, and may raise Refused.
    """

    function: Callable[[bytes, Call], bytes]


@dataclass(frozen=True)
class Stream:
    """A method with any number of messages both ways.

    Attributes:
        function: an iterator of what to send; may block, and may raise Refused. Waiting for the next message, it can be
            told that the call is over by `Call.on_gone` only.
    """

    function: Callable[[Iterator[bytes], Call], Iterator[bytes]]


Handler: TypeAlias = Unary | Stream


class Unanswered:
    """Counts requests that were not answered yet; methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self, count: int) -> None:
        """Note that so many have come, or been answered where it is less than none."""
        with self._changed:
            self._count += count
            if not self._count:
                self._changed.notify_all()

    def wait(self, most_s: float) -> bool:
        """Wait until there are none; False where there still are after that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, most_s)


class CallServer(Protocol):
    """Serves calls. Methods may be called from any thread."""

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> bool:
        """Listen at "unix:path" once started, over TLS if there are credentials; False where that is not possible."""

    def add_gate(self, gate: Gate) -> None:
        """Add a gate: it leads to one of the ports, opens when this starts and closes when it ends."""

    def start(self) -> None:
        """Serve; returns at once."""

    def answered(self, most_s: float) -> bool:
        """Wait until what has come is answered, but for streams; False where something is not after that time."""

    def stop(self, grace_s: float) -> threading.Event:
        """Take no more calls, and cancel those that have not ended in that time. The event is set when all is over."""
