"""Frames of two lanes over a bidirectional gRPC stream: for where nothing but the task's port is open.

Each message has bytes of one lane, behind its number. What is queued while one is being written goes out together in
the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import grpc

from dtfctl import guard
from dtfctl.net.reasons import CLOSED
from dtfctl.runtime.framework.errors import (
    InternalError,
    OpError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Message
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, SHORT, LaneReaders, Lanes
from dtfctl.runtime.rendezvous.transports.meter import SOCKET_BUFFER, Meter

METHOD = "/dtf.WorkerService/Stream"
FROM_TASK, FROM_LIFE, TO_LIFE = "dtf-task", "dtf-incarnation", "dtf-to-incarnation"
# Of one message: a short frame may be as long as a report of a step.
_MOST = CHUNK << 1


class Outbox:
    """Frames on their way out: threads put them in, one generator takes chunks out.

    Args:
        lanes: where they wait.
        meter: of what is yielded. gRPC asks for the next chunk once the one before is on its way.
    """

    def __init__(self, lanes: Lanes, meter: Meter) -> None:
        self._lanes = lanes
        self._meter = meter
        self._news = threading.Condition()
        self._is_ended = False

    def put(self, messages: Sequence[Message]) -> None:
        """Queue frames.

        Raises:
            InvalidArgumentError: one of them cannot be sent; all others were queued.
        """
        refused: OpError | None = None
        with self._news:
            for message in messages:
                try:
                    self._lanes.put(message)
                except OpError as e:
                    refused = refused or e
            self._news.notify()
        if refused is not None:
            raise refused

    def end(self) -> None:
        """Let `chunks` stop; what has not gone does not go any more."""
        with self._news:
            self._is_ended = True
            self._lanes.clear()
            self._news.notify()

    def chunks(self) -> Iterator[bytes]:
        """Yield what was put in, bytes of one lane at a time, with the lane's number before them."""
        lanes, meter = self._lanes, self._meter
        while True:
            with self._news:
                while not (lanes.short or lanes.has_long):
                    if self._is_ended:
                        return
                    if meter.sent:
                        meter.ended(time.monotonic(), None)
                    self._news.wait()
                if lanes.short:
                    number, parts = SHORT, lanes.next_short()
                else:
                    number, parts = lanes.next_long(CHUNK)
                is_last = not (lanes.short or lanes.has_long)
            lane = bytes([number])
            size = sum(map(len, parts))
            if size <= _MOST:
                chunks = [b"".join((lane, *parts))]
            else:
                data = b"".join(parts)
                chunks = [lane + data[at : at + _MOST] for at in range(0, size, _MOST)]
            # Who asks later whether a tensor is still held must not find it here.
            parts.clear()
            yield from chunks
            meter.wrote(size)
            # Only when the kernel's buffers are full chunks wait for the network.
            if not is_last and meter.sent >= SOCKET_BUFFER:
                meter.full(time.monotonic())


class Endpoint:
    """One end of a stream: a Link."""

    transport = "grpc"
    # Set by who knows of the channel below.
    is_encrypted = False

    def __init__(self, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner) -> None:
        self.peer_task = peer_task
        self.peer_life = peer_life
        self._meter = Meter()
        self.meter: Meter | None = self._meter
        self._owner = owner
        self._writer = FrameWriter(local_life, peer_life)
        self._outbox = Outbox(Lanes(self._writer, partial(FrameWriter, local_life, peer_life)), self._meter)
        reader = FrameReader(peer_life, local_life, self._received)
        self._readers = LaneReaders(reader, peer_life, local_life, self._received)
        self._error: OpError | None = None
        self._lock = threading.Lock()

    def _received(self, frame: Frame) -> None:
        self._owner.received(self, frame)

    def send(self, messages: Sequence[Message]) -> None:
        with self._lock:
            if self._error is not None:
                raise error_from_code(self._error.error_code, self._error.message)
            self._outbox.put(messages)

    def chunks(self) -> Iterator[bytes]:
        """Yield what goes out."""
        return self._outbox.chunks()

    def fail(self, error: OpError) -> bool:
        """Refuse further sends. Returns whether this was the first failure."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
        self._outbox.end()
        return True

    def close(self) -> None:
        """See Link."""
        error = UnavailableError(f"The connection to {self.peer_task} was closed")
        if self.fail(error):
            self._owner.ended(self, error)

    def read(self, chunks: Iterator[bytes]) -> None:
        """Hand over what arrives until the stream ends.

        Raises:
            InvalidArgumentError: the bytes make no sense, or are of or for another life.
            grpc.RpcError: the connection broke.
        """
        for chunk in chunks:
            if chunk:
                self._readers.of(chunk[0]).feed(memoryview(chunk)[1:])


class ClientLink(Endpoint):
    """The opening end; the owner is told in the reading thread when the stream ends for whatever reason.

    Raises:
        UnavailableError: the channel is closed.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        local_task: str,
        local_life: int,
        peer_task: str,
        peer_life: int,
        owner: LinkOwner,
    ) -> None:
        super().__init__(peer_task, local_life, peer_life, owner)
        metadata = ((FROM_TASK, local_task), (FROM_LIFE, str(local_life)), (TO_LIFE, str(peer_life)))
        try:
            self._call = channel.stream_stream(METHOD)(self.chunks(), metadata=metadata)
        except ValueError:  # grpc's way to say so
            raise UnavailableError(f"{peer_task} {CLOSED}") from None
        self._thread = guard.once(self._read, name=f"from {peer_task}")

    def start(self) -> None:
        """Read from now on."""
        self._thread.start()

    def _read(self) -> None:
        error: OpError
        try:
            self.read(self._call)
            error = UnavailableError(f"{self.peer_task} {CLOSED}")
        except grpc.RpcError as e:
            error = self._translate(e)
        except OpError as e:
            error = e
        except Exception as e:
            error = InternalError(f"A frame from {self.peer_task} could not be handled: {type(e).__name__}: {e}")
        self._call.cancel()
        if self.fail(error):
            self._owner.ended(self, error)

    def _translate(self, e: Any) -> OpError:
        code, details = e.code(), e.details() or ""
        if code is grpc.StatusCode.ABORTED:
            return error_from_code(code.value[0], details)
        if code is grpc.StatusCode.CANCELLED and self._error is not None:
            return self._error
        return UnavailableError(f"Connection to {self.peer_task} failed: {details or code.name}")

    def close(self) -> None:
        super().close()
        self._call.cancel()


class ServerLink(Endpoint):
    """The accepting end: `serve` is the body of the gRPC handler."""

    def serve(self, requests: Iterator[bytes], on_gone: Callable[[Callable[[], object]], bool]) -> Iterator[bytes]:
        """Yield what goes out while a thread reads requests; the owner is told when either side ends.

        Args:
            on_gone: calls back when the other end is gone; False where it is already.
        """

        def read() -> None:
            error: OpError = UnavailableError(f"{self.peer_task} {CLOSED}")
            try:
                self.read(requests)
            except OpError as e:
                error = e
            except Exception as e:
                error = UnavailableError(f"Connection from {self.peer_task} failed: {e or type(e).__name__}")
            if self.fail(error):
                self._owner.ended(self, error)

        if not on_gone(self._ended):
            self._ended()
        guard.once(read, name=f"from {self.peer_task}").start()
        return self.chunks()

    def _ended(self) -> None:
        # The reader, which fails at the same moment, does the rest.
        self._outbox.end()
