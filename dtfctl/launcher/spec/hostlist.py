"""Host names in the hostlist notation of HPC tools.

`r[1-2]g[01-03]` is six hosts, r1g01 to r2g03. Brackets hold numbers, ranges and steps (`[1-9/2]`), separated by commas.
Items are separated by commas too; `!name` leaves hosts out; `user@` before a name is the login. Zeros in front are
kept (`[01-24]`); numbers of one bracket that differ in width while one is padded are refused, because `[01-100]`
means different hosts to different tools.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dtfctl.errors import DtfctlError
from dtfctl.launcher.spec.model import HostName

MAX_HOSTS = 100_000

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?:/(\d{1,9}))?)?", re.ASCII)


class HostlistError(DtfctlError, ValueError):
    """A hostlist cannot be read; `offset` and `length` say where in the text."""

    def __init__(self, message: str, offset: int, length: int = 1) -> None:
        super().__init__(message)
        self.offset = offset
        self.length = max(1, length)


@dataclass(frozen=True, slots=True)
class _Item:
    """One comma-separated part and where it begins."""

    text: str
    offset: int


def expand(text: str) -> tuple[HostName, ...]:
    """Expand `text` into its hosts, in order. HostlistError for anything unclear, a host named twice included."""
    hosts: dict[str, HostName] = {}
    for item in _split(text):
        exclude = item.text.startswith("!")
        body = _Item(item.text[1:], item.offset + 1) if exclude else item
        for host in _expand_item(body):
            if exclude:
                if host.name not in hosts:
                    raise HostlistError(
                        f"`!` leaves out {host.name}, which is not listed before it", item.offset, len(item.text)
                    )
                del hosts[host.name]
            elif host.name in hosts:
                raise HostlistError(f"host {host.name} is listed twice", item.offset, len(item.text))
            else:
                hosts[host.name] = host
        if len(hosts) > MAX_HOSTS:
            raise HostlistError(f"more than {MAX_HOSTS} hosts", item.offset, len(item.text))
    if not hosts:
        raise HostlistError("no host is left", 0, len(text))
    return tuple(hosts.values())


def fold(names: Iterable[str]) -> str:
    """Write names as a short hostlist that this module reads back as the same set: `gpu[017,042]`, `r[1-2]n[1-4]`."""
    shapes: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for name in dict.fromkeys(names):
        tokens = [name] if ":" in name else re.split(r"([0-9]{1,9})", name)
        shapes.setdefault(tuple(tokens[::2]), []).append(tuple(tokens[1::2]))
    parts = []
    for literals, vectors in shapes.items():
        for dimension in reversed(range(len(literals) - 1)):
            alike: dict[tuple[tuple[str, ...], bool, int], list[tuple[str, ...]]] = {}
            for vector in vectors:
                digits = vector[dimension]
                # Padded numbers share a bracket only with numbers equally wide; `expand` wants it so.
                width = len(digits) if _is_padded(vectors, dimension, len(digits)) else 0
                others = (*vector[:dimension], *vector[dimension + 1 :])
                alike.setdefault((others, width > 0, width), []).append(vector)
            vectors = [
                (*same[0][:dimension], _numbers([v[dimension] for v in same]), *same[0][dimension + 1 :])
                for same in alike.values()
            ]
        parts += [
            literals[0] + "".join(number + tail for number, tail in zip(vector, literals[1:])) for vector in vectors
        ]
    return ",".join(parts)


def _is_padded(vectors: Iterable[tuple[str, ...]], dimension: int, width: int) -> bool:
    """Tell whether some number of this width begins with a zero that `0` itself would not have."""
    return any(
        len(vector[dimension]) == width and width > 1 and vector[dimension].startswith("0") for vector in vectors
    )


def _numbers(digits: list[str]) -> str:
    """Write numbers as a bracket: `[1-3,7]`; one number stands bare."""
    ordered = sorted(digits, key=int)
    runs: list[list[str]] = []
    for text in ordered:
        if runs and int(runs[-1][-1]) + 1 == int(text):
            runs[-1].append(text)
        else:
            runs.append([text])
    if len(ordered) == 1:
        return ordered[0]
    return "[" + ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"


def _split(text: str) -> list[_Item]:
    items: list[_Item] = []
    start, opened = 0, -1
    for i, char in enumerate(text + ","):
        if char == "[":
            if opened >= 0:
                raise HostlistError("a bracket inside a bracket", i)
            opened = i
        elif char == "]":
            if opened < 0:
                raise HostlistError("`]` without `[`", i)
            opened = -1
        elif char == "," and opened < 0:
            part = text[start:i]
            stripped = part.strip()
            if not stripped:
                raise HostlistError("an empty host name", min(start, max(0, len(text) - 1)))
            items.append(_Item(stripped, start + part.index(stripped[0])))
            start = i + 1
    if opened >= 0:
        raise HostlistError("`[` is never closed", opened)
    return items


def _expand_item(item: _Item) -> list[HostName]:
    user: str | None = None
    text, offset = item.text, item.offset
    if "@" in text:
        user, _, text = text.rpartition("@")
        if not _USER.fullmatch(user):
            raise HostlistError(f"{user!r} is not a user name", offset, len(item.text))
        offset += len(user) + 1
    if _is_address(text):
        return [HostName(text, user)]
    literals, choices = _parse_pattern(text, offset)
    total = 1
    for values in choices:
        total *= len(values)
    if total > MAX_HOSTS:
        raise HostlistError(f"this is {total} hosts; at most {MAX_HOSTS} are possible", offset, len(text))
    hosts = []
    for brackets in itertools.product(*choices):
        name = literals[0] + "".join(b + tail for b, tail in zip(brackets, literals[1:]))
        if len(name) > 253 or not _NAME.fullmatch(name):
            raise HostlistError(f"{name!r} is not a host name", offset, len(text))
        hosts.append(HostName(name, user, tuple(brackets)))
    return hosts


def _parse_pattern(text: str, offset: int) -> tuple[list[str], list[list[str]]]:
    """Read `a[1-2]b` as the literals ["a", "b"] and, between them, the choices [["1", "2"]]."""
    literals, choices = [], []
    position = 0
    while (left := text.find("[", position)) >= 0:
        right = text.index("]", left)
        literals.append(text[position:left])
        choices.append(_bracket(text[left + 1 : right], offset + left + 1))
        position = right + 1
    literals.append(text[position:])
    return literals, choices


def _bracket(text: str, offset: int) -> list[str]:
    values: list[str] = []
    widths: set[int] = set()
    padded = False
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise HostlistError(f"{part.strip()!r} is not a number or a range such as 1-4", offset, max(1, len(text)))
        first, last = match[1], match[2] or match[1]
        step = int(match[3] or "1")
        if step == 0:
            raise HostlistError("a step of 0", offset, len(text))
        if int(first) > int(last):
            raise HostlistError(f"the range {part.strip()} runs backwards", offset, len(text))
        if (int(last) - int(first)) // step >= MAX_HOSTS:
            raise HostlistError(f"the range {part.strip()} is longer than {MAX_HOSTS}", offset, len(text))
        for end in (first, last):
            widths.add(len(end))
            padded = padded or (len(end) > 1 and end.startswith("0"))
        values += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1, step)]
        if len(values) > MAX_HOSTS:
            raise HostlistError(f"more than {MAX_HOSTS} hosts", offset, len(text))
    if padded and len(widths) > 1:
        raise HostlistError(
            f"[{text}] mixes numbers with and without leading zeros; write all of them equally wide", offset, len(text)
        )
    return values


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
