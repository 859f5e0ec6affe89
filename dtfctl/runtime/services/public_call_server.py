"""A CallServer on the server that comes with gRPC for Python, by its documented interface only.

It wakes more threads for a call than call_server.py does, which is why that one serves where it works.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NoReturn

import grpc

from dtfctl import guard
from dtfctl.net.gate import Gate
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.services.calls import (
    FOR_EVER_S,
    GIVEN_UP,
    NO_REQUEST,
    THROUGH_GATE,
    Handler,
    Refused,
    Stream,
    Unanswered,
    Unary,
    no_method,
    when_left,
)

log = logging.getLogger(__name__)


class PublicCallServer:
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
        self._server = grpc.server(
            _Threads(), handlers=[_Methods(self)], options=tuple(options), maximum_concurrent_rpcs=most_calls
        )
        self._lock = threading.Lock()
        self._unanswered = Unanswered()
        self._gates: list[Gate] = []
        self._is_started = False
        self._is_stopping = False
        self._ended = threading.Event()

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> bool:
        try:
            if credentials is None:
                return bool(self._server.add_insecure_port(address))
            return bool(self._server.add_secure_port(address, credentials))
        except RuntimeError:
            return False

    def add_gate(self, gate: Gate) -> None:
        self._gates.append(gate)

    def start(self) -> None:
        self._is_started = True
        self._server.start()
        for gate in self._gates:
            gate.start()

    def answered(self, most_s: float) -> bool:
        return self._unanswered.wait(most_s)

    def stop(self, grace_s: float) -> threading.Event:
        with self._lock:
            is_first, self._is_stopping = not self._is_stopping, True
        ended = self._server.stop(grace_s if grace_s > 0 else None)
        for gate in self._gates:
            gate.shut()
        if not self._is_started:
            self._end(None)
        elif is_first:
            guard.once(self._end, args=(ended,), name="dtf-calls-end").start()
        return self._ended

    def _end(self, ended: Any) -> None:
        if ended is not None:
            ended.wait()
        for gate in self._gates:
            gate.close()
        self._ended.set()

    def when_left(self, peer: str, callback: Callable[[], object]) -> bool:
        """Call back when a connection has ended; False where it has."""
        return when_left(self._gates, peer, callback)

    def serve(self, method: str, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Answer a call, as gRPC wants it."""
        call = PublicCall(self, method, context)
        for gate in self._gates:
            gate.known(call.peer().removeprefix(THROUGH_GATE))
        handler = self._find(method)
        if isinstance(handler, Unary):
            call.counted(self._unanswered)
        try:
            if handler is None:
                call.refuse(grpc.StatusCode.UNIMPLEMENTED, no_method(method))
            if isinstance(handler, Stream):
                for message in handler.function(_Requests(requests), call):
                    if call.is_gone:
                        return
                    yield message
            else:
                data = next(_Requests(requests), None)
                if data is None:
                    call.refuse(*NO_REQUEST)
                yield handler.function(data, call)
        except GeneratorExit:
            raise
        except Refused as e:
            context.set_code(e.code)
            context.set_details(e.details)
        except BaseException as e:
            if not call.is_gone:
                log.exception("%s failed", method)
            context.set_code(grpc.StatusCode.UNKNOWN)
            context.set_details(f"{type(e).__name__}: {e}")
        call.answered()


class PublicCall:
    """One call; a `Call` for its handler. Methods may be called from any thread."""

    def __init__(self, server: PublicCallServer, method: str, context: grpc.ServicerContext) -> None:
        self.method = method
        self.metadata: tuple[tuple[str, str | bytes], ...] = tuple(
            (name, value) for name, value in context.invocation_metadata()
        )
        self._server = server
        self._context = context
        self._lock = threading.Lock()
        self._is_answered = False
        self._is_gone = False
        self._on_gone: list[Callable[[], object]] = []
        if not context.add_callback(self._over):
            self._is_gone = True

    def counted(self, by: Unanswered) -> None:
        """Be counted until it is over."""
        by.add(1)
        if not self._context.add_callback(lambda: by.add(-1)):
            by.add(-1)

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    def on_gone(self, callback: Callable[[], object]) -> bool:
        with self._lock:
            if not self._is_gone:
                self._on_gone.append(callback)
            return not self._is_gone

    def on_left(self, callback: Callable[[], object]) -> bool:
        return self._server.when_left(self.peer(), callback)

    def refuse(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Refused(code, details)

    def time_left(self) -> float | None:
        left = self._context.time_remaining()
        return left if left is not None and left < FOR_EVER_S else None

    def peer(self) -> str:
        return str(self._context.peer())

    def auth_context(self) -> dict[str, list[bytes]]:
        return {name: list(values) for name, values in self._context.auth_context().items()}

    def answered(self) -> None:
        """Note that there is nothing more to send."""
        with self._lock:
            self._is_answered = True
            self._on_gone = []

    def _over(self) -> None:
        with self._lock:
            if self._is_answered:
                return
            self._is_gone = True
            callbacks, self._on_gone = self._on_gone, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("what waits for the end of a call of %s failed", self.method)


class _Requests(Iterator[bytes]):
    """The messages of a call."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests

    def __next__(self) -> bytes:
        try:
            return next(self._requests)
        except grpc.RpcError:
            raise ConnectionError(GIVEN_UP) from None


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds what serves a method: all do it in one way, as on the wire there is no other either."""

    def __init__(self, server: PublicCallServer) -> None:
        self._server = server

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method
        server = self._server
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: server.serve(method, requests, context))


class _Threads(Executor):
    """An executor of as many threads as there are calls: handlers may wait for each other."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as e:
                future.set_exception(e)
            else:
                future.set_result(result)

        WORKERS.submit(work)
        return future
