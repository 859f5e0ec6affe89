"""Each setting of a spec on its own: its value and whether the file or a default gave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfctl.launcher.spec.document import plain
from dtfctl.launcher.spec.hostlist import fold
from dtfctl.launcher.spec.kinds import (
    HostBlock,
    HostNames,
    Kind,
    MapOf,
    Table,
    keys_of,
)
from dtfctl.launcher.spec.load import read_file, read_spec
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.spec.parse import Path as KeyPath, Reader


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with a value: `restart.attempts`, `5`, `cluster.yaml:7:12` or `default`."""

    key: str
    value: str
    origin: str


def settings(path: str | Path) -> list[Setting]:
    """List every setting of the spec in the file at `path`, in the order of the reference. InvalidSpec as
    `load_spec`."""
    name = str(path)
    reader = Reader()
    spec = read_spec(read_file(path), name, reader)
    return [
        Setting(".".join(key), value, _origin(key, name, reader)) for key, value in _walk(Table(ClusterSpec), spec, ())
    ]


def _walk(kind: Kind, value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(kind, Table):
        for item in keys_of(kind.cls):
            part = getattr(value, item.attribute)
            if part is None or part == () or part == {}:
                continue
            yield from _walk(item.key.kind, part, (*path, item.name))
    elif isinstance(kind, (MapOf, HostBlock)):
        inner = kind.value if isinstance(kind, MapOf) else kind.group
        for name, part in value.items():
            yield from _walk(inner, part, (*path, name))
    elif isinstance(kind, HostNames):
        yield path, fold(host.name for host in value)
    else:
        yield path, _text(plain(kind, value, defaults=False))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items()) + "}"
    return str(value)


def _origin(key: KeyPath, file: str, reader: Reader) -> str:
    """Return the place of `key`; a list item or a short form (`worker: 2`) counts as the file's."""
    if key not in reader.marks:
        return "default"
    mark = reader.marks[key]
    return f"{file}:{mark.line}:{mark.column}"
