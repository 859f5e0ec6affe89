"""A spec back to plain data: what `dtfctl config` shows and what a controller keeps.

`to_document` gives dicts, lists and scalars that, written as YAML or JSON, read back as an equal spec.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dtfctl.launcher.spec import units
from dtfctl.launcher.spec.kinds import (
    Duration,
    Either,
    HostBlock,
    HostNames,
    Kind,
    ListOf,
    MapOf,
    Percent,
    PortRange,
    Rate,
    Size,
    Table,
    keys_of,
)
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec, HostName, Ports


def to_document(spec: ClusterSpec, *, defaults: bool = True) -> dict[str, Any]:
    """Write `spec` as plain data in the file's own keys and units; without `defaults` only what differs from them."""
    return _table(spec, ClusterSpec, defaults)


def to_json(spec: ClusterSpec) -> str:
    """Write `spec` as one line of JSON; `from_json` gives it back."""
    return json.dumps(to_document(spec, defaults=False), separators=(",", ":"))


def from_json(text: str) -> ClusterSpec:
    """Read the spec that `to_json` wrote. InvalidSpec if it is something else."""
    return parse_spec(text, "<stored spec>")


def _table(value: Any, cls: type, defaults: bool) -> dict[str, Any]:
    found = {}
    for item in keys_of(cls):
        part = getattr(value, item.attribute)
        if part is None or (not defaults and not item.required and part == item.default):
            continue
        if part == () or (part == {} and not item.required):
            continue
        found[item.name] = plain(item.key.kind, part, defaults)
    return found


def plain(kind: Kind, value: Any, defaults: bool = True) -> Any:
    """Write `value`, which is of `kind`, as it is written in a file."""
    match kind:
        case Table(cls):
            return _table(value, cls, defaults)
        case MapOf(value=part):
            return {name: plain(part, item, defaults) for name, item in value.items()}
        case HostBlock(group):
            return _groups(value, group, defaults)
        case ListOf(item=part):
            return [plain(part, item, defaults) for item in value]
        case HostNames():
            return _names(value)
        case Duration():
            return units.format_duration(value)
        case Size():
            return units.format_size(value)
        case Rate():
            return units.format_size(value) + "/s"
        case Percent():
            return units.format_percent(value)
        case PortRange():
            return _ports(value)
        case Either():
            return value
    return value


def _groups(groups: Mapping[str, Any], kind: Table, defaults: bool) -> dict[str, Any]:
    return {name: plain(kind, group, defaults) for name, group in groups.items()}


def _names(hosts: Iterable[HostName]) -> list[str]:
    """Write the hosts out; brackets stay, each around one value, so that `{1}` in `rack` keeps its meaning."""
    return [_name(host) for host in hosts]


def _name(host: HostName) -> str:
    text, position = "", 0
    for value in host.brackets:
        found = host.name.index(value, position)
        text += host.name[position:found] + f"[{value}]"
        position = found + len(value)
    text += host.name[position:]
    return f"{host.user}@{text}" if host.user else text


def _ports(ports: Ports) -> str | int:
    if ports.first is None or ports.last is None:
        return "auto"
    return ports.first if ports.first == ports.last else f"{ports.first}-{ports.last}"
