"""Output of several processes on one stream, without tearing each other's lines."""

from __future__ import annotations

from typing import TextIO

from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import LogLine

_COLORS = ("cyan", "yellow", "green", "dim")


class SourceWriter:
    """Writes log lines; with `prefix`, each line begins with who wrote it.

    A line that is not finished (a prompt, a progress bar) is written as it comes while nobody else writes, so that it
    appears at once; when another process takes the stream, the line is ended first.
    """

    def __init__(self, screen: Screen, prefix: bool) -> None:
        self._screen = screen
        self._prefix = prefix
        self._open: str | None = None
        self._colors: dict[str, str] = {}
        self._width = 0

    @property
    def at_line_start(self) -> bool:
        """Whether the next character stands at the beginning of a line."""
        return self._open is None

    def set_prefix(self, prefix: bool) -> None:
        """Begin lines with their source, or stop doing so."""
        self._prefix = prefix

    def write(self, line: LogLine, stream: TextIO) -> None:
        """Write `line` to `stream` and flush."""
        key = f"{line.source}:{line.stream}"
        if self._open not in (None, key):
            stream.write("\n")
            self._open = None
        if self._open is None and self._prefix:
            stream.write(self._label(line.source, stream))
        stream.write(line.text + ("\n" if line.newline else ""))
        stream.flush()
        self._open = None if line.newline else key

    def _label(self, source: str, stream: TextIO) -> str:
        name = source.rpartition(":")[2]
        self._width = max(self._width, len(name))
        color = self._colors.setdefault(name, _COLORS[len(self._colors) % len(_COLORS)])
        return self._screen.style(f"{name.ljust(self._width)} | ", color, stream)
