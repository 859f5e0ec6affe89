"""What is wrong with a spec file: all of it, each problem with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dtfctl.launcher.errors import SpecError

_WIDTH = 100
RENAMED: dict[tuple[str, ...], str] = {
    ("recovery",): "It is called `checkpoints` now, and its `checkpoint` is `path`.",
}
"""Keys that there were once, by their path, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. `line` and `column` count from 1; `length` is how many characters to underline."""

    line: int
    column: int
    message: str
    expected: str = ""
    length: int = 1


class InvalidSpec(SpecError):
    """A spec file is not valid; `problems` lists everything found, in the order of the file."""

    def __init__(self, file: str, problems: Sequence[Problem], source: str = "") -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column)))
        self.source = source
        super().__init__(self.render())

    def render(self) -> str:
        """Write every problem as `file:line:column: message`, the source line with a caret, and what was expected."""
        lines = self.source.splitlines()
        return "\n".join(self._render_one(problem, lines) for problem in self.problems)

    def _render_one(self, problem: Problem, lines: Sequence[str]) -> str:
        if problem.line == 0:
            out = [f"{self.file}: {problem.message}"]
        else:
            out = [f"{self.file}:{problem.line}:{problem.column}: {problem.message}"]
        if 0 < problem.line <= len(lines):
            text = lines[problem.line - 1].replace("\t", " ")
            start = max(0, problem.column - _WIDTH)
            shown = text[start : start + _WIDTH + 20]
            gutter = f"{problem.line:>5} | "
            caret = problem.column - 1 - start
            length = max(1, min(problem.length, len(shown) - caret))
            out.append(f"{gutter}{shown}".rstrip())
            out.append(" " * (len(gutter) - 2) + "| " + " " * caret + "^" * length)
        if problem.expected:
            out.append(f"        {problem.expected}")
        return "\n".join(out)


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the one of `options` that `word` most likely meant, or None."""
    options = list(options)
    folded = {option.lower(): option for option in options}
    if word.lower() in folded:
        return folded[word.lower()]
    found = difflib.get_close_matches(word.lower()[:100], list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Write ` Did you mean ...?`, or nothing."""
    found = nearest(word, options)
    return f" Did you mean `{found}`?" if found else ""
