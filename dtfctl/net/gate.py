"""Stand before a server that takes connections by itself, as gRPC's does, and lets nobody else decide who may wait.

Such a server listens at a unix socket that has no name any more, which nothing but this process can reach; the gate
takes connections where others connect (`listener.py`), and hands on what they say, byte for byte. TLS is the server's:
it says through `known` that a connection is no stranger's, since it was asked something there by somebody who has
proved who he is. A connection of which nothing has come yet costs the server nothing.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dtfctl import guard
from dtfctl.net import keepalive
from dtfctl.net.listener import Guest, Listener, TurnedOut
from dtfctl.net.unix import short

log = logging.getLogger(__name__)

PIECE = 256 * 1024
NAME = "inside"
DRAIN_S = 2.0
LOOK_S = 0.02
_GONE = select.EPOLLHUP | select.EPOLLERR


class Inside:
    """Where the server behind a gate listens: a unix socket in a folder of this user's, for as long as that takes.

    Use it as a context in which the server begins to listen at `path`; afterwards the socket has no name.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dtf-"))
        self._stack = contextlib.ExitStack()
        self._fd = -1
        self.path = ""

    def __enter__(self) -> Inside:
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self.path = self._stack.enter_context(short(self._folder / NAME))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is None:
                self._fd = os.open(self._folder / NAME, os.O_PATH | os.O_CLOEXEC)

    def connect(self) -> tuple[socket.socket, str]:
        """Return a connection, and the name by which the server knows it.

        Raises:
            OSError.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.bind("")  # the kernel gives it a name of its own
            name = bytes(connection.getsockname())
            connection.setblocking(False)
            connection.connect(f"/proc/self/fd/{self._fd}")
        except BaseException:
            connection.close()
            raise
        return connection, name.decode("latin-1").lstrip("\0")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _End:
    """One side of a connection: what comes from it goes to the other side."""

    __slots__ = ("connection", "has_ended", "other", "owner", "pending", "watched")

    def __init__(self, connection: socket.socket, owner: _Passage) -> None:
        self.connection = connection
        self.owner = owner
        self.other: _End | None = None
        self.pending = b""
        """What has come from the other side and could not be sent here yet."""
        self.has_ended = False
        """Nothing more will come from here."""
        self.watched = 0
        """The events it is registered for; 0: it is not."""


class _Passage:
    """One connection through the gate."""

    __slots__ = ("guest", "inner", "is_known", "name", "outer", "watchers")

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.outer = _End(guest.socket, self)
        self.inner: _End | None = None
        self.name = ""
        self.is_known = False
        self.watchers: list[Callable[[], object]] | None = []
        """Who wants to be told of its end; None: it has ended."""


class Gate:
    """Methods may be called from any thread.

    Args:
        doors: sockets that listen.
        inside: where the server listens.
        owners_only: see `Listener`.
    """

    def __init__(self, doors: Sequence[socket.socket], inside: Inside, *, name: str, owners_only: bool) -> None:
        self._inside = inside
        self._name = name
        self._listener = Listener(doors, self._arrived, name=name, in_threads=False, owners_only=owners_only)
        self._epoll = select.epoll()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._news: collections.deque[_Passage] = collections.deque()
        self._by_fd: dict[int, _End] = {}
        self._by_name: dict[str, _Passage] = {}
        self._lock = threading.Lock()
        self._is_closing = False
        self._until = 0.0
        self._started = False

    def start(self) -> None:
        self._started = True
        guard.forever(self._run, name=self._name).start()
        self._listener.start()

    def shut(self) -> None:
        """Let nobody in any more; who is in stays."""
        self._listener.close()

    def close(self) -> None:
        """End all connections; the server has ended its own, or is about to."""
        self._listener.close()
        with self._lock:
            if self._is_closing:
                return
            self._until = time.monotonic() + DRAIN_S
            self._is_closing = True
            if self._started:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake_write, b"x")
                return
        self._release()

    def known(self, name: str) -> None:
        """Note that the server was asked something by who it knows, over the connection of that name."""
        passage = self._by_name.get(name)
        if passage is None or passage.is_known:
            return
        passage.is_known = True
        with contextlib.suppress(TurnedOut):
            passage.guest.admit()

    def when_ended(self, name: str, callback: Callable[[], object]) -> bool:
        """Call back when the connection of that name has ended; False where it has. The callback must not block."""
        passage = self._by_name.get(name)
        if passage is None:
            return False
        with self._lock:
            if passage.watchers is not None:
                passage.watchers.append(callback)
            return passage.watchers is not None

    # ------------------------------------------------------------------ the listener's thread

    def _arrived(self, guest: Guest) -> None:
        with self._lock:
            if self._is_closing:
                guest.close()
                return
            self._news.append(_Passage(guest))
            with contextlib.suppress(BlockingIOError):  # full: it is being woken already
                os.write(self._wake_write, b"x")

    # ------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        """Move bytes until it is told to close; what is raised meanwhile ends one connection,
        and this is called again."""
        self._begin_new()  # who has come may have been told of before
        while not self._is_done():
            for fd, events in self._epoll.poll(LOOK_S if self._is_closing else None):
                if fd == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._begin_new()
                    continue
                end = self._by_fd.get(fd)
                if end is not None:
                    self._turn(end, events)
        self._release()

    def _is_done(self) -> bool:
        """Tell whether an end is done: what the server has said last goes out before, where the other side takes it."""
        if not self._is_closing or time.monotonic() > self._until:
            return self._is_closing
        ends = list(self._by_fd.values())
        return not any(end.pending or not end.has_ended for end in ends if end.owner.inner is end) and not any(
            end.pending for end in ends
        )

    def _turn(self, end: _End, events: int) -> None:
        try:
            self._serve(end, events)
        except OSError as error:
            log.debug("%s: %s: %s", self._name, end.owner.guest.where, error)
            self._end(end.owner)
        except Exception:
            self._end(end.owner)  # it would raise again, and keep all others waiting
            raise

    def _release(self) -> None:
        for end in list(self._by_fd.values()):
            self._end(end.owner)
        while self._news:
            self._news.popleft().guest.close()
        self._epoll.close()
        self._inside.close()
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _begin_new(self) -> None:
        while self._news:
            self._begin(self._news.popleft())

    def _begin(self, passage: _Passage) -> None:
        connection = passage.outer.connection
        try:
            connection.setblocking(False)
            keepalive.prepare(connection)
            self._by_fd[connection.fileno()] = passage.outer
            self._watch(passage.outer)
        except OSError:
            self._end(passage)

    def _serve(self, end: _End, events: int) -> None:
        if end.pending and events & (select.EPOLLOUT | _GONE):
            self._flush(end)
        if not end.has_ended and events & (select.EPOLLIN | _GONE):
            self._read(end)
        self._look(end)

    def _read(self, end: _End) -> None:
        other = end.other
        if other is not None and other.pending:
            return  # not before that is gone
        try:
            data = end.connection.recv(PIECE)
        except BlockingIOError:
            return
        if data:
            if other is None:
                other = self._lead_in(end)
            other.pending = data
            self._flush(other)
            return
        end.has_ended = True
        if other is None:
            self._end(end.owner)
        elif not other.pending:
            other.connection.shutdown(socket.SHUT_WR)

    def _lead_in(self, outer: _End) -> _End:
        """Lead in a connection from which something has come: now the server has to do with it."""
        passage = outer.owner
        connection, passage.name = self._inside.connect()
        inner = passage.inner = _End(connection, passage)
        inner.other, outer.other = outer, inner
        self._by_fd[connection.fileno()] = inner
        self._by_name[passage.name] = passage
        return inner

    def _flush(self, end: _End) -> None:
        """Send what waits."""
        view = memoryview(end.pending)
        try:
            while view:
                view = view[end.connection.send(view) :]
        except BlockingIOError:
            end.pending = bytes(view)
            return
        except ConnectionError:
            if end is not end.owner.inner or end.other is None:
                raise
            end.pending = b""
            end.other.has_ended = True  # the server takes no more, but what it has said last is still to go out
            return
        end.pending = b""
        if end.other is not None and end.other.has_ended:
            end.connection.shutdown(socket.SHUT_WR)

    def _look(self, end: _End) -> None:
        """Watch for what is waited for next, on both sides."""
        other = end.other
        if end.connection.fileno() < 0:
            return
        if other is not None and end.has_ended and other.has_ended and not (end.pending or other.pending):
            self._end(end.owner)
            return
        self._watch(end)
        if other is not None:
            self._watch(other)

    def _watch(self, end: _End) -> None:
        """Wait for events of one side; also that it is gone is only told of a side that is waited for."""
        wanted = select.EPOLLOUT if end.pending else 0
        if not end.has_ended and not (end.other is not None and end.other.pending):
            wanted |= select.EPOLLIN
        if wanted == end.watched:
            return
        fd = end.connection.fileno()
        if not wanted:
            self._epoll.unregister(fd)
        elif end.watched:
            self._epoll.modify(fd, wanted)
        else:
            self._epoll.register(fd, wanted)
        end.watched = wanted

    def _end(self, passage: _Passage) -> None:
        for end in (passage.outer, passage.inner):
            if end is not None:
                self._by_fd.pop(end.connection.fileno(), None)
        self._by_name.pop(passage.name, None)
        with self._lock:
            watchers, passage.watchers = passage.watchers or [], None
        for callback in watchers:  # while nobody else can have its name
            try:
                callback()
            except Exception:
                log.exception("%s: what waits for the end of a connection failed", self._name)
        if passage.inner is not None:
            passage.inner.connection.close()
        passage.guest.close()
