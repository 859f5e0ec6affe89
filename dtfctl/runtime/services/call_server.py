"""A CallServer on gRPC's core, with as few changes of threads as a call can have.

One thread takes what happens from gRPC's completion queue; as dtfctl.runtime has it set up, it is also the one
that reads sockets. It never runs a handler: once a request is complete, a thread of the pool does, and sends the answer
itself. The server that comes with gRPC for Python starts a handler when it only knows that there will be a request,
and then wakes it twice. The interface of the core is not documented: call_servers.py decides whether this is used.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import grpc
from grpc._cython import cygrpc

from dtfctl import guard
from dtfctl.net.gate import Gate
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.services.calls import (
    FOR_EVER_S,
    GIVEN_UP,
    NO_REQUEST,
    THROUGH_GATE,
    Call,
    Handler,
    Refused,
    Stream,
    Unanswered,
    Unary,
    no_method,
    when_left,
)
from dtfctl.runtime.steps.deadlines import DEADLINES

log = logging.getLogger(__name__)

_Tag: TypeAlias = tuple["CoreCall", Callable[[Any], None]]
_NEW_CALL, _SHUTDOWN = "new call", "shutdown"
_NO_FLAGS = 0
# Versions of grpcio, from and to, whose core has been seen to serve in this way.
TRIED = (1, 68), (1, 85)
_USED: dict[str, tuple[str, ...]] = {
    "CompletionQueue": ("poll",),
    "Server": (
        "add_http2_port",
        "cancel_all_calls",
        "destroy",
        "register_completion_queue",
        "request_call",
        "shutdown",
        "start",
    ),
    "CallError": ("ok",),
    "ReceiveCloseOnServerOperation": ("cancelled",),
    "ReceiveMessageOperation": ("message",),
    "SendInitialMetadataOperation": (),
    "SendMessageOperation": (),
    "SendStatusFromServerOperation": (),
    "auth_context": (),
}


def missing() -> list[str]:
    """List what this module uses of gRPC's core, and does not find there."""
    found = []
    for name, parts in _USED.items():
        thing = getattr(cygrpc, name, None)
        if thing is None:
            found.append(name)
        else:
            found += [f"{name}.{part}" for part in parts if not hasattr(thing, part)]
    return found


class CoreCallServer:
    """Methods may be called from any thread.

    Args:
        find: the handler of a method by its path, "/package.Service/Method"; None where there is none.
        options: channel arguments of gRPC's core.
        most_calls: calls that may run or wait at once; more are refused.
    """

    def __init__(
        self,
        find: Callable[[str], Handler | None],
        options: Sequence[tuple[str, int]] = (),
        most_calls: int = 1 << 30,
    ) -> None:
        self._find = find
        self._most_calls = most_calls
        self._queue = cygrpc.CompletionQueue()
        self._core = cygrpc.Server(tuple(options), False)
        self._core.register_completion_queue(self._queue)
        self._lock = threading.Lock()
        # Calls that gRPC's core will still say something about, and how many handlers run: also of calls that are over.
        self._calls: set[CoreCall] = set()
        self._running = 0
        self._unanswered = Unanswered()
        self._is_started = False
        self._is_stopping = False
        # What is asked of the core besides: a next call, and to be told when it is shut down.
        self._asked = 0
        self._ended = threading.Event()
        self._gates: list[Gate] = []

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> bool:
        """Listen at "unix:path" once started, over TLS if there are credentials; False where that is not possible."""
        more = () if credentials is None else (credentials._credentials,)
        return bool(self._core.add_http2_port(address.encode(), *more))

    def add_gate(self, gate: Gate) -> None:
        """Add a gate: it leads to one of the ports, opens when this starts and closes when it ends."""
        self._gates.append(gate)

    def start(self) -> None:
        """Serve; returns at once."""
        with self._lock:
            self._core.start()
            self._is_started = True
            self._ask_for_call()
        guard.forever(self._serve, name="dtf-calls").start()
        for gate in self._gates:
            gate.start()

    def answered(self, most_s: float) -> bool:
        return self._unanswered.wait(most_s)

    def stop(self, grace_s: float) -> threading.Event:
        """Take no more calls, and cancel those that have not ended in that time. The event is set when all is over."""
        with self._lock:
            if not self._is_started:
                self._ended.set()
            elif not self._is_stopping:
                self._is_stopping = True
                self._asked += 1
                self._core.shutdown(self._queue, _SHUTDOWN)
        for gate in self._gates:
            gate.shut()
        if self._ended.is_set():
            self._close_gates()
        else:
            if grace_s > 0:
                DEADLINES.after(grace_s, self._cancel_all)
            else:
                self._cancel_all()
        return self._ended

    def _close_gates(self) -> None:
        for gate in self._gates:
            gate.close()

    def _cancel_all(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._core.cancel_all_calls()

    # What happens -----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._handle(self._queue.poll()):
            pass

    def _handle(self, event: Any) -> bool:
        """Handle an event; tell whether the server has ended with it."""
        tag = event.tag
        if tag is _NEW_CALL:
            self._begin(event)
        elif tag is _SHUTDOWN:
            with self._lock:
                self._asked -= 1
        else:
            call, react = tag
            try:
                react(event)
            except Exception:
                log.exception("a call of %s could not be served", call.method)
            call.came_back()
        return self._is_stopping and self._end()

    def _begin(self, event: Any) -> None:
        with self._lock:
            self._asked -= 1
            if not self._is_stopping:
                self._ask_for_call()
            if not event.success:
                return
            is_one_too_many = len(self._calls) >= self._most_calls
            call = CoreCall(self, event)
            self._calls.add(call)
        call.watch()
        for gate in self._gates:
            gate.known(call.peer().removeprefix(THROUGH_GATE))
        handler = self._find(call.method)
        if is_one_too_many:
            call.end(*_TOO_MANY)
        elif handler is None:
            call.end(grpc.StatusCode.UNIMPLEMENTED, no_method(call.method))
        else:
            if isinstance(handler, Unary):
                call.counted(self._unanswered)
            _begin(call, handler)

    def _ask_for_call(self) -> None:
        self._core.request_call(self._queue, self._queue, _NEW_CALL)
        self._asked += 1

    def _end(self) -> bool:
        with self._lock:
            if self._asked or self._calls:
                return False
            self._core.destroy()
            self._close_gates()
            self._ended.set()
            return True

    # For calls --------------------------------------------------------------------------------------------------------

    def when_left(self, peer: str, callback: Callable[[], object]) -> bool:
        """Call back when a connection has ended; False where it has."""
        return when_left(self._gates, peer, callback)

    def forget(self, call: CoreCall) -> None:
        """Forget a call that the core has nothing more to say about."""
        with self._lock:
            self._calls.discard(call)

    def run(self, handle: Callable[[], None]) -> bool:
        """Have a handler run, in a thread of its own; False where that is one too many."""
        with self._lock:
            if self._running >= self._most_calls:
                return False
            self._running += 1

        def work() -> None:
            try:
                handle()
            finally:
                with self._lock:
                    self._running -= 1

        try:
            WORKERS.submit(work)
        except RuntimeError as e:
            log.warning("no thread for a call: %s", e)
            with self._lock:
                self._running -= 1
            return False
        return True


class CoreCall:
    """One call; a `Call` for its handler. Methods may be called from any thread."""

    def __init__(self, server: CoreCallServer, event: Any) -> None:
        self.method: str = event.call_details.method.decode(errors="replace")
        self.metadata: tuple[tuple[str, str | bytes], ...] = event.invocation_metadata
        self._deadline: float = event.call_details.deadline
        self._server = server
        self._core = event.call
        self._lock = threading.Lock()
        # Batches of operations that have not come back. Once it is over, no further one may begin.
        self._begun = 0
        self._is_over = False
        self._is_gone = False
        self._is_headed = False
        self._is_ended = False
        self._on_gone: list[Callable[[], object]] = []
        self._counted_by: Unanswered | None = None

    def counted(self, by: Unanswered) -> None:
        """Be counted until it is over."""
        self._counted_by = by
        by.add(1)

    # What handlers ask ------------------------------------------------------------------------------------------------

    @property
    def is_gone(self) -> bool:
        """Whether it was over before it was answered: cancelled, its deadline passed, or the client is gone."""
        return self._is_gone

    def on_gone(self, callback: Callable[[], object]) -> bool:
        """Call back when it is over before it is answered; False where it is already. The callback must not block."""
        with self._lock:
            if not self._is_gone:
                self._on_gone.append(callback)
            return not self._is_gone

    def on_left(self, callback: Callable[[], object]) -> bool:
        """Call back when the connection it came over has ended; False where it has. The callback must not block."""
        return self._server.when_left(self.peer(), callback)

    def refuse(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End it with that status, by an exception."""
        raise Refused(code, details)

    def time_left(self) -> float | None:
        """Count the seconds until the call's deadline; None without one."""
        left = self._deadline - time.time()
        return max(left, 0.0) if left < FOR_EVER_S else None

    def peer(self) -> str:
        """Give gRPC's name for the other end; for one that came through a gate, the gate's, after `unix-abstract:`."""
        return str(self._core.peer().decode())

    def auth_context(self) -> dict[str, list[bytes]]:
        """Get what is known of the other end for certain, such as `x509_common_name` of its certificate."""
        found = cygrpc.auth_context(self._core) or {}
        return {key.decode(): list(values) for key, values in found.items()}

    # How it goes on ---------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Be told when it is over."""
        self._begin((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)

    def run(self, handle: Callable[[], None]) -> None:
        """Have the handler run; what it raises ends the call."""

        def work() -> None:
            try:
                handle()
            except Refused as e:
                self.end(e.code, e.details)
            except BaseException as e:
                log.exception("%s failed", self.method)
                self.end(grpc.StatusCode.UNKNOWN, f"{type(e).__name__}: {e}")

        if not self._server.run(work):
            self.end(*_TOO_MANY)

    def receive(self, received: Callable[[bytes | None], object]) -> bool:
        """Call back with the next message, or None if there is none; False where the call is over."""
        return self._begin(
            (cygrpc.ReceiveMessageOperation(_NO_FLAGS),), lambda event: received(event.batch_operations[0].message())
        )

    def send(self, message: bytes) -> bool:
        """Send a message and wait until it has been sent; False where it cannot be."""
        sent: queue.SimpleQueue[bool] = queue.SimpleQueue()
        with self._lock:
            operations = (*self._head(), cygrpc.SendMessageOperation(message, _NO_FLAGS))
            if self._is_ended or not self._begin_locked(operations, lambda event: sent.put(event.success)):
                return False
        return sent.get()

    def end(self, code: grpc.StatusCode, details: str, message: bytes | None = None) -> None:
        """Send the last message, if there is one, and the status. Without effect once it is over."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
            body = () if message is None else (cygrpc.SendMessageOperation(message, _NO_FLAGS),)
            status = cygrpc.SendStatusFromServerOperation(None, code.value[0], details.encode(), _NO_FLAGS)
            self._begin_locked((*self._head(), *body, status), _ignore)

    def _head(self) -> Iterable[Any]:
        if self._is_headed:
            return ()
        self._is_headed = True
        return (cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),)

    def _begin(self, operations: Iterable[Any], react: Callable[[Any], object]) -> bool:
        with self._lock:
            return self._begin_locked(operations, react)

    def _begin_locked(self, operations: Iterable[Any], react: Callable[[Any], object]) -> bool:
        """Start a batch, whose event `react` takes; False where the call is over."""
        if self._is_over:
            return False
        error = self._core.start_server_batch(operations, (self, react))
        if error != cygrpc.CallError.ok:
            raise RuntimeError(f"gRPC refuses {operations} of a call of {self.method}: error {error}")
        self._begun += 1
        return True

    def _closed(self, event: Any) -> None:
        with self._lock:
            self._is_over = True
            self._is_gone = bool(event.batch_operations[0].cancelled())
            callbacks, self._on_gone = self._on_gone, []
        if self._is_gone:
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    log.exception("what waits for the end of a call of %s failed", self.method)

    def came_back(self) -> None:
        """Note that the event of a batch has been handled; after the last one the server forgets the call."""
        with self._lock:
            self._begun -= 1
            is_last = self._begun == 0
        if is_last:
            self._server.forget(self)
            if self._counted_by is not None:
                self._counted_by.add(-1)


class _Requests(Iterator[bytes]):
    """The messages of a stream."""

    def __init__(self, call: CoreCall) -> None:
        self._call = call

    def __next__(self) -> bytes:
        messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        message = messages.get() if self._call.receive(messages.put) else None
        if message is not None:
            return message
        if self._call.is_gone:
            raise ConnectionError(GIVEN_UP)
        raise StopIteration


def _ignore(_event: Any) -> None:
    """Ignore an event that nothing follows from."""


def _begin(call: CoreCall, handler: Handler) -> None:
    if isinstance(handler, Stream):
        stream = handler.function
        call.run(lambda: _serve(call, stream))
    else:
        function = handler.function
        call.receive(lambda data: _received(call, function, data))


def _received(call: CoreCall, function: Callable[[bytes, Call], bytes], data: bytes | None) -> None:
    if data is None:
        call.end(*NO_REQUEST)
    else:
        call.run(lambda: call.end(grpc.StatusCode.OK, "", function(data, call)))


def _serve(call: CoreCall, function: Callable[[Iterator[bytes], Call], Iterator[bytes]]) -> None:
    for message in function(_Requests(call), call):
        if not call.send(message):
            return
    call.end(grpc.StatusCode.OK, "")


_TOO_MANY = grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!"
