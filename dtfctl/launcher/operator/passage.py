"""A port on this machine's loopback, for this user's processes alone, behind which a web page is somewhere else."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable

from dtfctl import guard
from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_HEAD = 64 * 1024
PIECE = 256 * 1024
_REFUSED = b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Passage:
    """The port, from `start` until `close`.

    Args:
        port: 0 takes a free one.
        lead: connects to where it leads. Raises OSError.
        name: of its threads.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int, lead: Callable[[], socket.socket], name: str) -> None:
        doors = listen_tcp("127.0.0.1", port)
        self.port: int = doors[0].getsockname()[1]
        self._lead = lead
        self._name = name
        self._listener = Listener(doors, self._meet, name=name, owners_only=True)

    def start(self) -> None:
        self._listener.start()

    def close(self) -> None:
        self._listener.close()

    def _meet(self, guest: Guest) -> None:
        try:
            guest.socket.settimeout(WITHIN_S)
            head = _head(guest.socket)
            if not _is_for_here(head):
                guest.socket.sendall(_REFUSED)
                return
            guest.admit()
            with self._lead() as inner:
                inner.settimeout(None)
                inner.sendall(head)
                guest.socket.settimeout(None)
                back = guard.once(_pump, (inner, guest.socket), name=f"{self._name}-back")
                back.start()
                _pump(guest.socket, inner)
                back.join()
        except OSError as error:
            log.debug("a browser is gone, or where it was led: %s", error)
        finally:
            guest.close()


def _head(connection: socket.socket) -> bytes:
    """Read until the end of the first request's head. Raises OSError: it is too long, or does not end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(PIECE)
        if not piece or len(data) > MOST_HEAD:
            raise ConnectionError("no request of a browser")
        data += piece
    return data


def _is_for_here(head: bytes) -> bool:
    """Tell whether a browser asks for this machine by its own name, not by one that a page has made lead here."""
    for line in head.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"host":
            return value.strip().decode(errors="replace").rpartition(":")[0] in LOOPBACK
    return False


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
