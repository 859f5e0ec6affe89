"""Hosts with the same trouble in one line: `gpu[017,042]: host key changed (known_hosts:81,95)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtfctl.launcher.spec.hostlist import fold


def grouped(troubles: Iterable[tuple[str, str, str]]) -> list[str]:
    """Write lines for (host, what, where), in the order in which each trouble first appears; `where` may be empty."""
    names: dict[str, list[str]] = {}
    places: dict[str, list[str]] = {}
    for name, what, where in troubles:
        names.setdefault(what, []).append(name)
        if where:
            places.setdefault(what, []).append(where)
    return [f"{fold(found)}: {what}{_joined(places.get(what, []))}" for what, found in names.items()]


def _joined(places: Sequence[str]) -> str:
    """Write `known_hosts:81` and `known_hosts:95` as ` (known_hosts:81,95)`."""
    lines: dict[str, list[str]] = {}
    for place in places:
        file, _, line = place.rpartition(":")
        lines.setdefault(file, []).append(line)
    return f" ({', '.join(f'{file}:' + ','.join(found) for file, found in lines.items())})" if lines else ""
