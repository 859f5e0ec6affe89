"""Which of TensorFlow's names a script uses that are not here, by line, without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import dtfctl.runtime as tf
from dtfctl.runtime.api import missing
from dtfctl.runtime.programs.as_tensorflow import _find

ROOTS = ("tensorflow", "dtfctl.runtime")


@dataclass(frozen=True, order=True)
class Missing:
    """A use of a name that is not here."""

    line: int
    column: int
    name: str
    message: str


def check(source: str, filename: str) -> list[Missing]:
    """Find the uses of missing names in a script, in its order.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source, filename)
    visitor = _Visitor()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            visitor.take_import(node)
    visitor.visit(tree)
    return sorted(visitor.found)


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[Missing] = set()
        # Names of the script that stand for TensorFlow ("") or something below it ("nn.relu").
        self.known: dict[str, str] = {}

    def take_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Note what an import's names stand for, and what it asks for that is not here."""
        if isinstance(node, ast.Import):
            for item in node.names:
                path = _below(item.name)
                if path is None:
                    continue
                self._require(node, path)
                if item.asname:
                    self.known[item.asname] = path
                elif item.name.startswith("tensorflow"):
                    self.known["tensorflow"] = ""
            return
        path = _below(node.module or "")
        if node.module == "dtfctl" and not node.level:
            for item in node.names:
                if item.name == "runtime":
                    self.known[item.asname or item.name] = ""
        if path is None or node.level:
            return
        for item in node.names:
            if item.name == "*":
                continue
            full = f"{path}.{item.name}" if path else item.name
            self._require(node, full)
            self.known[item.asname or item.name] = full

    def visit_Attribute(self, node: ast.Attribute) -> None:
        words = [node.attr]
        value: Any = node.value
        while isinstance(value, ast.Attribute):
            words.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self.known:
            base = self.known[value.id]
            self._require(node, ".".join([*([base] if base else []), *reversed(words)]))
            return
        self.generic_visit(node)

    def _require(self, node: Any, path: str) -> None:
        name = _first_missing(path)
        if name is not None:
            self.found.add(Missing(node.lineno, node.col_offset + 1, name, missing.explain(name)))


def _below(module: str) -> str | None:
    """Return what follows TensorFlow's name in a module's, or None for another module."""
    for root in ROOTS:
        if module == root:
            return ""
        if module.startswith(f"{root}."):
            return module[len(root) + 1 :]
    return None


def _first_missing(path: str) -> str | None:
    """Return a dotted name if a namespace on its way does not have what follows."""
    for prefix in ("compat.v1", "compat.v2"):
        if path == prefix == "compat.v1":
            return None
        path = path.removeprefix(f"{prefix}.")
    words = path.split(".") if path else []
    holders: list[Any] = [tf]
    for count, word in enumerate(words, 1):
        name = ".".join(words[:count])
        modules = _find(name) if words[0] == "core" or "python" in words[:count] else None
        if modules is None:
            holder = next((h for h in holders if hasattr(h, word)), None)
            if holder is not None:
                value = getattr(holder, word)
                if not isinstance(value, ModuleType):
                    # A class, function or value: what its attributes are is not TensorFlow's namespace any more.
                    return None
                modules = [value]
            else:
                modules = _find(name)
        if modules is None:
            return path
        holders = modules
    return None
