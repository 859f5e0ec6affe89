"""What the services have in common: handlers that take and give messages, and errors as gRPC statuses."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from dtfctl.net import listener
from dtfctl.net.address import UNIX
from dtfctl.net.gate import Gate, Inside
from dtfctl.net.pings import PING_S, SILENT_S
from dtfctl.net.tls import Identity
from dtfctl.net.unix import short
from dtfctl.runtime.framework.errors import Code, InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.services.call_servers import make_call_server
from dtfctl.runtime.services.calls import Call, CallServer, Handler, Refused, Unary

log = logging.getLogger(__name__)
# Longer status messages could exceed gRPC's limit for metadata.
MAX_MESSAGE = 3072

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    # A connection that does not get on with TLS is dropped.
    ("grpc.server_handshake_timeout_ms", 5000),
)
# Calls that may run or wait at once; more are refused, so that no client can take all memory for threads.
MAX_CALLS = 8192
# Pings are gRPC's own here, with the numbers of all others.
_PING_MS = int(PING_S * 1000)
_ANSWER_MS = SILENT_S * 1000 - _PING_MS
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", _ANSWER_MS),
    ("grpc.http2.ping_timeout_ms", _ANSWER_MS),
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


def channel_to(address: str, identity: Identity | None, server_name: str, ways: contextlib.ExitStack) -> grpc.Channel:
    """Make a channel to a task.

    Args:
        address: its "host:port", or "unix:PATH" of what leads there.
        identity: of a certificate the cluster's authority made; None where the task serves plaintext.
        server_name: the name the task's certificate is valid for; "" for that of the address.
        ways: keeps a short way to a long PATH open.
    """
    if address.startswith(UNIX):
        address = UNIX + ways.enter_context(short(Path(address.removeprefix(UNIX))))
    if identity is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    pem = identity.pem()
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)
    name = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
    return grpc.secure_channel(address, credentials, options=(*CHANNEL_OPTIONS, *name))


def unary(request_type: Any, function: Callable[[Any, Call], Any]) -> Unary:
    """Make a handler that parses the request and answers with `function`'s message or the status of what it raises."""

    def handle(data: bytes, call: Call) -> bytes:
        try:
            try:
                request = request_type.FromString(data)
            except (DecodeError, ValueError, RecursionError) as e:
                raise InvalidArgumentError(f"Malformed {request_type.DESCRIPTOR.name}: {e}") from None
            return bytes(function(request, call).SerializeToString())
        except OpError as e:
            refuse(call, e)
        except Refused:
            raise
        except Exception as e:
            log.exception("%s failed", request_type.DESCRIPTOR.name)
            refuse(call, InternalError(f"{type(e).__name__}: {e}"))

    return Unary(handle)


def refuse(call: Call, error: OpError) -> NoReturn:
    """End a call with an error.

    TensorFlow's clients blindly repeat calls that end with UNAVAILABLE, so it travels as ABORTED, from which they
    recover in the same way.
    """
    code = Code.ABORTED if error.error_code == Code.UNAVAILABLE else Code(error.error_code)
    text = error.text
    if len(text) > MAX_MESSAGE:
        text = text[: MAX_MESSAGE - 3] + "..."
    call.refuse(_STATUS[int(code)], text)


_STATUS = {s.value[0]: s for s in grpc.StatusCode}


def service(name: str, methods: Mapping[str, Handler]) -> dict[str, Handler]:
    """Index handlers by the paths of their methods."""
    return {f"/{name}/{method}": handler for method, handler in methods.items()}


def new_server(find: Callable[[str], Handler | None]) -> CallServer:
    return make_call_server(find, SERVER_OPTIONS, MAX_CALLS)


def listen_tcp(server: CallServer, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Have `server` listen at "host:port"; give the port, which is a free one for port 0.

    Without credentials, whoever of this machine connects must be of the same user, or root.

    Raises:
        OSError: the address is taken, or not of this host; the text names it.
    """
    host, _, port = address.rpartition(":")
    doors = listener.listen_tcp(host, int(port))
    bound = int(doors[0].getsockname()[1])
    _lead_in(server, doors, credentials, address)
    return bound


def listen_unix(server: CallServer, path: Path) -> None:
    """Have `server` listen at a unix socket that only this user can open.

    Raises:
        OSError: another process listens there; the text names the path.
    """
    if path.exists():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                pass
            else:
                raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {path}")
    old = os.umask(0o177)
    try:
        door = listener.listen_unix(path)
    finally:
        os.umask(old)
    _lead_in(server, [door], None, str(path))


def _lead_in(
    server: CallServer, doors: Sequence[socket.socket], credentials: grpc.ServerCredentials | None, where: str
) -> None:
    """Have a gate lead from where others connect to the server.

    Raises:
        OSError.
    """
    try:
        inside = Inside()
        with inside:
            if not server.add_port(f"unix:{inside.path}", credentials):
                raise OSError(errno.EADDRNOTAVAIL, f"cannot listen behind {where}")
        server.add_gate(Gate(doors, inside, name="dtf-gate", owners_only=credentials is None))
    except BaseException:
        for door in doors:
            door.close()
        raise
