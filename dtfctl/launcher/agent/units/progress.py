"""Follow a job's progress file: a JSON object a line, `{"step", "total", "metrics", "time"}` or `{"note", "time"}`."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

from dtfctl.launcher.model import Progress

LONGEST_READ = 2**20
MOST_METRICS = 64
LONGEST_NOTE = 500
MOST_NOTES = 100
"""The most notes of one process that are passed on: events are for what seldom happens."""


class ProgressFile:
    """The newest valid line of a growing file. A line that is no progress is counted and skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.latest: Progress | None = None
        self.bad_lines = 0
        self._offset = 0
        self._notes: list[str] = []
        self._noted = 0

    def poll(self) -> bool:
        """Read what was added; whether there is a newer line."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if os.fstat(fd).st_size < self._offset:
                self._offset = 0
            data = os.pread(fd, LONGEST_READ, self._offset)
        finally:
            os.close(fd)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == LONGEST_READ:
            end = len(data)
        self._offset += end
        changed = False
        for line in data[:end].splitlines():
            progress = parse(line)
            text = None if progress is not None else parse_note(line)
            if text is not None:
                self._noted += 1
                if self._noted <= MOST_NOTES:
                    self._notes.append(text)
            elif progress is None:
                self.bad_lines += 1
            else:
                self.latest, changed = progress, True
        return changed

    def take_notes(self) -> list[str]:
        """Take what the process has said since the last call."""
        notes, self._notes = self._notes, []
        return notes


def parse_note(line: bytes) -> str | None:
    """Read the text of a note, shortened; None for anything else."""
    try:
        text = json.loads(line)["note"]
        text.encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return " ".join(text.split())[:LONGEST_NOTE] if isinstance(text, str) else None


def parse(line: bytes) -> Progress | None:
    """Read a line of a user's script: anything may stand there."""
    try:
        content: Any = json.loads(line)
        total = content.get("total")
        metrics = content.get("metrics") or {}
        return Progress(
            step=_count(content["step"]),
            total=None if total is None else _count(total),
            metrics={
                _text(key): float(value)
                for key, value in itertools.islice(metrics.items(), MOST_METRICS)
                if math.isfinite(float(value))
            },
            time=_time(content.get("time", 0.0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 2**63:
        raise ValueError(f"{number} is no count")
    return number


def _text(key: str) -> str:
    key.encode()  # half a surrogate pair is JSON, but no text
    return key


def _time(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no time")
    return number
