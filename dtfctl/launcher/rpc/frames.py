"""Frames over TLS 1.3 on a socket. One thread may read while others write.

A frame is its kind (one byte), the length of what follows (four bytes, the highest first), and that.

    CALL      the path of a method, then a MESSAGE with the request; in a talk MESSAGEs until END
    MESSAGE   a request or a reply
    END       no more of them
    ERROR     how the call failed, as JSON; instead of a reply or of END
    PING      the sender still lives; between any two others of a stream
"""

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
import weakref

from dtfctl import guard
from dtfctl.errors import Signal
from dtfctl.net import keepalive
from dtfctl.net.tls import common_name
from dtfctl.values import value

CALL, MESSAGE, END, ERROR, PING = range(1, 6)
HEAD = struct.Struct("!BI")
LARGEST = 64 * 2**20
LARGEST_PATH = 256
PING_S = 5.0
SILENT_S = 15.0
"""A stream on which not even pings come is broken: its other end is frozen, or cut off."""
RECEIVE_BYTES = 256 * 1024
PIECE_BYTES = 256 * 1024

TCP_INFO_BYTES, TCP_RETRANSMITS, TCP_LAST_ACK = 60, 2, 56
"""Numbers of struct tcp_info in linux/tcp.h: bytes to read, and where tcpi_retransmits and tcpi_last_ack_recv lie."""


class Broken(Signal):
    """The connection cannot be used any more; the text says why."""


class NoFrame(Broken):
    """The other end speaks something else."""


@value
class Echo:
    """How a connection's other end answers."""

    repeats: int
    """How often what was sent last has been sent again, with no answer yet."""
    silence_s: float
    """The seconds since the other end last took notice of anything that was sent."""


class Wire:
    """One connection."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """`server_name`: whom the other end has to be; None: this is the server's end."""
        sock.setblocking(False)
        keepalive.prepare(sock)
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_name is None, server_hostname=server_name)
        self._tls_lock = threading.Lock()
        """OpenSSL does not let one thread read while another writes."""
        self._write_lock = threading.Lock()
        """Frames leave whole, and in the order in which they were encrypted."""
        self._plain = bytearray()
        self._wrote_at = 0.0

    # ------------------------------------------------------------------ its begin and end

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
            except (ssl.SSLError, ssl.CertificateError) as error:
                problem = f"TLS: {_reason(error)}"
            self._send_raw(self._out.read(), deadline)  # a refusal is told
            if problem:
                raise Broken(problem)
            if done:
                return
            self._receive(deadline)

    def peer_name(self) -> str:
        """Read the common name in the other end's certificate."""
        return common_name(self._tls.getpeercert())

    def shut(self) -> None:
        """Tell whoever reads or writes that it is over; any thread, any number of times."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, by the thread that reads; nothing may be done with it afterwards."""
        self.shut()
        with self._write_lock:
            self._sock.close()

    def abort(self) -> None:
        """Close the connection and drop what was not delivered yet: nobody waits for it any more."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def is_quiet(self) -> bool:
        """Tell whether nothing has come that nobody asked for, such as the end."""
        return not self._plain and not self._poll(select.POLLIN | select.POLLRDHUP, 0.0)

    def has_hung_up(self) -> bool:
        """Tell whether the other end has closed the connection; what it sent before may not have been read."""
        return bool(self._poll(select.POLLRDHUP, 0.0))

    def echo(self) -> Echo:
        """Ask what the other end's kernel says to what is sent there; any thread."""
        try:
            if self._sock.family == socket.AF_UNIX:
                return Echo(0, 0.0)
            told = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return Echo(0, math.inf)  # closed
        return Echo(told[TCP_RETRANSMITS], int.from_bytes(told[TCP_LAST_ACK : TCP_LAST_ACK + 4], sys.byteorder) / 1000)

    # ------------------------------------------------------------------ frames

    def read(self, within_s: float | None, *, silence_s: float | None = None) -> tuple[int, bytes]:
        """Read the next frame that is not a PING; one thread at a time.

        Args:
            within_s: for all of it.
            silence_s: between any two bytes of it, or PINGs.

        Raises:
            TimeoutError: it has not come `within_s`. Broken: it never will.
        """
        deadline = None if within_s is None else time.monotonic() + within_s
        while True:
            self._need(HEAD.size, deadline, silence_s)
            kind, size = HEAD.unpack_from(self._plain)
            if not CALL <= kind <= PING or size > (LARGEST_PATH if kind == CALL else LARGEST):
                raise NoFrame("what comes is no frame")
            self._need(HEAD.size + size, deadline, silence_s)
            body = bytes(memoryview(self._plain)[HEAD.size : HEAD.size + size])
            del self._plain[: HEAD.size + size]
            if kind != PING:
                return kind, body

    def send(self, *frames: tuple[int, bytes], within_s: float | None = None) -> None:
        """Send frames, together where they are small.

        Raises:
            TimeoutError: they could not be sent `within_s`; half of one may have been. Broken.
        """
        deadline = None if within_s is None else time.monotonic() + within_s
        with self._write_lock:
            begun = b""
            for kind, body in frames:
                if len(body) > LARGEST:
                    raise ValueError(f"a message of {len(body)} bytes; at most {LARGEST} can be sent")
                begun += HEAD.pack(kind, len(body))
                if len(begun) + len(body) <= PIECE_BYTES:
                    begun += body
                    continue
                self._encrypt_and_send(begun, deadline)
                begun = b""
                view = memoryview(body)
                for start in range(0, len(body), PIECE_BYTES):
                    self._encrypt_and_send(view[start : start + PIECE_BYTES], deadline)
            if begun:
                self._encrypt_and_send(begun, deadline)

    def ping(self, now: float) -> None:
        """Say that this end lives, unless something else says so now; never waits."""
        if now - self._wrote_at < PING_S / 2 or not self._write_lock.acquire(blocking=False):
            return
        try:
            if self._sock.fileno() >= 0 and self._poll(select.POLLOUT, 0.0):
                self._encrypt_and_send(HEAD.pack(PING, 0), now)
        except (Broken, TimeoutError):
            return  # whoever reads or writes it will see
        finally:
            self._write_lock.release()

    # ------------------------------------------------------------------ bytes

    def _encrypt_and_send(self, data: bytes | memoryview, deadline: float | None) -> None:
        with self._tls_lock:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                raise Broken(f"TLS: {_reason(error)}") from None
            encrypted = self._out.read()
        self._send_raw(encrypted, deadline)
        self._wrote_at = time.monotonic()

    def _send_raw(self, data: bytes, deadline: float | None) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline, None)
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None

    def _need(self, size: int, deadline: float | None, silence_s: float | None) -> None:
        while len(self._plain) < size:
            with self._tls_lock:
                try:
                    data = self._tls.read(RECEIVE_BYTES)
                    if not data:
                        raise Broken("it closed the connection")
                    self._plain += data
                    continue
                except ssl.SSLWantReadError:
                    data = b""
                except ssl.SSLZeroReturnError:
                    raise Broken("it closed the connection") from None
                except ssl.SSLError as error:
                    raise Broken(f"TLS: {_reason(error)}") from None
            self._receive(deadline, silence_s)

    def _receive(self, deadline: float | None, silence_s: float | None = None) -> None:
        """Receive more encrypted bytes."""
        while True:
            try:
                data = self._sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline, silence_s)
                continue
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None
            if not data:
                raise Broken("it closed the connection")
            with self._tls_lock:
                self._in.write(data)
            return

    def _wait(self, events: int, deadline: float | None, silence_s: float | None) -> None:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if silence_s is not None and (left is None or silence_s < left):
            if not self._poll(events, silence_s):
                raise Broken(f"nothing has come for {silence_s:g} s")
        elif not self._poll(events, left):
            raise TimeoutError

    def _poll(self, events: int, within_s: float | None) -> list[tuple[int, int]]:
        poller = select.poll()
        poller.register(self._sock, events)
        return poller.poll(None if within_s is None else within_s * 1000)


def _reason(error: ssl.SSLError | ssl.CertificateError) -> str:
    return str(getattr(error, "verify_message", "") or error.reason or error)


class _Heart:
    """One thread, while there are streams: it says on each of them that this end lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wires: weakref.WeakSet[Wire] = weakref.WeakSet()
        self._beats = False

    def add(self, wire: Wire) -> None:
        with self._lock:
            self._wires.add(wire)
            if not self._beats:
                self._beats = True
                guard.forever(self._run, name="rpc-heart").start()

    def remove(self, wire: Wire) -> None:
        with self._lock:
            self._wires.discard(wire)

    def _run(self) -> None:
        while True:
            time.sleep(PING_S)
            with self._lock:
                wires = list(self._wires)
                if not wires:
                    self._beats = False
                    return
            now = time.monotonic()
            for wire in wires:
                wire.ping(now)


heart = _Heart()
