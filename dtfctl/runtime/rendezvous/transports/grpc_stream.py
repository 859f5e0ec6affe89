"""Frames over a bidirectional gRPC stream, in chunks of at most 1 MiB: for where nothing but the task's port is open.

What is queued while a chunk is being written goes out together in the next one.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from dtfctl.runtime.rendezvous.frames import CHUNK, FrameReader, FrameWriter, Message
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.meter import SOCKET_BUFFER, Meter

METHOD = "/dtf.WorkerService/Stream"
FROM_TASK, FROM_LIFE, TO_LIFE = "dtf-task", "dtf-incarnation", "dtf-to-incarnation"


class Outbox:
    """Buffers on their way out: threads put them in, one generator takes chunks out."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[bytes | memoryview | None] = queue.SimpleQueue()

    def put(self, buffer: bytes | memoryview) -> None:
        self._queue.put(buffer)

    def end(self) -> None:
        """Let `chunks` stop once everything before is out."""
        self._queue.put(None)

    def chunks(self, meter: Meter) -> Iterator[bytes]:
        """Yield everything put in, in order; small buffers together, big ones cut.

        Args:
            meter: of what is yielded. gRPC asks for the next chunk once the one before is on its way.
        """
        batch: list[bytes | memoryview] = []
        size = 0
        while True:
            try:
                item = self._queue.get_nowait() if batch else self._next(meter)
            except queue.Empty:
                yield b"".join(batch)
                meter.wrote(size)
                batch, size = [], 0
                continue
            if item is None:
                if batch:
                    yield b"".join(batch)
                return
            at = 0
            while len(item) - at > CHUNK - size:
                cut = max(CHUNK - size, 0)
                batch.append(item[at : at + cut])
                yield b"".join(batch)
                _passed(meter)
                at += cut
                batch, size = [], 0
            if at < len(item):
                batch.append(item[at:])
                size += len(item) - at
            if size >= CHUNK:
                yield b"".join(batch)
                _passed(meter)
                batch, size = [], 0

    def _next(self, meter: Meter) -> bytes | memoryview | None:
        """Wait for the next buffer; what was measured ends where there is none yet."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            if meter.sent:
                meter.ended(time.monotonic(), None)
            return self._queue.get()


def _passed(meter: Meter) -> None:
    """Note a whole chunk, of which more follow. Only when the kernel's buffers are full chunks wait for the network."""
    meter.wrote(CHUNK)
    if meter.sent >= SOCKET_BUFFER:
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
        self.outbox = Outbox()
        self._owner = owner
        self._writer = FrameWriter(local_life, peer_life)
        self._reader = FrameReader(peer_life, local_life, lambda frame: owner.received(self, frame))
        self._error: OpError | None = None
        self._lock = threading.Lock()

    def send(self, messages: Sequence[Message]) -> None:
        refused: OpError | None = None
        out: list[bytes | memoryview] = []
        with self._lock:
            if self._error is not None:
                raise error_from_code(self._error.error_code, self._error.message)
            for message in messages:
                try:
                    self._writer.write(message, out)
                except OpError as e:
                    refused = refused or e
            for buffer in out:
                self.outbox.put(buffer)
        if refused is not None:
            raise refused

    def chunks(self) -> Iterator[bytes]:
        """Yield what goes out."""
        return self.outbox.chunks(self._meter)

    def fail(self, error: OpError) -> bool:
        """Refuse further sends. Returns whether this was the first failure."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
        self.outbox.end()
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
            self._reader.feed(chunk)


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
        self.outbox.end()
