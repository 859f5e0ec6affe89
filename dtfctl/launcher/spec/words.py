"""A kind in words, for error messages and the reference."""

from __future__ import annotations

from dtfctl.launcher.spec.kinds import (
    Choice,
    Duration,
    Either,
    Flag,
    HostBlock,
    HostNames,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Number,
    Pattern,
    Percent,
    PortRange,
    Rate,
    Size,
    Table,
    Text,
    keys_of,
)


def words(kind: Kind) -> str:
    """Say what `kind` takes, so that "expected ..." reads well."""
    match kind:
        case Text(what=what):
            return what
        case Pattern():
            return "a regular expression"
        case Integer(low, high):
            return "a whole number" + _bounds(low, high)
        case Number(low, high, above):
            return f"a number above {above:g}" if above is not None else "a number" + _bounds(low, high)
        case Flag():
            return "true or false"
        case Choice(options):
            return _either([f"`{option}`" for option in options])
        case Duration():
            return "a duration such as 500ms, 2s, 10m or 1h"
        case Size():
            return "a size such as 512MiB or 24GiB"
        case Rate():
            return "bytes per second such as 10MiB/s"
        case Percent():
            return "a percentage such as 25%"
        case PortRange():
            return "`auto`, a port from 1 to 65535, or a range such as 20000-20999"
        case HostNames():
            return "host names such as node[1-4] or alice@gpu[01-08],!gpu03"
        case ListOf(item, single):
            return f"{words(item)}, or a list of them" if single else f"a list, each {words(item)}"
        case MapOf(value, what, _, names):
            if names:
                return f"a block with {_either([f'`{name}`' for name, _ in names])}"
            return f"a block of {what} to {words(value)}"
        case Table(cls, short):
            block = "a block with " + _some([f"`{item.name}`" for item in keys_of(cls)])
            if short is None:
                return block
            brief = next(item.key.kind for item in keys_of(cls) if item.name == short)
            return f"{words(brief)}, or {block}"
        case HostBlock():
            return "host names such as node[1-4], a list of them, or a block of named groups"
        case Either(kinds):
            return _either([words(part) for part in kinds])


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f", {low:g} to {high:g}" if low != high else f", {low:g}"
    return f", {low:g} or more" if low is not None else ""


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]


def _some(parts: list[str]) -> str:
    return _either(parts) if len(parts) <= 8 else ", ".join(parts[:6]) + ", ..."
