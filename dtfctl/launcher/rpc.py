"""gRPC between the launcher's processes: mutual TLS, who may call what, and errors that keep their class.

A service is a table of methods (`Method`); there is no generated service code. Every certificate carries its
holder's role, and a method names the roles that may call it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from dtfctl.launcher.certificates import Role, TlsFiles, server_name
from dtfctl.launcher.errors import BY_NAME, InternalError, LauncherError
from dtfctl.values import value

log = logging.getLogger(__name__)

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)

LARGEST_MESSAGE = 64 * 2**20
THREADS = 48
"""Long polls and streams hold a thread each; past this number calls wait."""

OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    # For gRPC this is also how long connecting may take: a handshake on a slow link or a busy machine takes more than
    # a moment.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class PeerUnavailable(LauncherError):
    """The other process does not answer: dead, cut off, or not listening yet."""

    exit_code = 8


@value
class Method(Generic[Request, Reply]):
    """One call: its name, messages and the roles that may make it."""

    service: str
    name: str
    request: type[Request]
    reply: type[Reply]
    roles: frozenset[Role]
    streams: bool = False
    """A stream of replies."""
    talks: bool = False
    """Streams both ways: the handler gets the iterator of requests and the `Call`."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


Handler = Callable[..., Any]
_caller: ContextVar[str] = ContextVar("caller", default="")


def caller() -> str:
    """In a handler: where the call came from, as gRPC writes it (`ipv4:10.0.0.1:43210`)."""
    return _caller.get()


class Call:
    """One talk, as its handler sees it."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def on_end(self, function: Callable[[], None]) -> None:
        """Call `function` when the talk is over, however it ended: also when the caller died. At once if it is."""
        if not self._context.add_callback(function):
            function()


def serve(
    handlers: Mapping[Method[Any, Any], Handler],
    tls: TlsFiles,
    address: str = "127.0.0.1:0",
    *,
    threads: int = THREADS,
) -> tuple[grpc.Server, int]:
    """Start a server for `handlers` (request -> reply, or an iterator of replies); it and its port."""
    credentials = grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.cert.read_bytes())], tls.ca.read_bytes(), require_client_auth=True
    )
    server = grpc.server(futures.ThreadPoolExecutor(threads, thread_name_prefix="rpc"), options=list(OPTIONS))
    by_service: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
    for method, handler in handlers.items():
        by_service.setdefault(method.service, {})[method.name] = _adapt(method, handler)
    for service, table in by_service.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, table),))
    port = server.add_secure_port(address, credentials)
    server.start()
    return server, port


def _adapt(method: Method[Any, Any], handler: Handler) -> grpc.RpcMethodHandler:
    def unary(request: Message, context: grpc.ServicerContext) -> Any:
        _check_role(method, context)
        _caller.set(context.peer())
        try:
            return handler(request)
        except Exception as error:
            _abort(method, context, error)

    def stream(request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
        _check_role(method, context)
        try:
            yield from handler(request)
        except Exception as error:
            _abort(method, context, error)

    def talk(requests: Iterator[Message], context: grpc.ServicerContext) -> Iterator[Any]:
        _check_role(method, context)
        try:
            yield from handler(requests, Call(context))
        except Exception as error:
            _abort(method, context, error)

    function: Callable[[Any, grpc.ServicerContext], Any]
    if method.talks:
        make, function = grpc.stream_stream_rpc_method_handler, talk
    elif method.streams:
        make, function = grpc.unary_stream_rpc_method_handler, stream
    else:
        make, function = grpc.unary_unary_rpc_method_handler, unary
    return make(
        function,
        request_deserializer=method.request.FromString,
        response_serializer=method.reply.SerializeToString,
    )


def _check_role(method: Method[Any, Any], context: grpc.ServicerContext) -> None:
    names = context.auth_context().get("x509_common_name", [])
    role = names[0].decode().split(":")[0] if names else ""
    if role not in method.roles:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, f"a {role or 'stranger'} may not call {method.path}")


def _abort(method: Method[Any, Any], context: grpc.ServicerContext, error: Exception) -> None:
    if isinstance(error, LauncherError):
        name, message, hint = type(error).__name__, error.message, error.hint
    else:
        log.exception("%s failed", method.path)
        name, message, hint = "InternalError", f"{type(error).__name__}: {error}", "see the process's log"
    details = json.dumps({"error": name, "message": message, "hint": hint})
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, details)


class Channel:
    """Calls to one process. Every call has a deadline."""

    def __init__(self, address: str, tls: TlsFiles, role: Role, cluster: str) -> None:
        credentials = grpc.ssl_channel_credentials(tls.ca.read_bytes(), tls.key.read_bytes(), tls.cert.read_bytes())
        options = [*OPTIONS, ("grpc.ssl_target_name_override", server_name(role, cluster))]
        self._channel = grpc.secure_channel(address, credentials, options=options)
        self.address = address

    def call(self, method: Method[Request, Reply], request: Request, *, timeout_s: float) -> Reply:
        stub = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        try:
            return cast(Reply, stub(request, timeout=timeout_s))
        except grpc.RpcError as error:
            raise _as_launcher_error(error, self.address) from None

    def stream(self, method: Method[Request, Reply], request: Request) -> Iterator[Reply]:
        """Replies until the other side ends the stream; `close` ends it from this side."""
        stub = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        call = stub(request)
        try:
            for reply in call:
                yield cast(Reply, reply)
        except grpc.RpcError as error:
            raise _as_launcher_error(error, self.address) from None
        finally:
            call.cancel()

    def talk(self, method: Method[Request, Reply], requests: Iterator[Request]) -> Talk[Reply]:
        """Send `requests` as they come, from a thread of gRPC's, and get the replies."""
        stub = self._channel.stream_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        return Talk(stub(requests), self.address)

    def close(self) -> None:
        self._channel.close()


class Talk(Generic[Reply]):
    """The replies of a stream that goes both ways."""

    def __init__(self, call: Any, address: str) -> None:
        self._call = call
        self._address = address

    def __iter__(self) -> Iterator[Reply]:
        """Until the other side ends the stream. Raises what it failed with."""
        try:
            for reply in self._call:
                yield cast(Reply, reply)
        except grpc.RpcError as error:
            raise _as_launcher_error(error, self._address) from None
        finally:
            self._call.cancel()

    def cancel(self) -> None:
        """End it from this side; any thread."""
        self._call.cancel()


def _as_launcher_error(error: grpc.RpcError, address: str) -> LauncherError:
    code, details = error.code(), error.details() or ""
    if code == grpc.StatusCode.FAILED_PRECONDITION:
        try:
            data = json.loads(details)
            return BY_NAME[data["error"]](data["message"], data["hint"])
        except (ValueError, KeyError):
            return InternalError(details)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return PeerUnavailable(f"{address} does not answer: {details}")
    return InternalError(f"{address}: {code.name}: {details}")
