"""Frames over a bidirectional gRPC stream: one a direction and pair of tasks, kept open, in chunks of at most 1 MiB.

The task that opens a stream sends its tensors and control frames on it; the other answers (DONE) on the way back. What
is queued while a chunk is being written goes out together in the next one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from dtfctl.runtime.framework.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.rendezvous.frames import (
    CHUNK,
    FrameDecoder,
    Kind,
    encode_control,
    encode_tensor_frame,
)
from dtfctl.runtime.rendezvous.transports.base import OnFailure, OnFrame

METHOD = "/dtf.WorkerService/Stream"
FROM_TASK, FROM_LIFE, TO_LIFE = "dtf-task", "dtf-incarnation", "dtf-to-incarnation"


class Outbox:
    """Frames on their way out: threads put them in, one generator takes chunks out."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[bytes, memoryview | bytes] | None] = queue.SimpleQueue()

    def put(self, head: bytes, payload: memoryview | bytes = b"") -> None:
        self._queue.put((head, payload))

    def end(self) -> None:
        """Let `chunks` stop once everything before is out."""
        self._queue.put(None)

    def chunks(self) -> Iterator[bytes]:
        """Everything put in, in order; small frames together, big payloads cut."""
        batch: list[bytes | memoryview] = []
        size = 0
        while True:
            try:
                item = self._queue.get_nowait() if batch else self._queue.get()
            except queue.Empty:
                yield b"".join(batch)
                batch, size = [], 0
                continue
            if item is None:
                if batch:
                    yield b"".join(batch)
                return
            head, payload = item
            batch.append(head)
            size += len(head)
            at = 0
            while len(payload) - at > CHUNK - size:
                cut = max(CHUNK - size, 0)
                batch.append(payload[at : at + cut])
                yield b"".join(batch)
                at += cut
                batch, size = [], 0
            if at < len(payload):
                batch.append(payload[at:])
                size += len(payload) - at
            if size >= CHUNK:
                yield b"".join(batch)
                batch, size = [], 0


class Endpoint:
    """One end of a stream: a Link for sending, with both lives' numbers in every frame."""

    def __init__(self, local_life: int, peer_life: int) -> None:
        self.local_life = local_life
        self.peer_life = peer_life
        self.outbox = Outbox()
        self._error: OpError | None = None
        self._lock = threading.Lock()

    def send_tensor(self, step: int, key: str, value: Any, dead: bool) -> None:
        self._check()
        self.outbox.put(*encode_tensor_frame(step, self.local_life, self.peer_life, key, value, dead))

    def send_control(self, kind: Kind, step: int, key: str = "", payload: bytes = b"") -> None:
        self._check()
        self.outbox.put(encode_control(kind, step, self.local_life, self.peer_life, key, payload))

    def fail(self, error: OpError) -> bool:
        """Refuse further sends. Returns whether this was the first failure."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
        self.outbox.end()
        return True

    def _check(self) -> None:
        if self._error is not None:
            raise error_from_code(self._error.error_code, self._error.message)

    def read(self, chunks: Iterator[bytes], on_frame: OnFrame) -> None:
        """Hand over what arrives until the stream ends.

        Raises:
            InvalidArgumentError: the bytes make no sense, or are of or for another life.
            grpc.RpcError: the connection broke.
        """
        decoder = FrameDecoder()
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                if frame.sender != self.peer_life or frame.receiver != self.local_life:
                    raise InvalidArgumentError(
                        f"A frame from incarnation {frame.sender} to {frame.receiver} on a stream from "
                        f"{self.peer_life} to {self.local_life}"
                    )
                on_frame(frame)


class ClientLink(Endpoint):
    """The opening end. `on_failure` is called once, in the reading thread, when the stream ends for whatever reason."""

    def __init__(
        self,
        channel: grpc.Channel,
        local_task: str,
        local_life: int,
        peer_task: str,
        peer_life: int,
        on_frame: OnFrame,
        on_failure: OnFailure,
    ) -> None:
        super().__init__(local_life, peer_life)
        self._peer_task = peer_task
        self._on_failure = on_failure
        metadata = ((FROM_TASK, local_task), (FROM_LIFE, str(local_life)), (TO_LIFE, str(peer_life)))
        self._call = channel.stream_stream(METHOD)(self.outbox.chunks(), metadata=metadata)
        self._thread = threading.Thread(target=self._read, args=(on_frame,), daemon=True, name=f"from {peer_task}")
        self._thread.start()

    def _read(self, on_frame: OnFrame) -> None:
        error: OpError
        try:
            self.read(self._call, on_frame)
            error = UnavailableError(f"{self._peer_task} closed the connection")
        except grpc.RpcError as e:
            error = self._translate(e)
        except OpError as e:
            error = e
        except Exception as e:
            error = InternalError(f"A frame from {self._peer_task} could not be handled: {type(e).__name__}: {e}")
        self._call.cancel()
        if self.fail(error):
            self._on_failure(error)

    def _translate(self, e: Any) -> OpError:
        code, details = e.code(), e.details() or ""
        if code is grpc.StatusCode.ABORTED:
            return error_from_code(code.value[0], details)
        if code is grpc.StatusCode.CANCELLED and self._error is not None:
            return self._error
        return UnavailableError(f"Connection to {self._peer_task} failed: {details or code.name}")

    def close(self) -> None:
        self.fail(UnavailableError(f"The connection to {self._peer_task} was closed"))
        self._call.cancel()


class ServerLink(Endpoint):
    """The accepting end: `serve` is the body of the gRPC handler."""

    def __init__(self, peer_task: str, local_life: int, peer_life: int) -> None:
        super().__init__(local_life, peer_life)
        self.peer_task = peer_task

    def serve(
        self, requests: Iterator[bytes], context: grpc.ServicerContext, on_frame: OnFrame, on_failure: OnFailure
    ) -> Iterator[bytes]:
        """Yield answers while a thread reads requests; `on_failure` is called once when either side ends."""

        def read() -> None:
            error: OpError = UnavailableError(f"{self.peer_task} closed the connection")
            try:
                self.read(requests, on_frame)
            except OpError as e:
                error = e
            except Exception as e:
                # grpc raises its bare Exception here when the call is gone.
                error = UnavailableError(f"Connection from {self.peer_task} failed: {e or type(e).__name__}")
            if self.fail(error):
                on_failure(error)

        context.add_callback(self._ended)
        threading.Thread(target=read, daemon=True, name=f"from {self.peer_task}").start()
        return self.outbox.chunks()

    def _ended(self) -> None:
        # The reader, which fails at the same moment, does the rest.
        self.outbox.end()

    def close(self) -> None:
        self.fail(UnavailableError(f"The connection from {self.peer_task} was closed"))
