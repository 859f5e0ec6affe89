"""What a spec key may hold, as data.

Each key of the spec names one *kind*. The parser (`parse.py`), the JSON Schema (`schema.py`) and the reference
(`reference.py`) all read the same kinds, so they cannot disagree.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

MISSING: Final = dataclasses.MISSING

Seconds: TypeAlias = float
Fraction: TypeAlias = float


@dataclass(frozen=True, slots=True)
class Text:
    """A string; `pattern` is a full-match regular expression, `what` says it in words."""

    what: str = "text"
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression in RE2's syntax."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number from `low` to `high`, both included."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number; `above` excludes its bound, `low` and `high` include theirs."""

    low: float | None = None
    high: float | None = None
    above: float | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Duration:
    """A time with its unit, `500ms 2s 10m 1h 7d`; held as seconds."""

    positive: bool = True


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes with its unit, `64MiB 1.5GB`; held as bytes."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second, `10MiB/s`; held as bytes."""


@dataclass(frozen=True, slots=True)
class Percent:
    """`25%`; held as a fraction from 0 to 1."""


@dataclass(frozen=True, slots=True)
class PortRange:
    """`auto`, one port number, or `20000-20999`; held as a `Ports`."""


@dataclass(frozen=True, slots=True)
class HostNames:
    """Host names in hostlist notation, a string or a list of them; held expanded, with their bracket values."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; where `single` is set, one bare item stands for a list of one."""

    item: Kind
    single: bool = True


@dataclass(frozen=True, slots=True)
class MapOf:
    """Names to values. `names` limits the names to a fixed set, else `pattern` (said in `what`) does."""

    value: Kind
    what: str = "name"
    pattern: str | None = None
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A block of fixed keys, one dataclass. A bare scalar stands for `{short: scalar}` where `short` is set."""

    cls: type
    short: str | None = None


@dataclass(frozen=True, slots=True)
class HostBlock:
    """The `hosts` key: a hostlist, a list of them, or groups by name; held as groups by name."""

    group: Table


@dataclass(frozen=True, slots=True)
class Either:
    """The first kind that takes the value's form wins."""

    kinds: tuple[Kind, ...]


Kind = (
    Text
    | Pattern
    | Integer
    | Number
    | Flag
    | Choice
    | Duration
    | Size
    | Rate
    | Percent
    | PortRange
    | HostNames
    | ListOf
    | MapOf
    | Table
    | HostBlock
    | Either
)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table: how it is written, what it holds and why one would set it."""

    kind: Kind
    help: str
    example: str
    name: str | None = None
    """How the key is written where it is a Python keyword; the attribute's own name otherwise."""
    default_text: str | None = None
    """What the reference says about the default where the value itself does not."""


def option(
    kind: Kind,
    help: str,
    example: str,
    *,
    default: Any = MISSING,
    factory: Any = MISSING,
    name: str | None = None,
    default_text: str | None = None,
) -> Any:
    """Make a dataclass field that is also a key of the spec. Without `default` and `factory` the key is required."""
    meta = {"key": Key(kind, help, example, name, default_text)}
    if default is not MISSING:
        return field(default=default, metadata=meta)
    if factory is not MISSING:
        return field(default_factory=factory, metadata=meta)
    return field(metadata=meta)


@dataclass(frozen=True, slots=True)
class TableKey:
    """A key together with the dataclass field that holds it."""

    name: str
    attribute: str
    key: Key
    required: bool
    default: Any


def keys_of(cls: type) -> tuple[TableKey, ...]:
    """Return the spec keys of dataclass `cls`, in the order in which they are declared."""
    found = []
    for item in dataclasses.fields(cls):
        info: Key | None = item.metadata.get("key")
        if info is None:
            continue
        default: Any = MISSING
        if item.default is not MISSING:
            default = item.default
        elif item.default_factory is not MISSING:
            default = item.default_factory()
        found.append(TableKey(info.name or item.name, item.name, info, default is MISSING, default))
    return tuple(found)
