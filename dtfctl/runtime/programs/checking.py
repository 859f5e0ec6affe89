"""Which of TensorFlow's names a script uses that are not here, by line, without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import dtfctl.runtime as tf
from dtfctl.runtime.api import missing
from dtfctl.runtime.programs.as_tensorflow import _find, keras_name

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
    for node in ast.walk(tree):
        visitor.take_own(node)
    visitor.visit(tree)
    return sorted(visitor.found)


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[Missing] = set()
        # Names of the script that stand for TensorFlow ("") or something below it ("nn.relu").
        self.known: dict[str, str] = {}
        # What the script sets below TensorFlow's modules, or asks `hasattr` for: whether it is here is its own affair.
        self.own: set[str] = set()

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
            if (node.module or "").startswith("keras"):
                # A module of Keras 2 whose names are in the module above.
                full = min(full, keras_name(f"{node.module}.{item.name}") or full, key=len)
            self._require(node, full)
            self.known[item.asname or item.name] = full

    def take_own(self, node: ast.AST) -> None:
        """Note what `tf.NAME = ...`, `setattr(tf, "NAME", ...)` and `hasattr(tf, "NAME")` speak of."""
        path = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            path = self._path(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("setattr", "hasattr"):
            match node.args:
                case [holder, ast.Constant(value=str(name)), *_]:
                    above = self._path(holder)
                    path = None if above is None else f"{above}.{name}".removeprefix(".")
        if path:
            self.own.add(path)

    def _path(self, node: ast.AST) -> str | None:
        """Return what an expression stands for below TensorFlow, or None."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        above = self._path(node.value)
        return None if above is None else f"{above}.{node.attr}".removeprefix(".")

    def visit(self, node: ast.AST) -> None:
        """Look through a part; names that a function binds are TensorFlow no more within it."""
        known = self.known
        if isinstance(node, _SCOPES):
            bound = _bound(node)
            self.known = {name: path for name, path in known.items() if name not in bound}
        super().visit(node)
        self.known = known

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self._require(node, path)

    def _require(self, node: Any, path: str) -> None:
        name = _first_missing(path)
        if name is not None and not any(name == own or name.startswith(f"{own}.") for own in self.own):
            self.found.add(Missing(node.lineno, node.col_offset + 1, name, missing.explain(name)))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound(scope: ast.AST) -> set[str]:
    """List the names that a function or comprehension binds, but those it imports."""
    bound: set[str] = set()
    shared: set[str] = set()
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            shared.update(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            shared.update(item.asname or item.name for item in node.names)
        if not isinstance(node, (*_SCOPES, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return bound - shared


def _below(module: str) -> str | None:
    """Return what follows TensorFlow's name in a module's, or None for another module."""
    for root in ROOTS:
        if module == root:
            return ""
        if module.startswith(f"{root}."):
            return module[len(root) + 1 :]
    return keras_name(module)


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
