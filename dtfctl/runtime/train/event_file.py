"""Event files: records of Event protos that TensorBoard reads."""

from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import logging
import os
import queue
import socket
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.protocol import summary_pb2
from dtfctl.runtime.kernels.io.records import tfrecord

log = logging.getLogger("dtfctl.train")
_counter = itertools.count()
# Many programs never close their writers; what they wrote is flushed when the process ends.
_open_writers: weakref.WeakSet[EventFileWriter] = weakref.WeakSet()


@atexit.register
def _flush_at_exit() -> None:
    for writer in list(_open_writers):
        # A process that was forked has not the thread that writes.
        if writer.is_mine():
            with contextlib.suppress(OSError):
                writer.flush()


class EventFileWriter:
    """Writes events to a new file in `logdir`, from a thread of its own.

    Args:
        max_queue: events that may wait before `add_event` blocks; flush_secs: how often what was written is flushed.
    """

    def __init__(self, logdir: str, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        Path(logdir).mkdir(parents=True, exist_ok=True)
        self._logdir = str(logdir)
        self._max_queue, self._flush_secs, self._suffix = max_queue, flush_secs, filename_suffix
        self._open()

    def _open(self) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_counter)}"
        self.path = Path(self._logdir) / f"{name}{self._suffix}"
        self._queue: queue.Queue[Any] = queue.Queue(self._max_queue)
        self._error: BaseException | None = None
        self._ends = False
        self._flushed = time.monotonic()
        self._file = self.path.open("ab")
        first = summary_pb2.Event(wall_time=time.time(), file_version="brain.Event:2")
        self._file.write(tfrecord(first.SerializeToString()))
        self._file.flush()
        self._thread = guard.forever(self._write, name="event-writer")
        self._thread.start()
        self._process = os.getpid()
        self._closed = False
        _open_writers.add(self)

    def _write(self) -> None:
        while not self._ends:
            self._take_one()

    def _take_one(self) -> None:
        item = self._queue.get()
        try:
            self._ends = item is None
            self._write_one(item)
        finally:
            if isinstance(item, threading.Event):
                item.set()  # whatever is raised, nobody waits for it for ever

    def _write_one(self, item: Any) -> None:
        """Write an event, or flush: for who waits for that, and at the end."""
        is_event = item is not None and not isinstance(item, threading.Event)
        if is_event and self._error is not None:
            return
        try:
            if is_event:
                self._file.write(tfrecord(item.SerializeToString()))
            if not is_event or time.monotonic() - self._flushed > self._flush_secs:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError as e:
            if e.errno == errno.ENOSPC and item is not None:
                log.warning("events are lost: %s: %s", self.path, e.strerror)
                return
            self._error = e  # kept for the next call of the program

    def is_mine(self) -> bool:
        """Tell whether this process opened the file, and has not closed it."""
        return not self._closed and self._process == os.getpid()

    def get_logdir(self) -> str:
        return self._logdir

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def add_event(self, event: summary_pb2.Event) -> None:
        """Queue an event.

        Raises:
            OSError: an earlier event could not be written.
        """
        self._check()
        if not self._closed:
            self._queue.put(event)

    def flush(self) -> None:
        """Wait until everything queued so far is in the file."""
        if self._closed:
            return
        done = threading.Event()
        self._queue.put(done)
        done.wait()
        self._check()

    def close(self) -> None:
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._file.close()

    def reopen(self) -> None:
        if self._closed:
            self._open()
