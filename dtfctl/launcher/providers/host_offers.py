"""On a host: layers that it has got are handed on to other hosts, which saves the operator's line.

Who holds a token may take one archive with it, once. Tokens and checksums come over SSH and never cross the wire: the
two ends prove to each other that they know one (HMAC over both sides' nonces), nobody else is answered, and what comes
is checked against its checksum when it is unpacked. What goes over the wire is not secret: public packages, and dtfctl.

As `host_side.py` it is read by any Python >= 3.11, so it imports nothing of dtfctl but its own parts.
"""

from __future__ import annotations

import contextlib
import os
import select
import time

from dtfctl.launcher.providers.host_base import private, say
from dtfctl.launcher.providers.host_layers import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Callable, Iterator
    from typing import Any

NONCE = 32
CONNECT_S = 3.0
STALL_S = 10.0
OFFERED_S = 600.0
GUESTS = 16
"""Connections that have shown no token yet; a quarter of them from one address. The oldest makes room for another."""
WITHIN_S = 5.0
"""The seconds that a connection has to show a token."""
BLOCK = 1 << 18
TELL_BYTES = 8 << 20


def offer(files: dict[str, str], tokens: list[str], address: str, **_: Any) -> dict[str, Any]:
    """Let who knows one of `tokens` have one of `files` (name to path), each once, until this process ends."""
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((address, 0))
        listener.listen(GUESTS)
    except OSError as error:
        listener.close()
        return {"refused": f"no port can be opened at {address}: {error.strerror}"}
    port = listener.getsockname()[1]
    over, alive = os.pipe()
    child = os.fork()
    if child == 0:
        # Not a thread: this process is still to be forked itself, into an agent.
        try:
            os.close(alive)
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(nothing, fd)
            hand_out(listener, files, [bytes.fromhex(token) for token in tokens], over)
        finally:
            os._exit(0)
    os.close(over)
    listener.close()
    _ARCHIVES.update(files.values())
    _KEPT.append(alive)  # closed with this process: that is how the child knows
    return {"port": port}


_KEPT: list[int] = []
_ARCHIVES: set[str] = set()


class Guest:
    """Somebody who is connected."""

    def __init__(self, connection: sockets.socket, source: str) -> None:
        import threading

        self.connection = connection
        self.source = source
        self.until = time.monotonic() + WITHIN_S
        self.is_known = False
        """He has shown a token, and stays until he has what it is for."""
        self.is_out = False
        self._lock = threading.Lock()

    def show_in(self) -> None:
        with self._lock:
            self.is_known = True

    def turn_out(self) -> None:
        import socket

        with self._lock, contextlib.suppress(OSError):
            if not self.is_known:
                self.is_out = True
                self.connection.shutdown(socket.SHUT_RDWR)


def hand_out(listener: sockets.socket, files: dict[str, str], tokens: list[bytes], over: int) -> None:
    """Serve until every token was used, `over` is closed, or it has taken too long."""
    import threading

    left, lock = list(tokens), threading.Lock()
    guests: dict[threading.Thread, Guest] = {}
    end = time.monotonic() + OFFERED_S
    while (left or guests) and time.monotonic() < end:
        ready = select.select([listener.fileno(), over], [], [], 1.0)[0]
        if over in ready:
            return
        guests = {thread: guest for thread, guest in guests.items() if thread.is_alive()}
        waiting = [guest for guest in guests.values() if not (guest.is_known or guest.is_out)]
        for guest in waiting:
            if time.monotonic() > guest.until:
                guest.turn_out()
        if listener.fileno() not in ready:
            continue
        try:
            connection, peer = listener.accept()
        except OSError:  # it is gone again, or there is no descriptor for it
            continue
        beside = [guest for guest in waiting if guest.source == peer[0]]
        crowd = beside if len(beside) >= GUESTS // 4 else waiting if len(waiting) >= GUESTS else []
        for guest in crowd[:1]:
            guest.turn_out()
        guest = Guest(connection, peer[0])
        thread = threading.Thread(target=hand_over, args=(guest, files, left, lock), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            connection.close()
            continue
        guests[thread] = guest


def hand_over(guest: Guest, files: dict[str, str], tokens: list[bytes], lock: Any) -> None:
    """Serve one guest: `name, nonce, proof` with a token that is still good gets `proof` and the file."""
    import hmac

    connection = guest.connection
    with connection:
        try:
            connection.settimeout(STALL_S)
            nonce = os.urandom(NONCE)
            connection.sendall(nonce)
            name = exactly(connection, 24).decode("ascii", "replace")
            theirs, proof = exactly(connection, NONCE), exactly(connection, NONCE)
            with lock:
                told = name.encode()
                found = [
                    token
                    for token in tokens
                    if hmac.compare_digest(proof, hmac.digest(token, b"take" + told + nonce + theirs, "sha256"))
                ]
                if not found or name not in files:
                    return
                tokens.remove(found[0])
                guest.show_in()
            connection.sendall(hmac.digest(found[0], b"give" + told + nonce + theirs, "sha256"))
            with open(files[name], "rb") as file:
                connection.sendfile(file)
        except OSError:
            return  # it says at the other end what went wrong


class Lost(Exception):
    """The other host does not hand on what it was asked for: why."""


def take_layer(
    name: str, size: int, address: str, port: int, token: str, sha256: str, keep: bool, **_: Any
) -> dict[str, Any]:
    """Get an archive from another host: where it lies then, or with `keep` off nothing, as it was unpacked on its way.

    Says why where it was not got.
    """
    target = os.path.join(private("tmp"), f"{name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with taken(name, size, address, port, token) as read:
            if not keep:
                place(name, read, sha256)
                return {}
            with open(target, "xb") as file:
                while data := read():
                    file.write(data)
    except Lost as lost:
        remove(target)
        return {"refused": str(lost)}
    except OSError:  # this host's own disk
        remove(target)
        raise
    return {"archive": target}


@contextlib.contextmanager
def taken(name: str, size: int, address: str, port: int, token: str) -> Iterator[Callable[[], bytes]]:
    """Connect to a host that offers an archive, and read it block by block; raises `Lost` where it does not come."""
    import hmac
    import socket

    key, told, got, spoken = bytes.fromhex(token), name.encode(), 0, 0
    try:
        connection = socket.create_connection((address, port), CONNECT_S)
    except OSError as error:
        raise Lost(error.strerror or str(error) or type(error).__name__) from None

    def read() -> bytes:
        nonlocal got, spoken
        if got == size:
            return b""
        try:
            data = connection.recv(min(BLOCK, size - got))
        except OSError as error:
            raise Lost(error.strerror or str(error) or type(error).__name__) from None
        if not data:
            raise Lost("it ended in its middle")
        got += len(data)
        if got - spoken >= TELL_BYTES:
            spoken = got
            say(stage="installing", detail=f"{100 * got // size}%")
        return data

    with connection:
        try:
            connection.settimeout(STALL_S)
            theirs, nonce = exactly(connection, NONCE), os.urandom(NONCE)
            connection.sendall(told + nonce + hmac.digest(key, b"take" + told + theirs + nonce, "sha256"))
            proof = exactly(connection, NONCE)
        except OSError as error:
            raise Lost(error.strerror or str(error) or type(error).__name__) from None
        if not hmac.compare_digest(proof, hmac.digest(key, b"give" + told + theirs + nonce, "sha256")):
            raise Lost("somebody else answers there")
        yield read


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def exactly(connection: sockets.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("it was refused")
        data += more
    return data


def let_go() -> None:
    """Close what is kept open, in a fork that goes on by itself: this conversation's end must not wait for it."""
    while _KEPT:
        os.close(_KEPT.pop())


def forget() -> None:
    """Remove what was kept to be handed on: this conversation is over."""
    for path in _ARCHIVES:
        with contextlib.suppress(OSError):
            os.unlink(path)


REQUESTS: dict[str, Callable[..., dict[str, Any] | None]] = {"offer": offer, "take_layer": take_layer}
