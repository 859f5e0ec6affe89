"""TLS on a socket of which one thread may read while others write, each with a deadline."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import struct
import sys
import threading
import time
from typing import Any

from dtfctl.errors import Signal
from dtfctl.net import keepalive, reasons
from dtfctl.net.tls import common_name
from dtfctl.values import value

RECEIVE_BYTES = 256 * 1024

TCP_INFO_BYTES, TCP_RETRANSMITS, TCP_LAST_ACK = 60, 2, 56
"""Numbers of struct tcp_info in linux/tcp.h: bytes to read, and where tcpi_retransmits and tcpi_last_ack_recv lie."""


class Broken(Signal):
    """The connection cannot be used any more; the text says why."""


@value
class Echo:
    """How a connection's other end answers."""

    repeats: int
    """How often what was sent last has been sent again, with no answer yet."""
    silence_s: float
    """The seconds since the other end last took notice of anything that was sent."""


class TlsSocket:
    """One end of a connection. Whoever writes sees to it that only one thread does.

    Args:
        server_name: whom the other end has to be; None: this is the server's end.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_name: str | None = None) -> None:
        sock.setblocking(False)
        keepalive.prepare(sock)
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_name is None, server_hostname=server_name)
        self._lock = threading.Lock()
        """OpenSSL does not let one thread read while another writes."""

    def fileno(self) -> int:
        """Return its descriptor; -1 once it is closed."""
        return self._sock.fileno()

    def handshake(self, within_s: float) -> None:
        """Shake hands. Raises Broken: also where the certificates are not what they must be."""
        deadline = time.monotonic() + within_s
        while True:
            problem = ""
            try:
                self._tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            except ssl.SSLError as error:
                problem = reasons.problem(error)
            self._send(self._out.read(), deadline)  # a refusal is told
            if problem:
                raise Broken(problem)
            if done:
                return
            self._receive(deadline)

    def peer_name(self) -> str:
        """Read the common name in the other end's certificate."""
        return common_name(self._tls.getpeercert())

    # ------------------------------------------------------------------ its end

    def shut(self) -> None:
        """Tell whoever reads or writes that it is over; any thread, any number of times."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, when nobody reads or writes any more."""
        self._sock.close()

    def drop_unsent(self) -> None:
        """Have what was not delivered when it is closed dropped."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    # ------------------------------------------------------------------ how it stands

    def has_come(self) -> bool:
        """Tell whether bytes have come that nobody has received, be it the end."""
        return self._poll(select.POLLIN | select.POLLRDHUP, 0.0)

    def has_hung_up(self) -> bool:
        """Tell whether the other end has closed the connection; what it sent before may not have been read."""
        return self._poll(select.POLLRDHUP, 0.0)

    def has_space(self) -> bool:
        """Tell whether something can be written without waiting."""
        return self._poll(select.POLLOUT, 0.0)

    def echo(self) -> Echo:
        """Ask what the other end's kernel says to what is sent there; any thread."""
        try:
            if self._sock.family == socket.AF_UNIX:
                return Echo(0, 0.0)
            told = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return Echo(0, math.inf)  # closed
        return Echo(told[TCP_RETRANSMITS], int.from_bytes(told[TCP_LAST_ACK : TCP_LAST_ACK + 4], sys.byteorder) / 1000)

    # ------------------------------------------------------------------ bytes

    def write(self, data: bytes | memoryview, deadline: float | None) -> None:
        """Encrypt and send. Raises TimeoutError: at the deadline, when half of it may have been sent. Broken."""
        with self._lock:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                raise Broken(reasons.problem(error)) from None
            encrypted = self._out.read()
        self._send(encrypted, deadline)

    def read_into(self, place: memoryview, deadline: float | None) -> int:
        """Wait for something and decrypt it into `place`; how much. Raises TimeoutError at the deadline. Broken."""
        while True:
            with self._lock:
                try:
                    count: Any = self._tls.read(len(place), place)  # so it says how much
                    if not count:
                        raise Broken(f"it {reasons.CLOSED}")
                    return int(count)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    raise Broken(f"it {reasons.CLOSED}") from None
                except ssl.SSLError as error:
                    raise Broken(reasons.problem(error)) from None
            self._receive(deadline)

    def _send(self, data: bytes, deadline: float | None) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise Broken(reasons.problem(error)) from None

    def _receive(self, deadline: float | None) -> None:
        """Receive more encrypted bytes."""
        while True:
            try:
                data = self._sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except OSError as error:
                raise Broken(reasons.problem(error)) from None
            if not data:
                raise Broken(f"it {reasons.CLOSED}")
            with self._lock:
                self._in.write(data)
            return

    def _wait(self, events: int, deadline: float | None) -> None:
        if not self._poll(events, None if deadline is None else max(0.0, deadline - time.monotonic())):
            raise TimeoutError

    def _poll(self, events: int, within_s: float | None) -> bool:
        poller = select.poll()
        poller.register(self._sock, events)
        return bool(poller.poll(None if within_s is None else within_s * 1000))
