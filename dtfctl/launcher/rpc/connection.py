"""Frames of messages over TLS 1.3. One thread may read while others write.

A frame is its kind (one byte), the length of what follows (four bytes, the highest first), and that.

    CALL      the path of a method, and behind a space the caller's span, where operations are traced; then a MESSAGE
              with the request; in a talk MESSAGEs until END
    MESSAGE   a request or a reply
    END       no more of them
    ERROR     how the call failed, as JSON; instead of a reply or of END
    PING      the sender still lives; between any two others of a stream
"""

from __future__ import annotations

import mmap
import socket
import ssl
import struct
import threading
import time
from collections import deque

from dtfctl.net import reasons
from dtfctl.net.frames import FrameAssembler
from dtfctl.net.pings import HEART, SILENT_S, Pings
from dtfctl.net.tls_socket import Broken, Echo, TlsSocket

CALL, MESSAGE, END, ERROR, PING = range(1, 6)
HEAD = struct.Struct("!BI")
LARGEST = 64 * 2**20
LARGEST_PATH = 256
BUFFER_BYTES = 4096
PIECE_BYTES = 256 * 1024
LAZY_BYTES = 2**20
"""Beyond this, memory is taken as a message's bytes come: who announces one may never send it."""


class NoFrame(Broken):
    """The other end speaks something else."""


class MessageReader(FrameAssembler):
    """Turns the bytes of one direction back into frames.

    Attributes:
        frames: that have come, by kind and body, but for PINGs.
    """

    def __init__(self) -> None:
        super().__init__(HEAD.size, BUFFER_BYTES)
        self.frames: deque[tuple[int, bytes]] = deque()
        self._kind = 0

    def _frame(self, at: int, end: int) -> int:
        kind, size = HEAD.unpack_from(self._buffer, at)
        if not CALL <= kind <= PING or size > (LARGEST_PATH if kind == CALL else LARGEST):
            raise NoFrame("what comes is no frame")
        body = at + HEAD.size
        stop = body + size
        if stop <= end:
            self._take(kind, bytes(self._view[body:stop]))
            return int(stop) - at
        if HEAD.size + size <= BUFFER_BYTES:
            return 0
        self._kind = kind
        self._begin_long(bytearray(size) if size <= LAZY_BYTES else mmap.mmap(-1, size), self._view[body:end])
        return end - at

    def _finish_long(self) -> None:
        place, self._place = self._place, None
        self._take(self._kind, bytes(memoryview(place)))

    def _take(self, kind: int, body: bytes) -> None:
        if kind != PING:
            self.frames.append((kind, body))


class Connection:
    """One connection between two of the launcher's processes."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """`server_name`: whom the other end has to be; None: this is the server's end."""
        self._tls = TlsSocket(sock, context, server_name)
        self._reader = MessageReader()
        self._problem: Broken | None = None
        """Why this end gave it up: what came is no frame, or nothing came."""
        self._write_lock = threading.Lock()
        """Frames leave whole, and in the order in which they were encrypted."""
        self._pings = Pings()
        self._listens = self._speaks = True

    # ------------------------------------------------------------------ its begin and end

    def handshake(self, within_s: float) -> None:
        """Shake hands. Raises Broken: also where the certificates are not what they must be."""
        self._tls.handshake(within_s)

    def peer_name(self) -> str:
        """Read the common name in the other end's certificate."""
        return self._tls.peer_name()

    def shut(self) -> None:
        """Tell whoever reads or writes that it is over; any thread, any number of times."""
        self._tls.shut()

    def close(self) -> None:
        """Close the connection, by the thread that reads; nothing may be done with it afterwards."""
        HEART.remove(self)
        self.shut()
        with self._write_lock:
            self._tls.close()

    def abort(self) -> None:
        """Close the connection and drop what was not delivered yet: nobody waits for it any more."""
        self._tls.drop_unsent()
        self.close()

    def is_quiet(self) -> bool:
        """Tell whether nothing has come that nobody asked for, such as the end."""
        return self._reader.is_empty and not self._reader.frames and not self._tls.has_come()

    def has_hung_up(self) -> bool:
        """Tell whether the other end has closed the connection; what it sent before may not have been read."""
        return self._tls.has_hung_up()

    def echo(self) -> Echo:
        """Ask what the other end's kernel says to what is sent there; any thread."""
        return self._tls.echo()

    # ------------------------------------------------------------------ frames

    def read(self, within_s: float | None) -> tuple[int, bytes]:
        """Read the next frame that is not a PING; one thread at a time.

        Args:
            within_s: for all of it.

        Raises:
            TimeoutError: it has not come `within_s`. Broken: it never will.
        """
        deadline = None if within_s is None else time.monotonic() + within_s
        reader = self._reader
        while not reader.frames:
            if self._problem is not None:
                raise self._problem
            try:
                count = self._tls.read_into(reader.space(), deadline)
            except Broken as error:
                raise self._problem or error from None
            self._pings.silent_ticks = 0
            try:
                reader.filled(count)
            except NoFrame as error:
                self._problem = error
        return reader.frames.popleft()

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
                self._write(begun, deadline)
                begun = b""
                view = memoryview(body)
                for start in range(0, len(body), PIECE_BYTES):
                    self._write(view[start : start + PIECE_BYTES], deadline)
            if begun:
                self._write(begun, deadline)

    def _write(self, data: bytes | memoryview, deadline: float | None) -> None:
        try:
            self._tls.write(data, deadline)
        except Broken as error:
            raise self._problem or error from None
        self._pings.spoke_at = time.monotonic()

    # ------------------------------------------------------------------ whether the other end lives

    def watch(self, *, listens: bool = True, speaks: bool = True) -> None:
        """Have both ends see, from now until it is closed, whether the other one lives.

        Args:
            listens: somebody reads here, and the other end speaks.
            speaks: the other end reads.
        """
        self._listens, self._speaks = listens, speaks
        self._pings.silent_ticks = 0
        HEART.add(self)

    def tick(self, now: float) -> None:
        """Do what is done by the clock; never waits."""
        descriptor = self._tls.fileno()
        if descriptor < 0:
            return
        if self._listens and self._pings.tick(descriptor):
            self._problem = Broken(f"it {reasons.silent(SILENT_S)}")
            self.shut()
        elif self._speaks and self._pings.is_due(now) and self._write_lock.acquire(blocking=False):
            try:
                if self._tls.fileno() >= 0 and self._tls.has_space():
                    self._write(HEAD.pack(PING, 0), now)
            except (Broken, TimeoutError):
                return  # whoever reads or writes it will see
            finally:
                self._write_lock.release()
