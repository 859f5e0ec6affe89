"""A stream of bytes through UCX between two tasks, with as much of a socket's interface as links use.

Every call into UCX is made with one lock held. Bytes are copied on either side, so that who sends may use its memory
again as after `socket.send`. The socket over which both ends have met stays open: it says when the other is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
from collections import deque
from typing import Any

from dtfctl.net import ucx
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnavailableError

# In one message of UCX, and of those that are not on their way yet.
LONGEST = 1 << 19
MOST_UNSENT = 1 << 20
LONGEST_ADDRESS = 1 << 16
_SIZE = struct.Struct("<I")
# How often UCX may say that something else came in before it is asked again a moment later.
_ROUNDS = 64
_WAKE = bytes((1, 0, 0, 0, 0, 0, 0, 0))


class UcxStream:
    """A connection that is non-blocking from its first byte; `meet` before anything else.

    Its descriptor can be read when bytes have come, there is space again for what is sent, or the other end is gone.

    Args:
        sock: connected to the other end; taken over.

    Raises:
        NoUcx: UCX cannot be used here.
        UnavailableError: it makes no worker, as where little memory may be locked.
    """

    def __init__(self, sock: socket.socket) -> None:
        from ucxx._lib.arr import Array

        self.family = sock.family
        self._array = Array
        self._socket = sock
        self._lock = threading.RLock()
        self._ucx = ucx.binding()
        try:
            self._worker: Any = self._ucx.UCXWorker(ucx.context())
            self._worker.init_blocking_progress_mode()
        except self._ucx.UCXError as e:
            raise UnavailableError(f"UCX makes no worker: {e or type(e).__name__}") from None
        self._end: Any = None
        # Requests that UCX has not finished, each with its memory.
        self._sends: deque[tuple[Any, bytearray]] = deque()
        self._unsent = 0
        self._receive: tuple[Any, bytearray] | None = None
        self._is_size = True
        self._came: deque[memoryview] = deque()
        self._is_full = False
        self._is_armed = False
        self._error: UnavailableError | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        for fd in (self._worker.epoll_file_descriptor, sock.fileno(), self._wake):
            self._poll.register(fd, select.EPOLLIN)

    @property
    def address(self) -> bytes:
        """Where the other end's `meet` finds this one."""
        return bytes(self._worker.address.tobytes())

    def meet(self, address: bytes) -> None:
        """Connect to the other end, whose address came by an authenticated way.

        Raises:
            UnavailableError: UCX has no way there.
        """
        try:
            there = self._ucx.UCXAddress.create_from_buffer(address)
            with self._lock:
                self._end = self._ucx.UCXEndpoint.create_from_worker_address(self._worker, there, True)
                self._expect(_SIZE.size)
                self._advance()
        except self._ucx.UCXError as e:
            raise UnavailableError(f"UCX has no way to the peer: {e or type(e).__name__}") from None

    # As of a socket ---------------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._poll.fileno()

    def setblocking(self, blocking: bool) -> None:
        if blocking:
            raise ValueError("a stream of UCX never waits")
        self._socket.setblocking(False)

    def setsockopt(self, *args: Any) -> None:
        """Ignore an option: they are of TCP, which does not carry this."""

    def getsockopt(self, *args: Any) -> bytes:
        raise OSError("not a socket")

    def send(self, data: bytes | memoryview) -> int:
        """Send a part of it, and say how much.

        Raises:
            BlockingIOError: enough is on its way. OSError: the connection has failed.
        """
        with self._lock:
            self._check()
            view, sent = memoryview(data), 0
            try:
                self._reap()
                while sent < len(view) and self._unsent < MOST_UNSENT:
                    part = view[sent : sent + LONGEST]
                    message = bytearray(_SIZE.pack(len(part)))
                    message += part
                    self._sends.append((self._end.stream_send(self._array(message)), message))
                    self._unsent += len(message)
                    sent += len(part)
            except self._ucx.UCXError as e:
                self._failed(e)
                self._check()
            self._is_full = sent < len(view)
            if self._advance():
                os.eventfd_write(self._wake, 1)
            self._check()
            if not sent:
                raise BlockingIOError
            return sent

    def recv_into(self, space: memoryview) -> int:
        """Read what has come, as much as there is space for; 0 when the other end is gone.

        Raises:
            BlockingIOError: nothing has come. OSError: the connection has failed.
        """
        with self._lock:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            filled = 0
            while filled < len(space):
                if not self._came and not self._advance():
                    break
                part = self._came.popleft()
                size = min(len(part), len(space) - filled)
                space[filled : filled + size] = part[:size]
                filled += size
                if size < len(part):
                    self._came.appendleft(part[size:])
            if filled:
                if self._came or not self._is_armed:
                    os.eventfd_write(self._wake, 1)
                return filled
            self._check()
            if self._is_gone():
                return 0
            raise BlockingIOError

    def has_space(self) -> bool:
        """Tell whether something that did not pass would now."""
        return self._is_full and self._unsent < MOST_UNSENT

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        with self._lock:
            if self._worker is None:
                return
            end, self._end = self._end, None
            if end is not None:
                with contextlib.suppress(self._ucx.UCXError):
                    end.close()
            with contextlib.suppress(self._ucx.UCXError):
                self._worker.cancel_inflight_requests()
                self._worker.progress()
            self._sends.clear()
            self._receive = self._worker = None
            self._error = self._error or UnavailableError("closed")
        self._poll.close()
        os.close(self._wake)
        self._socket.close()

    # UCX, with the lock held ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._error is not None:
            raise OSError(self._error.message)

    def _failed(self, error: Exception) -> None:
        self._error = UnavailableError(f"UCX says: {error or type(error).__name__}")

    def _is_gone(self) -> bool:
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def _advance(self) -> bool:
        """Have UCX work until a message has come or nothing is to be done; whether one has come.

        Then, or when UCX would go on and on, it is not armed: its descriptor says nothing until it is.
        """
        worker = self._worker
        if worker is None:
            return False
        try:
            for _ in range(_ROUNDS):
                while worker.progress_once():
                    self._is_armed = False
                self._reap()
                if not self._came and self._take():
                    self._is_armed = False
                    return True
                if worker.arm():
                    self._is_armed = True
                    break
            else:
                os.eventfd_write(self._wake, 1)
        except self._ucx.UCXError as e:
            self._failed(e)
        if self.has_space() or self._error is not None:
            os.eventfd_write(self._wake, 1)
        return False

    def _reap(self) -> None:
        """Let go of what was sent."""
        sends = self._sends
        while sends and sends[0][0].completed:
            request, message = sends.popleft()
            self._unsent -= len(message)
            request.check_error()

    def _expect(self, size: int) -> None:
        place = bytearray(size)
        self._receive = self._end.stream_recv(self._array(place)), place

    def _take(self) -> bool:
        """Take what UCX has read; whether it was a whole message."""
        while self._receive is not None and self._receive[0].completed:
            request, place = self._receive
            self._receive = None
            request.check_error()
            if self._is_size:
                (size,) = _SIZE.unpack(place)
                if not 0 < size <= LONGEST:
                    raise InvalidArgumentError(f"Not a tensor stream of this version: a message of {size} bytes")
                self._is_size = False
                self._expect(size)
                continue
            self._is_size = True
            self._came.append(memoryview(place))
            self._expect(_SIZE.size)
            return True
        return False


__all__ = ["LONGEST", "LONGEST_ADDRESS", "UcxStream"]
