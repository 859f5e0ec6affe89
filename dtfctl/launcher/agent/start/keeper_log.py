"""The log of one process, as its keeper writes it: lines with time stamps in files of limited size, by any disk.

A log line is `2026-01-31T12:00:00.123Z out text`; `out` or `err`, with a `+` when the line goes on in the next one.
A file that follows others begins with `2026-01-31T12:00:00.123Z at 67108864`: so many bytes were written before it,
also those that rotation has deleted since, so that a reader knows what it has missed.

Who writes faster than BYTES_PER_S waits, as for any slow reader of a pipe; nothing is dropped for it. So it does where
rotation would delete what somebody is just reading: the agent writes into LOG_FILE.read how far that one is, while it
reads on. Only where the disk is full output is dropped, since a process that waits for space may be what holds it.

Like the keeper this imports only what is built into Python.
"""

import os
import time

CHUNK_BYTES = 65536
"""What is read of a stream at once, and the longest line that is not cut."""
READING_S = 10.0
"""The seconds after its last step that a reader may still be there; then nothing waits for it any more."""
AWAIT_S = 0.1
LAST_WORDS = 65536
"""The bytes of what a full disk did not take that are kept for when there is room: the end of it."""


def begin_of(head: bytes) -> "tuple[int, int]":
    """Read (bytes of the log before this file, length of the line that says so) from the file's first line."""
    line, newline, _ = head.partition(b"\n")
    words = line.split(b" ")
    if newline and len(words) == 3 and words[1] == b"at" and words[2].isdigit():
        return int(words[2]), len(line) + 1
    return 0, 0


class Log:
    """A log of files with a size limit, and no failure when the disk is full: it counts what it drops."""

    def __init__(self, path: str, rotate_bytes: int, keep: int, bytes_per_s: int) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._rate = bytes_per_s
        # A burst may fill one file: a reader that is a file behind has missed nothing yet.
        self._burst = float(max(bytes_per_s, rotate_bytes if keep else 0))
        self._allowance = self._burst
        self._filled = time.monotonic()
        self._dropped = 0
        self._last_words = b""
        self._second = 0
        self._stamp = ""
        self._fd = -1
        self._size = 0
        self._begin = -1
        """How much of the log was written before this file; -1: not known yet."""
        try:
            self._open()
        except OSError:
            self._fd = -1  # the disk is full: the first line tries again

    def pause_s(self) -> float:
        """Compute the seconds that who writes has to wait now, so that the rate is kept."""
        now = time.monotonic()
        self._allowance = min(self._burst, self._allowance + (now - self._filled) * self._rate)
        self._filled = now
        if self._allowance < 0:
            return -self._allowance / self._rate
        return AWAIT_S if self._is_awaited() else 0.0

    def _is_awaited(self) -> bool:
        """Tell whether somebody is reading what the next rotation deletes."""
        try:
            fd = os.open(f"{self._path}.read", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if abs(time.time() - os.fstat(fd).st_mtime) > READING_S:
                    return False
                reached = int(os.read(fd, 64))
            finally:
                os.close(fd)
            return reached < self._end_of(f"{self._path}.{self._keep}" if self._keep else self._path)
        except (OSError, ValueError):
            return False

    def write(self, stream: str, chunk: bytes) -> None:
        stamp = self._time_stamp()
        *whole, rest = chunk.split(b"\n")
        prefix = f"{stamp} {stream} ".encode()
        lines = [prefix + line + b"\n" for line in whole]
        if rest:
            lines.append(f"{stamp} {stream}+ ".encode() + rest + b"\n")
        data = b"".join(lines)
        self._allowance -= len(data)
        if self._dropped or not self._append(data):
            self._drop(data)
            self.catch_up()

    def catch_up(self) -> None:
        """Write what a full disk did not take, as far as it is still there: how much is missing, and the last lines."""
        if not self._dropped:
            return
        lost = self._dropped - len(self._last_words)
        note = f"{self._time_stamp()} err dtfctl: {lost} bytes of output dropped here: the disk of the log was full\n"
        if self._append((note.encode() if lost else b"") + self._last_words):
            self._dropped, self._last_words = 0, b""

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        self._last_words += data
        if len(self._last_words) > LAST_WORDS:
            kept = self._last_words[-LAST_WORDS:]
            self._last_words = kept[kept.find(b"\n") + 1 :]

    def _time_stamp(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._stamp}.{int((now - second) * 1000):03d}Z"

    def _append(self, data: bytes) -> bool:
        """Append data and return whether all of it was written. A torn line is cut off again."""
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(data) > self._rotate_bytes:
                self._rotate()
            if not self._size and self._begin:
                data = f"{self._time_stamp()} at {self._begin}\n".encode() + data
            written = os.write(self._fd, data)
            if written < len(data):
                os.ftruncate(self._fd, self._size)
                return False
        except OSError:
            return False
        self._size += written
        return True

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size
        if self._size:
            self._begin = begin_of(os.pread(self._fd, 64, 0))[0]
        elif self._begin < 0:
            self._begin = self._end_of(f"{self._path}.1")

    def _end_of(self, path: str) -> int:
        """Find how much had been written when that file was full; 0 where there is none."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return begin_of(os.pread(fd, 64, 0))[0] + os.fstat(fd).st_size
        finally:
            os.close(fd)

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        end = self._begin + self._size
        for number in range(self._keep, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.replace(older, f"{self._path}.{number}")
        if self._keep == 0:
            os.unlink(self._path)
        self._begin = end
        self._open()


class Lines:
    """Cuts one stream into whole lines, and into parts where a line's end does not come."""

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._log = log
        self.begun = b""
        self.begun_at = 0.0

    def add(self, chunk: bytes) -> None:
        if not self.begun:
            self.begun_at = time.monotonic()
        data = self.begun + chunk
        end = data.rfind(b"\n") + 1
        if len(data) - end >= CHUNK_BYTES:
            end = len(data)
        if end:
            self._log.write(self._name, data[:end])
            self.begun_at = time.monotonic()
        self.begun = data[end:]

    def flush(self) -> None:
        if self.begun:
            self._log.write(self._name, self.begun)
            self.begun = b""
