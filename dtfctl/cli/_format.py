"""Values in words and columns. Pure functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

STATE_COLORS = {
    "running": "green",
    "succeeded": "green",
    "up": "green",
    "healthy": "green",
    "failed": "red",
    "crashed": "red",
    "lost": "red",
    "down": "red",
    "starting": "yellow",
    "pending": "yellow",
    "stopping": "yellow",
    "recovering": "yellow",
    "suspect": "yellow",
    "quarantined": "yellow",
    "queued": "cyan",
}

LEAST_COLUMN = 10
"""Characters that are left of a column where there is no room; a task's name and state fit."""
LEAST_REASON = 24


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Callable[[str, str], str] = lambda text, _: text,
    width: int = 0,
) -> list[str]:
    """Rows under a header in aligned columns; `style(text, colour)` paints the header and words that name a state.

    What is wider than `width` (0: no limit) is made to fit: long cells are cut, then columns at the end left out, but
    for REASON.
    """
    if not rows:
        return []
    if width:
        header, rows = _fitted(header, rows, width)
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    out = [style("  ".join(cell.ljust(w) for cell, w in zip(header, widths)).rstrip(), "bold")]
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths)):
            pad = "" if i == len(row) - 1 else " " * (width - len(cell))
            color = STATE_COLORS.get(cell.split(" ", 1)[0])
            cells.append((style(cell, color) if color else cell) + pad)
        out.append("  ".join(cells).rstrip())
    return out


def _fitted(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    narrow = [LEAST_REASON if name == "REASON" else max(len(name), LEAST_COLUMN) for name in header]
    kept = list(range(len(header)))

    def least() -> int:
        return sum(min(narrow[i], widths[i]) for i in kept) + 2 * (len(kept) - 1)

    while len(kept) > 2 and least() > width:
        # Why something is as it is tells more than what it uses.
        last = next((i for i in reversed(kept) if header[i] != "REASON"), kept[-1])
        if last in kept[:2]:
            break
        kept.remove(last)
    if least() > width:
        narrow = [LEAST_COLUMN if name == "REASON" else least_of for name, least_of in zip(header, narrow)]
    header, rows = [header[i] for i in kept], [[row[i] for i in kept] for row in rows]
    widths, narrow, count = [widths[i] for i in kept], [narrow[i] for i in kept], len(kept)
    limits = widths[:count]
    while sum(limits) + 2 * (count - 1) > width:
        longest = max(range(count), key=lambda i: limits[i] - narrow[i])
        if limits[longest] <= narrow[longest]:
            break
        limits[longest] -= 1
    return header[:count], [[shortened(cell, limit) for cell, limit in zip(row, limits)] for row in rows]


def shortened(text: str, width: int) -> str:
    """`text` in so many characters, with an ellipsis where some are missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "\u2026"


def duration(seconds: float | None) -> str:
    """Write a time for people, two units at most: `0.4s`, `12s`, `3m05s`, `2h10m`, `4d3h`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def size(count: int | None) -> str:
    """Write a number of bytes for people: `512B`, `64MiB`, `1.5GiB`; `-` for None."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f}{unit}" if value >= 10 or unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}TiB"


def number(value: float) -> str:
    """Write a metric in at most four significant digits: `0.0312`, `12.5`, `1,204`."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == int(value):
        return str(int(value))
    if abs(value) < 0.0001:
        return f"{value:.1e}"
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.3f}".rstrip("0").rstrip(".")


def clock(epoch: float) -> str:
    """Write a moment as the local time of day with milliseconds."""
    return time.strftime("%H:%M:%S", time.localtime(epoch)) + f".{int(epoch * 1000) % 1000:03d}"


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def named(names: Sequence[str], most: int = 5) -> str:
    """Name the first of them, and say whether there are more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def age(since: float | None, now: float) -> str:
    """Say how long ago `since` was."""
    return "-" if since is None else duration(max(0.0, now - since))
