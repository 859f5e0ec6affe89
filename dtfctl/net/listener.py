"""Take connections at a door: the one way in which every listening socket of a cluster does so.

Who has not proved yet who he is is a stranger. There are so many strangers at a time and no more, from one source so
many, and where there is no room for one more the one that has waited longest goes (`admission.py`). Each has five
seconds, however slowly he speaks.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.net.admission import Admission, Limits, source_of
from dtfctl.net.owner import is_local, is_mine, owner_of
from dtfctl.net.unix import short

log = logging.getLogger(__name__)

BACKLOG = 1024
AT_ONCE = 64
"""Connections that are taken before clocks are looked at."""
WAIT_S = 0.05
"""How long to wait when no descriptor is free."""
SAY_AGAIN_S = 10.0
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class TurnedOut(OSError):
    """There was no room any more for this stranger, or his time was over."""


class Guest:
    """One connection that was taken.

    Attributes:
        socket: its end here. Who wraps it, as in TLS, puts what wraps it here before he reads.
        where: where it comes from: `10.0.0.1:43210`, `[fd00::1]:43210` or `unix`.
        owner: whose process the other end is, where that is on this machine and can be told.
    """

    def __init__(self, listener: Listener, connection: socket.socket, where: str, owner: int | None) -> None:
        self.socket = connection
        self.where = where
        self.owner = owner
        self._listener = listener
        self._lock = threading.Lock()
        self._is_stranger = True
        self._is_out = False

    def admit(self) -> None:
        """Let in a guest that has proved who it is.

        Raises:
            TurnedOut: too late.
        """
        with self._lock:
            self._is_stranger = False
            if self._is_out:
                raise TurnedOut(errno.ECONNABORTED, "it took too long, or there was no room for another stranger")
        self._listener.forget(self)

    def turn_out(self) -> None:
        """Have whoever serves it find the connection ended; nothing for one that was admitted. Any thread."""
        with self._lock:
            if self._is_stranger and not self._is_out:
                self._is_out = True
                with contextlib.suppress(OSError):
                    # Of a TLS socket too, without what its own method does to it while another thread uses it.
                    socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close a connection that nobody serves any more."""
        with self._lock:
            self._is_stranger = False
            self.socket.close()
        self._listener.forget(self)


class Listener:
    """Serves from `start` until `close`.

    Args:
        doors: sockets that listen; this closes them.
        meet: is given every connection, in a thread of its own, and closes it unless it `admit`s and keeps it.
        name: of its threads.
        in_threads: False: `meet` is called in the listener's own thread, and must not wait.
        owners_only: refuse the processes of other users of this machine, and who on it cannot be told.
    """

    def __init__(
        self,
        doors: Sequence[socket.socket],
        meet: Callable[[Guest], None],
        *,
        name: str,
        in_threads: bool = True,
        owners_only: bool = False,
    ) -> None:
        self._doors = {door.fileno(): door for door in doors}
        for door in doors:
            door.setblocking(False)
        self._meet = meet
        self._name = name
        self._in_threads = in_threads
        self._owners_only = owners_only
        self._admission: Admission[Guest] = Admission(Limits.of_process())
        self._lock = threading.Lock()
        self._said_at = -SAY_AGAIN_S
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        self._thread = guard.forever(self._run, name=f"{self._name}-accept")
        self._thread.start()

    def close(self) -> None:
        """Listen no more; connections that were taken stay, but for strangers."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        os.close(self._stop_write)
        if self._thread is None:
            self._end()
        elif self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def forget(self, guest: Guest) -> None:
        """Forget a guest that is no stranger any more."""
        with self._lock:
            self._admission.leave(guest)

    @property
    def strangers(self) -> int:
        """How many there are now."""
        return len(self._admission)

    # ------------------------------------------------------------------ its thread

    def _run(self) -> None:
        """Let guests in until it is told to stop; what is raised meanwhile leaves the doors open,
        and this is called again."""
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN | select.POLLHUP)
        for fd in self._doors:
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self._patience_ms()):
                if fd == self._stop_read:
                    self._end()
                    return
                self._take_all(self._doors[fd])
            self._turn_out_overdue()

    def _end(self) -> None:
        for door in self._doors.values():
            door.close()
        os.close(self._stop_read)
        with self._lock:
            left = self._admission.overdue(float("inf"))
        for guest in left:
            guest.turn_out()

    def _patience_ms(self) -> float | None:
        with self._lock:
            due = self._admission.due_at()
        return None if due is None else max(0.0, due - time.monotonic()) * 1000 + 1

    def _turn_out_overdue(self) -> None:
        with self._lock:
            overdue = self._admission.overdue(time.monotonic())
        for guest in overdue:
            guest.turn_out()

    def _take_all(self, door: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, peer = door.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _FULL:
                    self._make_room(error)
                    return
                continue  # that one is gone again
            self._take(connection, peer)

    def _make_room(self, error: OSError) -> bool:
        """Send the oldest stranger away when no descriptor is left for another connection;
        False where there is none."""
        with self._lock:
            guest = self._admission.oldest()
            if guest is not None:
                self._admission.leave(guest)
        if guest is not None:
            guest.turn_out()
        self._say("%s: a connection cannot be taken: %s", self._name, error.strerror)
        time.sleep(WAIT_S)
        return guest is not None

    def _take(self, connection: socket.socket, peer: Any) -> None:
        while True:
            try:
                owner = owner_of(connection)
                is_foreign = is_local(connection) and not is_mine(owner)
                break
            except OSError as error:
                # To ask whose it is takes a descriptor, too.
                if error.errno not in _FULL or not self._make_room(error):
                    connection.close()
                    return
        where, source = _names(connection, peer, owner)
        if self._owners_only and is_foreign:
            whose = "nobody can say whose it is" if owner is None else f"it is user {owner}'s"
            self._say("%s: a connection from %s is refused: %s", self._name, where, whose)
            connection.close()
            return
        guest = Guest(self, connection, where, owner)
        with self._lock:
            too_many = self._admission.enter(guest, source, time.monotonic(), is_mine=is_mine(owner))
        for other in too_many:
            other.turn_out()
        if not self._in_threads:
            self._meet(guest)
            return
        try:
            guard.once(self._serve, args=(guest,), name=self._name).start()
        except RuntimeError as error:  # no more threads
            self._say("%s: %s cannot be served: %s", self._name, where, error)
            guest.close()

    def _serve(self, guest: Guest) -> None:
        try:
            self._meet(guest)
        except TurnedOut:
            guest.close()
        except BaseException:
            guest.close()
            raise

    def _say(self, text: str, *values: object) -> None:
        """Write to the log, but not as often as a stranger likes."""
        if time.monotonic() - self._said_at >= SAY_AGAIN_S:
            self._said_at = time.monotonic()
            log.warning(text, *values)


def _names(connection: socket.socket, peer: Any, owner: int | None) -> tuple[str, str]:
    """Return where a connection comes from, and what counts as its source: a user of this machine, or a host."""
    if connection.family == socket.AF_UNIX:
        return "unix", f"user {owner}"
    host, port = str(peer[0]), peer[1]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return where, source_of(host) if owner is None else f"user {owner}"


def listen_unix(path: Path) -> socket.socket:
    """Listen at a socket that only this user can open, in the place of one that a dead process left.

    Raises:
        OSError.
    """
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        with short(path) as name:
            door.bind(name)
        path.chmod(0o600)
        door.listen(BACKLOG)
    except BaseException:
        door.close()
        raise
    return door


def listen_tcp(host: str, port: int) -> list[socket.socket]:
    """Listen at a host's addresses; port 0: any that is free, the same at all of them.

    Raises:
        OSError: an address is taken, or not of this machine; the text names it.
    """
    name = host.strip("[]")
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(name or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(errno.EADDRNOTAVAIL, f"{error.strerror}: {where}") from None
    made: list[socket.socket] = []
    problem: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        at = (address[0], made[0].getsockname()[1] if made and not port else address[1], *address[2:])
        try:
            made.append(socket.create_server(at, family=family, backlog=BACKLOG))
        except OSError as error:
            problem = problem or OSError(error.errno, f"{os.strerror(error.errno or 0)}: {where}")
    if not made or (port and problem is not None and problem.errno == errno.EADDRINUSE):
        for door in made:
            door.close()
        assert problem is not None
        raise problem
    return made
