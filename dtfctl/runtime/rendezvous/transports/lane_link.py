"""Frames of two lanes over a TCP socket: the part that does not depend on how the bytes of both pass through it.

One thread at a time, the pump, takes what is next and writes it: whoever sends, for as long as the socket takes it at
once, then a thread of `pumps`. It holds no lock meanwhile, so others queue theirs and go on.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import TypeAlias

from dtfctl.runtime.framework.errors import InternalError, OpError, UnavailableError, error_from_code
from dtfctl.runtime.rendezvous.frames import FrameWriter, Message
from dtfctl.runtime.rendezvous.pumps import PUMPS
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, SHORT, LaneReaders, Lanes
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink

# How much the kernel may hold beyond what is on its way. Without a limit it is up to 4 MB, which take 0.3 s at
# 100 Mbit/s; with less than a piece threads wake each other several times for each.
UNSENT = CHUNK
# What a sending thread writes itself before it leaves the rest to the pumps.
INLINE = 1 << 20
# So many short frames are written with the link's lock held, like those of links between tasks of a host.
_AT_ONCE = 64
Piece: TypeAlias = tuple[int, list[bytes | memoryview]]
"""A lane, and what passes in it together, in parts."""


class _State(Enum):
    IDLE = 0
    PUMPING = 1
    # The socket is full: the reactor says when it is not.
    FULL = 2


# Looking a member up in its enumeration takes as long as much else here.
_IDLE, _PUMPING, _FULL = _State.IDLE, _State.PUMPING, _State.FULL


class LaneLink(SocketLink):
    """A Link over a socket; see SocketLink.

    A subclass makes bytes of pieces (`_load`, `_taken`), and pieces of bytes (`_read`).
    """

    computes = True
    """Whether making what passes takes long enough to be left to the pumps; else the reactor writes what it can."""

    def __init__(
        self, sock: socket.socket, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner, name: int = 0
    ) -> None:
        super().__init__(sock, peer_task, local_life, peer_life, owner, name=name)
        if sock.family != socket.AF_UNIX:
            # A short frame overtakes nothing that the kernel has.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        self._lanes = Lanes(self._writer, partial(FrameWriter, local_life, peer_life))
        self._readers = LaneReaders(self._reader, peer_life, local_life, self._received)
        self._state = _IDLE
        self._unsent: list[memoryview] = []
        self._is_reading = False

    # What passes ------------------------------------------------------------------------------------------------------

    def _load(self, pieces: list[Piece]) -> int:
        """Make what passes of pieces, in order, and leave it in `_unsent`; without the lock. How long that is.

        Raises:
            OpError: the link must end.
        """
        raise NotImplementedError

    def _most(self) -> int:
        """Say about how many bytes of long tensors pass at once: short frames wait for them."""
        return CHUNK

    def _unload(self) -> None:
        """Let go of what was needed while there was something to send; with the lock held."""

    # Sending ----------------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        refused: OpError | None = None
        lanes = self._lanes
        with self._lock:
            if self._error is not None:
                raise error_from_code(self._error.error_code, self._error.message)
            for message in messages:
                try:
                    lanes.put(message)
                except OpError as e:
                    refused = refused or e
            is_mine = self._state is _IDLE
            broken = None
            if is_mine:
                if lanes.has_long or len(lanes.short) > _AT_ONCE:
                    self._state = _PUMPING
                else:
                    is_mine = False
                    broken = self._write_short()
        if is_mine:
            broken = self._pump(INLINE)
        elif broken is not None:
            self.fail(broken)
        if broken is not None:
            raise broken
        if refused is not None:
            raise refused

    def _write_short(self) -> OpError | None:
        """Write a few short frames; with the lock held. Why the link has failed, or None."""
        lanes = self._lanes
        try:
            while lanes.short:
                self._load([(SHORT, lanes.next_short())])
                if not self._write_out():
                    self._state = _FULL
                    REACTOR.watch_for_space(self, True)
                    return None
        except OSError as e:
            return self._broken(e)
        except OpError as e:
            return e
        return None

    def _pump(self, budget: int) -> OpError | None:
        """Write until nothing is left or the socket is full; the state is PUMPING, and this thread's.

        Args:
            budget: bytes after which a thread of the pumps goes on.

        Returns: why the link has failed.
        """
        try:
            return self._pump_on(budget)
        except OSError as e:
            return self._stop(self._broken(e))
        except OpError as e:
            return self._stop(e)
        except Exception as e:
            return self._stop(InternalError(f"Sending to {self.peer_task} failed: {type(e).__name__}: {e}"))
        except BaseException:
            self._stop(UnavailableError(f"The connection to {self.peer_task} was interrupted"))
            raise

    def _pump_on(self, budget: int) -> OpError | None:
        error: OpError | None = None
        while self._write_out():
            with self._lock:
                error = self._error
                if error is not None:
                    break
                if budget <= 0 and self._lanes.has_long:
                    PUMPS.submit(self._pump_in_thread)
                    return None
                pieces = self._next_pieces()
                if not pieces:
                    self._state = _IDLE
                    if self.meter is not None:
                        self.meter.ended(time.monotonic(), self._sock)
                    self._unload()
                    return None
            budget -= self._load(pieces)
            # Who asks later whether a tensor is still held must not find it here.
            pieces.clear()
        with self._lock:
            error = self._error
            if error is None:
                self._state = _FULL
                REACTOR.watch_for_space(self, True)
                return None
        # Its owner is told; that what was written got nowhere is no more of an error here than a moment later.
        self._stop(error)
        return None

    def _pump_in_thread(self) -> None:
        self._pump(1 << 62)

    def _write_out(self) -> bool:
        """Write what was made of pieces; False when the socket does not take all of it."""
        unsent = self._unsent
        if not unsent:
            return True
        self._pings.spoke_at = time.monotonic()
        if len(unsent) > 1:
            self._write_views(unsent)
            return not unsent
        data = unsent[0]
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        is_all = sent == len(data)
        self._note_sent(sent, is_all)
        if is_all:
            unsent.clear()
        else:
            unsent[0] = data[sent:]
        return is_all

    def _next_pieces(self) -> list[Piece]:
        """Take what goes next; with the lock held."""
        lanes = self._lanes
        pieces: list[Piece] = []
        size, most = 0, self._most()
        if lanes.short:
            parts = lanes.next_short()
            size = sum(map(len, parts))
            pieces.append((SHORT, parts))
        if lanes.has_long and size < most:
            pieces.append(lanes.next_long(most, size))
        return pieces

    def writable(self) -> None:
        with self._lock:
            if self._state is not _FULL or self._error is not None:
                return
            self._state = _PUMPING
            REACTOR.watch_for_space(self, False)
            is_long = self._lanes.has_long
        if is_long and self.computes:
            PUMPS.submit(self._pump_in_thread)
        else:
            self._pump(INLINE)

    # Receiving --------------------------------------------------------------------------------------------------------

    def readable(self) -> None:
        # In this order: who ends the link sets the error first and looks then, and leaves closing to the second of us.
        self._is_reading = True
        try:
            if self._error is None:
                super().readable()
        finally:
            self._is_reading = False
            if self._error is not None:
                with self._lock:
                    self._close_socket()

    # Ending -----------------------------------------------------------------------------------------------------------

    def _stop(self, error: OpError) -> OpError:
        """Give up: the pump has failed."""
        with self._lock:
            self._state = _IDLE
            if self._error is not None:
                self._close_socket()
        self.fail(error)
        return error

    def _close_socket(self) -> None:
        # Its descriptor's number may be another's as soon as it is closed, so nobody may be reading or writing.
        self._lanes.clear()
        if self._state is not _PUMPING and not self._is_reading:
            self._unsent = []
            with contextlib.suppress(OSError):
                self._sock.close()
