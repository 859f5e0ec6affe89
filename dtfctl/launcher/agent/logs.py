"""Read the keepers' logs: by position, through rotations, and the last lines of stderr.

A position is (inode, offset), so it stays right when the file is renamed by a rotation. A reader whose file has been
deleted goes on with the oldest that is left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from dtfctl.launcher.agent.contract import LogChunk, LogPosition
from dtfctl.launcher.patterns import compile_pattern

log = logging.getLogger(__name__)
TAIL_BYTES = 262_144


def files_of(log: Path) -> list[Path]:
    """The files of one log that exist, oldest first."""
    older = []
    number = 1
    while (path := log.with_name(f"{log.name}.{number}")).exists():
        older.append(path)
        number += 1
    older.reverse()
    return [*older, log] if log.exists() else older


def read(log: Path, position: LogPosition, max_bytes: int, tail: int = 0) -> LogChunk:
    """Whole lines after `position`, at most `max_bytes` (one longer line is cut)."""
    files = files_of(log)
    if not files:
        return LogChunk(position, b"", True)
    if position.file == 0 and tail:
        position = _tail_position(log, position.process, tail)
    inodes = [path.stat().st_ino for path in files]
    index, offset = (inodes.index(position.file), position.offset) if position.file in inodes else (0, 0)
    while True:
        with files[index].open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            file.seek(offset)
            data = file.read(max_bytes)
        last = index == len(files) - 1
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == max_bytes:
            end = len(data)
        if end or last:
            at_end = last and len(data) < max_bytes
            return LogChunk(LogPosition(position.process, inode, offset + end), data[:end], at_end)
        index, offset = index + 1, 0


def _tail_position(log: Path, process: str, tail: int) -> LogPosition:
    """The position of the `tail`th line before the end."""
    missing = tail
    for path in reversed(files_of(log)):
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            at = stat.st_size
            while at > 0:
                start = max(0, at - TAIL_BYTES)
                file.seek(start)
                block = file.read(at - start)
                end = len(block)
                while (found := block.rfind(b"\n", 0, end)) >= 0:
                    if start + found + 1 < stat.st_size:
                        missing -= 1
                        if missing == 0:
                            return LogPosition(process, stat.st_ino, start + found + 1)
                    end = found
                at = start
            missing -= 1  # the first line of a file has no newline before it
            if missing <= 0:
                return LogPosition(process, stat.st_ino, 0)
    return LogPosition(process)


def matches(log: Path, since_stamp: str, patterns: Iterable[str]) -> str:
    """The first pattern that is found in what was written since then, or nothing."""
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
    """The last lines of stderr that were written at or after `since_stamp` (`2026-01-31T12:00:00.123Z`)."""
    return tuple(_stderr_lines(_newest_lines(log), since_stamp))[-count:]


def _newest_lines(log: Path) -> list[str]:
    """The end of the newest file."""
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
