"""Every exception of the package is in the documented tree, or never leaves it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import dtfctl
from dtfctl import errors as root
from dtfctl.launcher import errors
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.spec.problems import InvalidSpec, Problem

ROOT = Path(dtfctl.__file__).parent
STANDALONE = {f"launcher/providers/{path.name}" for path in (ROOT / "launcher/providers").glob("host_*.py")}
"""Sent to hosts alone: what it raises ends there, as text."""


def classes() -> dict[str, tuple[str, list[str]]]:
    """Of every class in the package: the file, and the names of its bases."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in STANDALONE or name.endswith("_pb2.py"):
            continue
        for node in class_definitions(ast.parse(path.read_text("utf-8"))):
            found[f"{name}:{node.name}"] = name, [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return found


def class_definitions(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Wherever they stand: expressions hold none, and are most of a tree."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            yield node
        for blocks in ("body", "handlers", "orelse", "finalbody", "cases"):
            children = getattr(node, blocks, ())
            waiting += children if isinstance(children, list) else ()


@cache
def exceptions() -> dict[str, set[str]]:
    """Of every exception class: the names of all classes above it."""
    direct: dict[str, set[str]] = {}
    for place, (_, bases) in classes().items():
        direct.setdefault(place.rpartition(":")[2], set()).update(bases)

    def above(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        bases = direct.get(name, set()) - seen
        return bases | {item for base in bases for item in above(base, seen | {name})}

    found = {name: above(name) for name in direct}
    return {name: up for name, up in found.items() if up & {"Exception", "BaseException"} or up & {"ValueError"}}


@pytest.mark.slow
def test_no_exception_stands_beside_the_tree() -> None:
    found = exceptions()
    assert {"LauncherError", "OpError", "InvalidSpec", "HostFailed", "PeerUnavailable", "Broken"} <= set(found)
    loose = {
        name
        for name, up in found.items()
        if not up & {"DtfctlError", "Signal"} and name not in ("DtfctlError", "Signal") and not name.startswith("_")
    }
    assert not loose, f"derive them from LauncherError, OpError, or dtfctl.errors.Signal: {sorted(loose)}"


@pytest.mark.slow
def test_the_documented_trees_name_every_error() -> None:
    told = (errors.__doc__ or "") + (root.__doc__ or "")
    named = set(re.findall(r"── (\w+)", told))
    found = exceptions()
    launcher = {name for name, up in found.items() if "LauncherError" in up}
    direct = {name for name, up in found.items() if "DtfctlError" in up and not up & {"LauncherError", "OpError"}}
    assert launcher | direct <= named, f"not in the tree: {sorted((launcher | direct) - named)}"
    assert named <= set(found), f"no such class: {sorted(named - set(found))}"


@pytest.mark.parametrize(
    ("error", "arrives"),
    [
        (PeerUnavailable("it is away", "wait"), errors.LauncherError),
        (HostFailed("unreachable", "it is away", "wait"), errors.LauncherError),
        (InvalidSpec("lab.yaml", [Problem(1, 1, "it is away")]), errors.SpecError),
        (errors.NoSpace("it is away", "wait"), errors.NoSpace),
    ],
)
def test_every_error_crosses_a_process_boundary(
    error: errors.LauncherError, arrives: type[errors.LauncherError]
) -> None:
    got = errors.from_wire(errors.name_on_wire(error), error.message, error.hint)
    assert type(got) is arrives and got.message == error.message and got.hint == error.hint
    assert errors.from_wire("OfANewerVersion", "it is away", "").message == "it is away"
