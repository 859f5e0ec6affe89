"""Find docstrings whose first line cannot be read alone.

The first line of a function's docstring is a verb and an object: "Send one frame to the task at the other end.", not
"Of one connection." and not "The frame." That of a class, property or attribute names what it is, and leans on no name.

    python tools/check_docstrings.py [FOLDER OR FILE ...]    of dtfctl by default; prints FILE:LINE: NAME: first line
"""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

LEANS = re.compile(
    "of|as|its|it|for|from|in|on|at|by|with|to|into|until|till|when|while|after|before|if|though|because|since|than|then"
    "|so|too|also|and|or|but|not|that|those|these|this|they|them|their|he|she|his|her|such|same|itself|themselves|whose"
)
"""Openings that need the name before them to mean anything."""
NO_ORDER = re.compile(
    "the|a|an|what|whether|which|who|whom|how|where|why|all|every|each|one|two|some|any|no|none|another|others?|more|most"
    "|nothing|nobody|somebody|something|everything|everybody|only|there|true|false|bytes"
)
"""Openings of what does not say what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    name: str
    first: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.first}"


def findings(path: Path) -> Iterator[Finding]:
    """Yield the docstrings of a file whose first line is to be written again."""
    tree = ast.parse(path.read_text())
    shown = str(path.resolve().relative_to(REPOSITORY))
    for name, is_order, node, text in _docstrings(tree):
        first = text.strip().split("\n")[0].strip()
        words = first.split()
        opening = words[0].strip("`\"'(,.:;").lower() if words else ""
        if len(words) < 2 or LEANS.fullmatch(opening) or (is_order and NO_ORDER.fullmatch(opening)):
            yield Finding(shown, node.lineno, name, first)


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, bool, ast.stmt | ast.Module, str]]:
    """Yield the name of what is documented, whether it is called, the statement, and its docstring."""
    for node in _statements(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.name, not _is_value(node), node.body[0], text
        elif isinstance(node, ast.ClassDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.name, False, node.body[0], text
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield from _attributes(node)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk through what can hold a definition: expressions cannot, and are most of a tree."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for blocks in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting.extend(getattr(node, blocks, ()))


def _attributes(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, bool, ast.stmt, str]]:
    """Yield what is documented by a string below its assignment."""
    for before, statement in zip(node.body, node.body[1:]):
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
            continue
        if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(statement.value.value, str):
            target = before.targets[0] if isinstance(before, ast.Assign) else before.target
            yield ast.unparse(target), False, statement, statement.value.value


def _is_value(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether who uses a function sees a value: a property names what it is."""
    names = [ast.unparse(item).split(".")[-1] for item in node.decorator_list]
    return any(name in ("property", "cached_property") for name in names)


def main(words: list[str]) -> int:
    folders = [Path(word) for word in words] or [REPOSITORY / "dtfctl"]
    files = [file for folder in folders for file in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))]
    found = [finding for file in files for finding in findings(file)]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
