"""Durations, sizes, rates and percentages as people write them, and back."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s?(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.ASCII)
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)\s?%", re.ASCII)


def parse_duration(text: str) -> float:
    """Read the seconds in `text`: one or more of `2d 3h 4m 5s 6ms`, with or without spaces. ValueError if not one."""
    rest = text.strip()
    total = 0.0
    if not rest:
        raise ValueError("empty duration")
    while rest:
        match = _DURATION.match(rest)
        if match is None:
            raise ValueError(f"not a duration: {text!r}")
        total += float(match[1]) * _SECONDS[match[2]]
        rest = rest[match.end() :].lstrip()
    return round(total, 9)


def format_duration(seconds: float) -> str:
    """Write the shortest text that `parse_duration` reads back as `seconds`: `500ms`, `90s`, `10m`."""
    milliseconds = round(seconds * 1000)
    if abs(seconds * 1000 - milliseconds) > 1e-6:
        return f"{seconds * 1000:f}".rstrip("0").rstrip(".") + "ms"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def parse_size(text: str) -> int:
    """Read the bytes in `text`, such as `64MiB` or `1.5GB`. ValueError if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return round(float(match[1]) * _BYTES[match[2]])


def format_size(size: int) -> str:
    """Write the shortest text that `parse_size` reads back as `size`."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def parse_rate(text: str) -> int:
    """Read the bytes per second in `text`, such as `10MiB/s`. ValueError if it is not a rate."""
    if not text.strip().endswith("/s"):
        raise ValueError(f"not a rate: {text!r}")
    return parse_size(text.strip()[:-2])


def parse_percent(text: str) -> float:
    """Read the fraction in `text`, such as `25%`. ValueError if it is not a percentage from 0% to 100%."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(f"not a percentage: {text!r}")
    return float(match[1]) / 100


def format_percent(fraction: float) -> str:
    """Write `0.25` as `25%`."""
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"
