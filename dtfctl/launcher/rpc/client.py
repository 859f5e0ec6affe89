"""The side that calls."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Generic

from dtfctl import guard
from dtfctl.launcher.errors import InternalError, LauncherError, OtherVersion, from_wire
from dtfctl.launcher.identity.certificates import Role, TlsFiles, server_name
from dtfctl.launcher.messages import codec
from dtfctl.launcher.rpc.frames import (
    CALL,
    END,
    ERROR,
    MESSAGE,
    SILENT_S,
    Broken,
    Wire,
    heart,
)
from dtfctl.launcher.rpc.method import ONE_VERSION, Method, PeerUnavailable, Reply, Request
from dtfctl.net.address import connect

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
        self._identity = tls.identity()
        self._identity.client_context()
        self._server = server_name(role, cluster)
        self._who = f"{role}:{name}" if name else ""
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._used: set[Wire] = set()
        self._closed = False

    def call(self, method: Method[Request, Reply], request: Request, *, timeout_s: float) -> Reply:
        """Make one call and return its reply. Raises PeerUnavailable, or what the other side raised."""
        deadline = time.monotonic() + timeout_s
        reusable = False
        wire = self._wire(timeout_s)
        try:
            frames = (CALL, method.path.encode()), (MESSAGE, codec.pack(request))
            wire.send(*frames, within_s=max(0.0, deadline - time.monotonic()))
            kind, body = wire.read(max(0.0, deadline - time.monotonic()))
            reusable = kind == MESSAGE
            return _reply(method, kind, body)
        except (Broken, TimeoutError) as error:
            raise self._unavailable(error, timeout_s) from None
        finally:
            self._release(wire, reusable)

    def stream(self, method: Method[Request, Reply], request: Request) -> Iterator[Reply]:
        """Begin a stream of replies, until the other side ends it; `close` ends it from this side."""
        wire = self._wire(CONNECT_S)
        try:
            wire.send((CALL, method.path.encode()), (MESSAGE, codec.pack(request)), within_s=CONNECT_S)
            yield from _replies(wire, method)
        except (Broken, TimeoutError) as error:
            raise self._unavailable(error, CONNECT_S) from None
        finally:
            self._release(wire, reusable=False)

    def talk(self, method: Method[Request, Reply], requests: Iterator[Request]) -> Talk[Reply]:
        """Send `requests` as they come, from a thread, and get the replies."""
        wire = self._wire(CONNECT_S)
        heart.add(wire)

        def send() -> None:
            try:
                wire.send((CALL, method.path.encode()))
                for request in requests:
                    wire.send((MESSAGE, codec.pack(request)))
                wire.send((END, b""))
            except Broken:
                return  # who reads the replies is told why
            except BaseException:
                wire.shut()  # the other side must not take what it has for everything
                raise

        guard.once(send, name="rpc-talk").start()
        return Talk(self, method, wire)

    def close(self) -> None:
        """End what is under way; any thread."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for wire in idle:
            wire.close()
        for wire in used:
            wire.shut()

    # ------------------------------------------------------------------ connections

    def _wire(self, within_s: float) -> Wire:
        """Take a connection that no other call uses, an idle one or a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise PeerUnavailable(f"{self.address} does not answer: the channel was closed")
                wire = self._idle.pop() if self._idle else None
                if wire is not None:
                    self._used.add(wire)
            if wire is None:
                return self._connect(within_s)
            if wire.is_quiet():
                return wire
            self._release(wire, reusable=False)

    def _connect(self, within_s: float) -> Wire:
        deadline = time.monotonic() + within_s
        try:
            sock = connect(self.address, max(0.001, within_s))
        except OSError as error:
            raise self._unavailable(error, within_s) from None
        wire = Wire(sock, self._identity.client_context(), self._server)
        with self._lock:
            self._used.add(wire)
            closed = self._closed
        try:
            if closed:
                raise Broken("the channel was closed")
            wire.handshake(max(0.0, deadline - time.monotonic()))
            if self._who and wire.peer_name() != self._who:
                raise Broken(f"it is {wire.peer_name()}, not {self._who}")
        except BaseException as error:
            self._release(wire, reusable=False)
            if isinstance(error, (Broken, TimeoutError)):
                raise self._unavailable(error, within_s) from None
            raise
        return wire

    def _release(self, wire: Wire, reusable: bool) -> None:
        with self._lock:
            self._used.discard(wire)
            keeps = reusable and not self._closed and len(self._idle) < MOST_IDLE
            if keeps:
                self._idle.append(wire)
        if not keeps:
            wire.abort()  # a call that was given up must not be made when a link is mended

    def _unavailable(self, error: Exception, within_s: float) -> PeerUnavailable:
        why = f"no answer within {within_s:g} s" if isinstance(error, TimeoutError) else str(error)
        return PeerUnavailable(f"{self.address} does not answer: {why}")


class Talk(Generic[Reply]):
    """The replies of a stream that goes both ways."""

    def __init__(self, channel: Channel, method: Method[Any, Reply], wire: Wire) -> None:
        self._channel = channel
        self._method = method
        self._wire = wire

    def __iter__(self) -> Iterator[Reply]:
        """Yield the replies until the other side ends the stream. Raises what it failed with."""
        try:
            yield from _replies(self._wire, self._method)
        except Broken as error:
            raise PeerUnavailable(f"{self._channel.address} does not answer: {error}") from None
        finally:
            heart.remove(self._wire)
            self._wire.shut()  # whoever sends gives up
            self._channel._release(self._wire, reusable=False)

    def cancel(self) -> None:
        """End it from this side; any thread."""
        self._wire.shut()


def _replies(wire: Wire, method: Method[Any, Reply]) -> Iterator[Reply]:
    while True:
        kind, body = wire.read(None, silence_s=SILENT_S)
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
