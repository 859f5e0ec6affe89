"""Measure what a socket carries to its other end, by the long transfers that pass anyhow."""

from __future__ import annotations

import socket
import struct
from collections import deque

# The newest transfers count, of the last minute, and of a long one each second for itself.
_NEWEST = 8
_OLDEST_S = 60.0
_LONGEST_S = 1.0
# What passes after the kernel's buffers are full for the first time is measured from here on; of less they hold a good
# part. From the other figure on the kernel's own estimate counts.
_LEAST_TIMED = 1 << 21
_LEAST = 1 << 17
# Buffers of the kernel for each direction; it cuts this to what it allows.
SOCKET_BUFFER = 1 << 22
# struct tcp_info of linux/tcp.h: how much of it, where tcpi_delivery_rate lies, and the byte with the bit that says
# that the sender had too little to send.
_INFO_BYTES, _RATE, _FLAGS = 168, 160, 7
_U64 = struct.Struct("=Q")


class Meter:
    """Bytes and time of long transfers over one socket. One thread at a time may call it; anybody may read `bytes_s`.

    A transfer is timed from the moment at which the kernel takes no more: its buffers are as full then as when the
    last byte of the transfer finds room, so what they took in between is what the network has carried. Of transfers
    that fit into the buffers the kernel says how fast they were acknowledged (tcp_info), unless it was kept waiting.
    That scatters tenfold with how busy the receiver is and with what a token bucket lets through at once, so it counts
    only until a transfer was timed.

    Attributes:
        bytes_s: what the newest transfers were carried at; 0 before the first.
        samples: how many there were.
        sent: bytes that were noted since the last transfer ended.
        timed_at: when the newest one ended that was timed, by the callers' clock; minus infinity before the first.
    """

    __slots__ = ("_began", "_newest", "_taken", "bytes_s", "samples", "sent", "timed_at")

    def __init__(self) -> None:
        self._newest: deque[tuple[int, float, float]] = deque(maxlen=_NEWEST)
        self.timed_at = float("-inf")
        self._began = 0.0
        self.sent = self._taken = 0
        self.bytes_s = 0.0
        self.samples = 0

    def wrote(self, count: int) -> None:
        """Note that the kernel took so many bytes."""
        self.sent += count
        self._taken += count

    def full(self, now: float) -> None:
        """Note that it takes no more for now. `now`: by a clock that only goes forward, in seconds."""
        if self._began:
            took = now - self._began
            if took < _LONGEST_S or self._taken < _LEAST_TIMED:
                return
            self._timed(self._taken, took, now)
        self._began, self._taken = now, 0

    def ended(self, now: float, sock: socket.socket | None) -> None:
        """Note that the kernel has all there was to send. `sock`: None where the kernel cannot be asked."""
        began, taken, sent = self._began, self._taken, self.sent
        self._began, self._taken, self.sent = 0.0, 0, 0
        if began and taken >= _LEAST_TIMED:
            self._timed(taken, now - began, now)
        elif sock is not None and sent >= _LEAST and not self._newest:
            rate = kernels_rate(sock)
            if rate:
                self.bytes_s = rate
                self.samples += 1

    def _timed(self, count: int, seconds: float, now: float) -> None:
        if seconds <= 0:
            return
        self._newest.append((count, seconds, now))
        while now - self._newest[0][2] > _OLDEST_S:
            self._newest.popleft()
        self.bytes_s = sum(c for c, _, _ in self._newest) / sum(s for _, s, _ in self._newest)
        self.samples += 1
        self.timed_at = now


def kernels_rate(sock: socket.socket) -> float:
    """Read at how many bytes a second what was sent last was acknowledged; 0 where the kernel does not know."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return 0.0
    if len(info) < _INFO_BYTES or info[_FLAGS] & 1:
        return 0.0
    return float(_U64.unpack_from(info, _RATE)[0])
