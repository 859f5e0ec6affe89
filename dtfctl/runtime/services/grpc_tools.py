"""What the services have in common: handlers that take and give messages, and errors as gRPC statuses."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from dtfctl.runtime.framework.errors import Code, InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.services.threads import submit

log = logging.getLogger(__name__)
# gRPC reads this when it listens for the first time. The thread that serves calls then also reads them, which would
# otherwise cross to it from a thread of gRPC's own; a call takes an eighth less. Versions that do not know it log that.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")
# Longer status messages could exceed gRPC's limit for metadata.
MAX_MESSAGE = 3072

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    # A connection that says nothing is dropped.
    ("grpc.server_handshake_timeout_ms", 20000),
)
# Calls that may run or wait at once; more are refused, so that no client can take all memory for threads.
MAX_CALLS = 8192
# A peer that does not answer a ping for ten seconds is taken for gone: it is frozen, or the network is.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.ping_timeout_ms", 10000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # For gRPC this is also how long connecting may take, handshake and all: on a busy machine more than a moment.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Every peer has a connection of its own, so that giving one up does not disturb others.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class HandlerThreads(Executor):
    """A thread for every call that runs: calls may wait for each other, so there is no limit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return submit(lambda: fn(*args, **kwargs))


M = TypeVar("M")


def unary(request_type: Any, function: Callable[[Any, grpc.ServicerContext], Any]) -> Any:
    """A handler: parses the request, answers with the message `function` returns or the status of what it raises."""

    def handle(data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            try:
                request = request_type.FromString(data)
            except (DecodeError, ValueError, RecursionError) as e:
                raise InvalidArgumentError(f"Malformed {request_type.DESCRIPTOR.name}: {e}") from None
            return bytes(function(request, context).SerializeToString())
        except OpError as e:
            abort(context, e)
        except Exception as e:
            log.exception("%s failed", request_type.DESCRIPTOR.name)
            abort(context, InternalError(f"{type(e).__name__}: {e}"))
        raise AssertionError("abort returned")

    return grpc.unary_unary_rpc_method_handler(handle)


def abort(context: grpc.ServicerContext, error: OpError) -> None:
    """End a call with an error.

    TensorFlow's clients blindly repeat calls that end with UNAVAILABLE, so it travels as ABORTED, from which they
    recover in the same way.
    """
    code = Code.ABORTED if error.error_code == Code.UNAVAILABLE else Code(error.error_code)
    text = error.text
    if len(text) > MAX_MESSAGE:
        text = text[: MAX_MESSAGE - 3] + "..."
    context.abort(_STATUS[int(code)], text)


_STATUS = {s.value[0]: s for s in grpc.StatusCode}


def service(name: str, handlers: Mapping[str, Any]) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(name, dict(handlers))


def new_server() -> grpc.Server:
    return grpc.server(HandlerThreads(), options=SERVER_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)


def listen_tcp(server: grpc.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Have `server` listen at "host:port"; the port, which is a free one for port 0.

    Raises:
        OSError: the address is taken, or not of this host; the text names it.
    """
    host, _, port = address.rpartition(":")
    _probe(host.strip("[]"), int(port), address)
    try:
        bound = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {address}")
    return int(bound)


def _probe(host: str, port: int, address: str) -> None:
    """Bind once, for the exact error; gRPC's own says little."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as e:
        raise OSError(errno.EADDRNOTAVAIL, f"{e.strerror}: {address}") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
        except OSError as e:
            raise OSError(e.errno, f"{e.strerror}: {address}") from None


def listen_unix(server: grpc.Server, path: Path) -> None:
    """Have `server` listen at a unix socket that only this user can open.

    Raises:
        OSError: another process listens there; the text names the path.
    """
    if path.exists():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
            else:
                raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {path}")
    old = os.umask(0o177)
    try:
        bound = server.add_insecure_port(f"unix:{path}")
    except RuntimeError as e:
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen at {path}: {e}") from None
    finally:
        os.umask(old)
    if not bound:
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen at {path}")
    path.chmod(0o600)
