"""The side that calls."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Generic

from dtfctl import guard, tracing
from dtfctl.launcher.errors import InternalError, LauncherError, OtherVersion, from_wire
from dtfctl.launcher.identity.certificates import Role, TlsFiles, server_name
from dtfctl.launcher.messages import codec
from dtfctl.launcher.rpc.connection import (
    CALL,
    END,
    ERROR,
    MESSAGE,
    Connection,
)
from dtfctl.launcher.rpc.method import ONE_VERSION, Method, PeerUnavailable, Reply, Request
from dtfctl.net.address import connect
from dtfctl.net.tls_socket import Broken

CONNECT_S = 20.0
"""The time in seconds that a stream has to connect; a call has its own deadline."""
MOST_IDLE = 4
OF_THE_FIRST = "no such call: "
"""How those who speak protocol 1 say that they do not know this one."""


class Channel:
    """Calls to one process; any thread. Every call has a deadline.

    Args:
        role, name: whom the process has to be; without a name anyone in that role.
    """

    def __init__(self, address: str, tls: TlsFiles, role: Role, cluster: str, name: str = "") -> None:
        self.address = address
        self._cluster = cluster
        self._identity = tls.identity()
        self._identity.client_context()
        self._server = server_name(role, cluster)
        self._who = f"{role}:{name}" if name else ""
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._closed = False

    def call(self, method: Method[Request, Reply], request: Request, *, timeout_s: float) -> Reply:
        """Make one call and return its reply. Raises PeerUnavailable, or what the other side raised."""
        if method.is_operation:
            with tracing.span(method.name, "client", cluster=self._cluster):
                return self._call(method, request, timeout_s, tracing.traceparent())
        return self._call(method, request, timeout_s)

    def _call(self, method: Method[Request, Reply], request: Request, timeout_s: float, parent: str = "") -> Reply:
        deadline = time.monotonic() + timeout_s
        reusable = False
        connection = self._connection(timeout_s)
        try:
            frames = (CALL, f"{method.path} {parent}".strip().encode()), (MESSAGE, codec.pack(request))
            connection.send(*frames, within_s=max(0.0, deadline - time.monotonic()))
            kind, body = connection.read(max(0.0, deadline - time.monotonic()))
            reusable = kind == MESSAGE
            return _reply(method, kind, body)
        except (Broken, TimeoutError) as error:
            raise self._unavailable(error, timeout_s) from None
        finally:
            self._release(connection, reusable)

    def stream(self, method: Method[Request, Reply], request: Request) -> Iterator[Reply]:
        """Begin a stream of replies, until the other side ends it; `close` ends it from this side."""
        connection = self._connection(CONNECT_S)
        try:
            connection.send((CALL, method.path.encode()), (MESSAGE, codec.pack(request)), within_s=CONNECT_S)
            connection.watch(speaks=False)
            yield from _replies(connection, method)
        except (Broken, TimeoutError) as error:
            raise self._unavailable(error, CONNECT_S) from None
        finally:
            self._release(connection, reusable=False)

    def talk(self, method: Method[Request, Reply], requests: Iterator[Request]) -> Talk[Reply]:
        """Send `requests` as they come, from a thread, and get the replies."""
        connection = self._connection(CONNECT_S)
        connection.watch()

        def send() -> None:
            try:
                connection.send((CALL, method.path.encode()))
                for request in requests:
                    connection.send((MESSAGE, codec.pack(request)))
                connection.send((END, b""))
            except Broken:
                return  # who reads the replies is told why
            except BaseException:
                connection.shut()  # the other side must not take what it has for everything
                raise

        guard.once(send, name="rpc-talk").start()
        return Talk(self, method, connection)

    def close(self) -> None:
        """End what is under way; any thread."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for connection in idle:
            connection.close()
        for connection in used:
            connection.shut()

    # ------------------------------------------------------------------ connections

    def _connection(self, within_s: float) -> Connection:
        """Take a connection that no other call uses, an idle one or a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise PeerUnavailable(f"{self.address} does not answer: the channel was closed")
                connection = self._idle.pop() if self._idle else None
                if connection is not None:
                    self._used.add(connection)
            if connection is None:
                return self._connect(within_s)
            if connection.is_quiet():
                return connection
            self._release(connection, reusable=False)

    def _connect(self, within_s: float) -> Connection:
        deadline = time.monotonic() + within_s
        try:
            sock = connect(self.address, max(0.001, within_s))
        except OSError as error:
            raise self._unavailable(error, within_s) from None
        connection = Connection(sock, self._identity.client_context(), self._server)
        with self._lock:
            self._used.add(connection)
            closed = self._closed
        try:
            if closed:
                raise Broken("the channel was closed")
            connection.handshake(max(0.0, deadline - time.monotonic()))
            if self._who and connection.peer_name() != self._who:
                raise Broken(f"it is {connection.peer_name()}, not {self._who}")
        except BaseException as error:
            self._release(connection, reusable=False)
            if isinstance(error, (Broken, TimeoutError)):
                raise self._unavailable(error, within_s) from None
            raise
        return connection

    def _release(self, connection: Connection, reusable: bool) -> None:
        with self._lock:
            self._used.discard(connection)
            keeps = reusable and not self._closed and len(self._idle) < MOST_IDLE
            if keeps:
                self._idle.append(connection)
        if not keeps:
            connection.abort()  # a call that was given up must not be made when a link is mended

    def _unavailable(self, error: Exception, within_s: float) -> PeerUnavailable:
        why = f"no answer within {within_s:g} s" if isinstance(error, TimeoutError) else str(error)
        return PeerUnavailable(f"{self.address} does not answer: {why}")


class Talk(Generic[Reply]):
    """The replies of a stream that goes both ways."""

    def __init__(self, channel: Channel, method: Method[Any, Reply], connection: Connection) -> None:
        self._channel = channel
        self._method = method
        self._connection = connection

    def __iter__(self) -> Iterator[Reply]:
        """Yield the replies until the other side ends the stream. Raises what it failed with."""
        try:
            yield from _replies(self._connection, self._method)
        except Broken as error:
            raise PeerUnavailable(f"{self._channel.address} does not answer: {error}") from None
        finally:
            self._connection.shut()  # whoever sends gives up
            self._channel._release(self._connection, reusable=False)

    def cancel(self) -> None:
        """End it from this side; any thread."""
        self._connection.shut()


def _replies(connection: Connection, method: Method[Any, Reply]) -> Iterator[Reply]:
    while True:
        kind, body = connection.read(None)
        if kind == END:
            return
        yield _reply(method, kind, body)


def _reply(method: Method[Any, Reply], kind: int, body: bytes) -> Reply:
    """Read a reply, or raise what the call failed with."""
    if kind == MESSAGE:
        try:
            return codec.unpack(method.reply, body, "reply")
        except ValueError as problem:
            raise OtherVersion(f"the reply to {method.path} is not understood: {problem}", ONE_VERSION) from None
    if kind != ERROR:
        raise Broken(f"a frame of kind {kind} where a reply should be")
    error: LauncherError = InternalError(body.decode(errors="replace"))
    with contextlib.suppress(ValueError, KeyError, TypeError):
        data = json.loads(body)
        error = from_wire(data["error"], data["message"], data["hint"])
    if isinstance(error, InternalError) and error.message.startswith(OF_THE_FIRST):
        raise OtherVersion("the other process runs an older dtfctl", ONE_VERSION)
    raise error
