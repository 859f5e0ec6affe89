"""Read the keepers' logs: by position, through rotations, and the last lines of stderr.

A position's offset counts from the log's very first byte, so it stays right when files are renamed by a rotation. What
a rotation has deleted before it was read is said in its place.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dtfctl.launcher.agent.start.keeper_log import begin_of
from dtfctl.launcher.messages.reports import LogChunk, LogPosition
from dtfctl.launcher.system.patterns import compile_pattern
from dtfctl.values import replace, value

log = logging.getLogger(__name__)
TAIL_BYTES = 262_144
LEAST_BYTES = 262_144
"""Any line of a log is shorter: a keeper cuts lines at 128 KiB."""
HEAD_BYTES = 64
NOTED_FROM = 2**20
"""Most logs are never so long, and need no note of who reads them."""


@value
class _File:
    """One file of a log, open: it may be renamed or deleted meanwhile."""

    fd: int
    inode: int
    begin: int
    """The bytes of the log that were written before this file."""
    head: int
    """The length of its first line, where that is the keeper's."""
    size: int

    @property
    def end(self) -> int:
        return self.begin + self.size


def files_of(log: Path) -> list[Path]:
    """List the files of one log that exist, oldest first."""
    older = []
    number = 1
    while (path := log.with_name(f"{log.name}.{number}")).exists():
        older.append(path)
        number += 1
    older.reverse()
    return [*older, log] if log.exists() else older


@contextlib.contextmanager
def _opened(log: Path, back_to: int = 0) -> Iterator[list[_File]]:
    """Open the files of one log that are not empty, oldest first, none twice; none that ends before `back_to`."""
    files: list[_File] = []
    try:
        number = holes = 0
        # From the newest: where a rotation comes between, one is seen twice and none is passed over.
        while holes < 2 and (not files or not files[0].head or files[0].begin > back_to):
            path = log.with_name(f"{log.name}.{number}") if number else log
            number += 1
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                holes += 1
                continue
            stat = os.fstat(fd)
            if not stat.st_size or any(found.inode == stat.st_ino for found in files):
                os.close(fd)
                continue
            begin, head = begin_of(os.pread(fd, HEAD_BYTES, 0))
            files.insert(0, _File(fd, stat.st_ino, begin, head, stat.st_size))
        for number in range(1, len(files)):
            if not files[number].head:  # a keeper of an earlier version wrote it
                files[number] = replace(files[number], begin=files[number - 1].end)
        yield files
    finally:
        for file in files:
            os.close(file.fd)


def read(log: Path, position: LogPosition, max_bytes: int, tail: int = 0) -> LogChunk:
    """Read whole lines after `position`, at most `max_bytes` of them, which are `LEAST_BYTES` or more."""
    tailing = position.file == 0 and tail > 0
    with _opened(log, 0 if tailing else position.offset) as files:
        if not files:
            return LogChunk(position, b"", True)
        at = _tail_offset(files, tail) if tailing else position.offset
        gone = position.file and all(file.inode != position.file for file in files)
        if gone and files[0].begin < at:
            at = files[0].begin  # another log has this name now
        at = min(at, files[-1].end)  # the end was cut off again: the disk was full
        missed = max(0, files[0].begin - at)
        at += missed
        file = next(file for file in files if at < file.end or file is files[-1])
        start = max(at - file.begin, file.head)
        data = os.pread(file.fd, max_bytes, start)
        at_end = file is files[-1] and start + len(data) >= file.size
        data = data[: data.rfind(b"\n") + 1]
    if missed and not data:
        return LogChunk(position, b"", at_end)  # it is said with the first line after it
    reached = LogPosition(position.process, file.inode, file.begin + start + len(data))
    return LogChunk(reached, _mark(missed, data) + data if missed else data, at_end)


def note_reader(log: Path, chunk: LogChunk) -> None:
    """Tell the log's keeper how far somebody has come, so that rotation waits for that."""
    if chunk.next.offset < NOTED_FROM and not log.with_name(f"{log.name}.1").exists():
        return
    with contextlib.suppress(OSError):  # the disk is full: what is deleted is said at least
        fd = os.open(log.with_name(f"{log.name}.read"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, b"%020d" % chunk.next.offset, 0)
        finally:
            os.close(fd)


def _mark(missed: int, data: bytes) -> bytes:
    """Write the line that stands for lines that are gone."""
    stamp = data.partition(b" ")[0]
    amount = f"{missed / 1e6:,.0f} MB" if missed >= 1e6 else f"{missed:,} bytes"
    note = f" err dtfctl: \u2026 {amount} of output dropped here by the limits logs.rotate and logs.keep \u2026\n"
    return stamp + note.encode()


def _tail_offset(files: list[_File], tail: int) -> int:
    """Find where the `tail`th line before the end begins."""
    missing = tail
    for file in reversed(files):
        at = file.size
        while at > file.head:
            start = max(file.head, at - TAIL_BYTES)
            block = os.pread(file.fd, at - start, start)
            end = len(block)
            while (found := block.rfind(b"\n", 0, end)) >= 0:
                if start + found + 1 < file.size:
                    missing -= 1
                    if missing == 0:
                        return file.begin + start + found + 1
                end = found
            at = start
        missing -= 1  # the first line of a file has no newline before it
        if missing <= 0:
            return file.begin
    return files[0].begin


def matches(log: Path, since_stamp: str, patterns: Iterable[str]) -> str:
    """Find the first pattern that is in what was written since then; empty: none."""
    patterns = list(patterns)
    if not patterns:
        return ""
    text = "\n".join(line.split(" ", 2)[-1] for line in _newest_lines(log) if line.split(" ", 1)[0] >= since_stamp)
    data = text.encode("utf-8", "surrogateescape")
    return next((pattern for pattern in patterns if _is_found(pattern, data)), "")


def _is_found(pattern: str, data: bytes) -> bool:
    try:
        return compile_pattern(pattern).search(data) is not None
    except ValueError as error:  # `up` refuses such a spec, but one of an older version may still be in force
        log.warning("the pattern %r is not looked for: %s", pattern, error)
        return False


def last_errors(log: Path, since_stamp: str, count: int = 20) -> tuple[str, ...]:
    """Read the last lines of stderr that were written at or after `since_stamp` (`2026-01-31T12:00:00.123Z`)."""
    return tuple(_stderr_lines(_newest_lines(log), since_stamp))[-count:]


def _newest_lines(log: Path) -> list[str]:
    """Read the lines at the end of the newest file."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _stderr_lines(lines: Iterable[str], since_stamp: str) -> Iterable[str]:
    begun = ""
    for line in lines:
        stamp, _, rest = line.partition(" ")
        stream, _, text = rest.partition(" ")
        if stamp < since_stamp:
            continue
        if stream == "err+":
            begun += text
        elif stream == "err":
            yield begun + text
            begun = ""
    if begun:
        yield begun
