"""Selectors and times as they are typed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from dtfctl.launcher.errors import UsageError

FILLERS = frozenset({"task", "tasks"})


def selector_of(words: Sequence[str]) -> str:
    """Read the selector in `words`: `failed tasks` is `failed`, `ps worker/1` is `ps,worker/1`. UsageError if none."""
    found = [word for word in words if word not in FILLERS]
    if not found:
        raise UsageError("no task selected", "Selectors are `worker`, `worker/1`, `worker/0-3`, `failed` or `all`.")
    return ",".join(found)


def selector(text: str) -> str:
    """Read one selector given to an option, in which `failed tasks` is `failed`; empty where there is none."""
    return selector_of(text.split()) if text else ""


def seconds(text: str, option: str) -> float:
    """Read a duration given to `option`. UsageError if it is not one."""
    from dtfctl.launcher.spec.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(
            f"`{option} {text}` is not a duration", "Write it with its unit: 500ms, 10s, 5m, 1h."
        ) from None


def size_in_bytes(text: str, option: str) -> int:
    """Read a size given to `option`; 0 for `none`. UsageError if it is not one."""
    from dtfctl.launcher.spec.units import parse_size

    try:
        found = 0 if text == "none" else parse_size(text)
    except ValueError:
        found = -1
    if found < 0 or (found == 0 and text != "none"):
        raise UsageError(f"`{option} {text}` is not a size", "Write it with its unit: 200MiB, 4GiB; or none.")
    return found


def since(text: str) -> float:
    """Read the moment `--since` names, in seconds since the epoch: how long ago (`10m`), or a date and time."""
    from dtfctl.launcher.spec.units import parse_duration

    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"`--since {text}` is not a time", "Write how long ago, `10m`, or when, `2026-01-31T12:00`."
        ) from None
