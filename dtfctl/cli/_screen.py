"""Where output goes: data to stdout; progress, hints and errors to stderr; colour only where it can be seen."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TextIO

Output = Literal["table", "wide", "json", "yaml"]

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def wants_color(stream: TextIO, environ: Mapping[str, str], forbidden: bool) -> bool:
    """Tell whether to colour what is written to `stream`: a terminal, NO_COLOR unset or empty, not `--no-color`."""
    return not forbidden and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


@dataclass(slots=True)
class Screen:
    """What a command writes with."""

    output: Output = "table"
    quiet: bool = False
    no_color: bool = False

    @property
    def is_data(self) -> bool:
        """Whether stdout is for programs (`-o json`, `-o yaml`)."""
        return self.output in ("json", "yaml")

    @property
    def is_live(self) -> bool:
        """Whether stderr is a terminal on which a line may be redrawn."""
        return not self.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal that stdout is; 0 where it is none, and nothing has to fit."""
        try:
            return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        except ValueError:  # closed
            return 0

    def print(self, text: str = "") -> None:
        """Print a line of data to stdout."""
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Progress or a hint, to stderr; not with `-q`."""
        if not self.quiet:
            sys.stdout.flush()
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def next(self, command: str) -> None:
        """Say what one would type next."""
        if not self.is_data:
            self.note(self.style(f"next: {command}", "dim", sys.stderr))

    def error(self, text: str, hint: str = "") -> None:
        """Say what went wrong and what to do, on stderr, `-q` or not."""
        sys.stdout.flush()
        sys.stderr.write(self.style("error: ", "red", sys.stderr) + text + "\n")
        if hint:
            sys.stderr.write(f"  {hint}\n")
        sys.stderr.flush()

    def data(self, kind: str, content: Mapping[str, Any]) -> None:
        """Print a document of `kind` in the versioned shape, as JSON or YAML."""
        document = {"version": 1, "kind": kind, **content}
        if self.output == "yaml":
            import yaml

            sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        else:
            sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def record(self, kind: str, content: Mapping[str, Any]) -> None:
        """Print one document of a stream: a line of JSON, or a YAML document of its own."""
        document = {"version": 1, "kind": kind, **content}
        if self.output == "yaml":
            import yaml

            sys.stdout.write("---\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        else:
            sys.stdout.write(json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def style(self, text: str, name: str, stream: TextIO | None = None) -> str:
        """`text` in a colour, where `stream` (stdout by default) shows colours."""
        if not text or not wants_color(stream or sys.stdout, os.environ, self.no_color):
            return text
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m"
