"""The side that is called: a thread for each connection, and in it the handlers."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from dtfctl import guard, tracing
from dtfctl._version import VERSION
from dtfctl.launcher.errors import LauncherError, OtherVersion, name_on_wire
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import codec
from dtfctl.launcher.rpc.connection import (
    CALL,
    END,
    ERROR,
    MESSAGE,
    Connection,
    NoFrame,
)
from dtfctl.launcher.rpc.method import ONE_VERSION, PROTOCOL, Handler, Method, PeerUnavailable
from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp, listen_unix
from dtfctl.net.reasons import CLOSED
from dtfctl.net.tls_socket import Broken, Echo

log = logging.getLogger(__name__)

REQUEST_S = 120.0
"""The seconds that the rest of a request has once it has begun."""
CLOSE_S = 5.0
"""The seconds a caller has to take a stream's end and hang up; closed sooner, its last words could be lost."""
MOST_CONNECTIONS = 512
"""The most connections of those who have proved who they are."""
AHEAD = 8
"""Requests of a talk that are read before the handler takes them."""
LOOK_S = 0.5

_caller: ContextVar[str] = ContextVar("caller", default="")

_echo: ContextVar[Callable[[], Echo]] = ContextVar("echo")


def caller() -> str:
    """Tell a handler where the call came from: `10.0.0.1:43210`, `[fd00::1]:43210` or `unix`."""
    return _caller.get()


def echo() -> Callable[[], Echo]:
    """Give a handler a function that asks how the caller's end answers, for any thread and for as long as it runs."""
    return _echo.get()


class Call:
    """One talk, as its handler sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = False
        self._functions: list[Callable[[], None]] = []

    def on_end(self, function: Callable[[], None]) -> None:
        """Call `function` when the talk is over, however it ended: also when the caller died. At once if it is."""
        with self._lock:
            if not self._over:
                self._functions.append(function)
                return
        function()

    def end(self) -> None:
        """End the call; for the server, any thread, any number of times."""
        with self._lock:
            self._over = True
            functions, self._functions = self._functions, []
        for function in functions:
            function()


class Server:
    """Serves from the start until `stop`.

    Attributes:
        port: at which it listens.
    """

    def __init__(
        self, handlers: Mapping[Method[Any, Any], Handler], tls: TlsFiles, address: str, socket_path: Path | None
    ) -> None:
        self._table = {method.path: (method, handler) for method, handler in handlers.items()}
        self._roles = {role for method in handlers for role in method.roles}
        self._identity = tls.identity()
        self._identity.server_context()  # who cannot prove who he is does not serve
        host, _, port = address.rpartition(":")
        doors = listen_tcp(host, int(port))
        self.port: int = doors[0].getsockname()[1]
        try:
            if socket_path is not None:
                doors.append(listen_unix(socket_path))
        except OSError:
            for door in doors:
                door.close()
            raise
        self._idle = threading.Condition()
        self._connections: set[Connection] = set()
        self._at_work = 0
        self._stopping = False
        self._listener = Listener(doors, self._serve, name="rpc")
        self._listener.start()

    def stop(self, grace_s: float) -> None:
        """Take no more calls; give those that run `grace_s` to answer."""
        with self._idle:
            self._stopping = True
        self._listener.close()
        with self._idle:
            self._idle.wait_for(lambda: not self._at_work, grace_s)
            connections = list(self._connections)
        for connection in connections:
            connection.shut()

    # ------------------------------------------------------------------ connections

    def _serve(self, guest: Guest) -> None:
        _caller.set(guest.where)
        connection: Connection | None = None
        try:
            connection = Connection(guest.socket, self._identity.server_context())
            _echo.set(connection.echo)
            connection.handshake(WITHIN_S)
            role = connection.peer_name().partition(":")[0]
            if role in self._roles:  # others stay strangers: they are told so when they call, and must not wait
                guest.admit()
            with self._idle:
                if len(self._connections) >= MOST_CONNECTIONS:
                    raise Broken(f"there are {MOST_CONNECTIONS} connections already")
                self._connections.add(connection)
            while self._serve_one(connection, role):
                pass
        except (Broken, TimeoutError, OSError) as error:
            log.debug("%s: %s", guest.where, error)
        finally:
            if connection is not None:
                with self._idle:
                    self._connections.discard(connection)
                connection.close()
            guest.close()

    def _serve_one(self, connection: Connection, role: str) -> bool:
        """Serve one call; return whether there may be another one on this connection."""
        try:
            kind, body = connection.read(None)
        except NoFrame as error:
            connection.send(_failure("InternalError", str(error), "is the other side another version of dtfctl?"))
            raise
        with self._idle:
            if self._stopping:
                return False
            self._at_work += 1
        try:
            return self._answer(connection, role, kind, body)
        finally:
            with self._idle:
                self._at_work -= 1
                self._idle.notify_all()

    def _answer(self, connection: Connection, role: str, kind: int, body: bytes) -> bool:
        path, _, parent = (body.decode(errors="replace") if kind == CALL else "").partition(" ")
        method, handler = self._table.get(path, (None, None))
        if method is None or handler is None:
            connection.send(_failed(path, _unknown(path)))
        elif role not in method.roles:
            connection.send(_failure("InternalError", f"a {role or 'stranger'} may not call {path}"))
        if method is None or handler is None or role not in method.roles:
            _hear_out(connection)
            return False
        if method.talks:
            self._talk(connection, method, handler)
            return False
        kind, body = connection.read(REQUEST_S)
        if kind != MESSAGE or connection.has_hung_up():  # who has given up must not be obeyed later, after a freeze
            return False
        if method.streams:
            connection.watch(listens=False)
            _stream(connection, method, lambda: handler(_read(method.request, body)))
            _hear_out(connection)
            return False
        told = tracing.span(method.name, "server", parent) if method.is_operation else contextlib.nullcontext()
        try:
            with told:
                reply = (MESSAGE, codec.pack(handler(_read(method.request, body))))
        except Exception as error:
            reply = _failed(method.path, error)
        connection.send(reply)
        return True

    def _talk(self, connection: Connection, method: Method[Any, Any], handler: Handler) -> None:
        call = Call()
        requests = _Requests(connection, method.request, call)
        connection.watch()
        try:
            _stream(connection, method, lambda: handler(iter(requests), call))
        finally:
            call.end()
            requests.wait_hung_up(CLOSE_S)


class _Requests:
    """What the caller of a talk says: read by a thread of its own, which also notices that the caller is gone."""

    def __init__(self, connection: Connection, kind: type[Any], call: Call) -> None:
        self._connection = connection
        self._kind = kind
        self._call = call
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._ended = False
        self._problem = ""
        self._unwanted = False
        self._thread = guard.once(self._read, name="rpc-requests")
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        """Yield the requests of the caller. Raises PeerUnavailable: the caller is gone."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended or self._problem)
                if not self._waiting:
                    if self._problem and not self._ended:
                        raise PeerUnavailable(f"the caller is gone: {self._problem}")
                    return
                body = self._waiting.popleft()
                self._changed.notify_all()
            yield _read(self._kind, body)

    def wait_hung_up(self, within_s: float) -> None:
        """Wait for the caller to hear that the talk is over and hang up, for `within_s`; nothing more is wanted."""
        with self._changed:
            self._unwanted = True
            self._changed.notify_all()
        self._thread.join(within_s)
        self._connection.shut()
        self._thread.join()

    def _read(self) -> None:
        try:
            while True:
                kind, body = self._connection.read(None)
                if kind == MESSAGE:
                    self._take(body)
                elif kind == END:
                    with self._changed:
                        self._ended = True
                        self._changed.notify_all()
                else:
                    raise Broken("what comes is no request")
        except Exception as error:
            if not isinstance(error, (Broken, OSError)):
                guard.note("reading a talk")
            with self._changed:
                self._problem = str(error) or type(error).__name__
                self._changed.notify_all()
            self._call.end()

    def _take(self, body: bytes) -> None:
        """Keep a message once the handler has room for it. A caller that hangs up meanwhile is noticed."""
        with self._changed:
            while len(self._waiting) >= AHEAD and not self._unwanted:
                if not self._changed.wait(LOOK_S) and self._connection.has_hung_up():
                    raise Broken(f"it {CLOSED}")
            if not self._unwanted:
                self._waiting.append(body)
                self._changed.notify_all()


def _stream(connection: Connection, method: Method[Any, Any], handle: Callable[[], Iterator[Any]]) -> None:
    """Send what the handler gives, and how that ended."""
    replies: Iterator[Any] = iter(())
    try:
        replies = iter(handle())
        for reply in replies:
            connection.send((MESSAGE, codec.pack(reply)))
        connection.send((END, b""))
    except Broken:
        raise
    except Exception as error:
        connection.send(_failed(method.path, error))
    finally:
        if hasattr(replies, "close"):
            replies.close()


def _hear_out(connection: Connection) -> None:
    """Read until the caller hangs up, which it does when it has heard the end."""
    deadline = time.monotonic() + CLOSE_S
    while (left := deadline - time.monotonic()) > 0:
        try:
            connection.read(left)
        except (Broken, TimeoutError):
            return


def _read(kind: type[Any], body: bytes) -> Any:
    """Read a request. Raises OtherVersion: it says what this version does not know, or nothing at all."""
    try:
        return codec.unpack(kind, body, "request")
    except ValueError as error:
        raise OtherVersion(
            f"this is dtfctl {VERSION}, which does not understand the request: {error}", ONE_VERSION
        ) from None


def _unknown(path: str) -> OtherVersion:
    """Tell whoever calls what this version does not have."""
    known = f"this is dtfctl {VERSION}"
    if path.startswith(f"/{PROTOCOL}/"):
        return OtherVersion(f"{known}, which has no call {path!r}", ONE_VERSION)
    return OtherVersion(f"{known}, which speaks protocol {PROTOCOL} and does not know {path!r}", ONE_VERSION)


def _failed(path: str, error: Exception) -> tuple[int, bytes]:
    if isinstance(error, LauncherError):
        return _failure(name_on_wire(error), error.message, error.hint)
    log.exception("%s failed", path)
    return _failure("InternalError", f"{type(error).__name__}: {error}", "see the process's log")


def _failure(name: str, message: str, hint: str = "") -> tuple[int, bytes]:
    return ERROR, json.dumps({"error": name, "message": message, "hint": hint}).encode()


def serve(
    handlers: Mapping[Method[Any, Any], Handler],
    tls: TlsFiles,
    address: str = "127.0.0.1:0",
    socket_path: Path | None = None,
) -> Server:
    """Start a server at `HOST:PORT`, where port 0 is any that is free, and at a unix socket if there is a path for one.

    Raises:
        OSError: it cannot listen there.
    """
    return Server(handlers, tls, address, socket_path)
