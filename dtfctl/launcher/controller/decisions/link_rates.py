"""Links that become slow while tasks use them, by what the tasks' own transfers are carried at.

A rate that tasks measure is that of two programs on busy machines as well. So a link is slow only when it stays far
below what it once held for a while, and above `ENOUGH_BYTES_S` nothing is: there programs are what is measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.launcher.controller.decisions.link_faults import LinkNews
from dtfctl.launcher.model import TaskLink

LOOK_S = 1.0
LEAST_SHARE = 0.4
"""Less than this of what it was is no noise."""
HOLD_S = 10.0
"""How long a rate lasts before it counts."""
HOLD_SAMPLES = 5
"""How many transfers have to say the same."""
MENDED_SHARE = 0.7
ENOUGH_BYTES_S = 250e6


@dataclass
class _Way:
    """What is known of the way from one task to another.

    Attributes:
        usual: the highest rate that several looks agreed on.
        since, at: when the newest change, for worse or better, was first seen, and after how many samples.
    """

    samples: int = 0
    usual: float = 0.0
    newest: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    is_slow: bool = False
    since: float | None = None
    at: int = 0


class LinkRates:
    """Fed with what tasks report by the controller's loop."""

    def __init__(self) -> None:
        self._ways: dict[tuple[str, str], _Way] = {}
        self._looked_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to look again."""
        return now - self._looked_at >= LOOK_S

    def look(self, links: Sequence[tuple[str, TaskLink]], host_of: Mapping[str, str], now: float) -> list[LinkNews]:
        """Find what is new.

        Args:
            links: each with the task that sends.
            host_of: where tasks run, by name; what was known of a task that is not there is forgotten.
        """
        self._looked_at = now
        for pair in [pair for pair in self._ways if not (pair[0] in host_of and pair[1] in host_of)]:
            del self._ways[pair]
        news = []
        for name, link in links:
            source, target = host_of.get(name), host_of.get(link.peer)
            if source is None or target is None:
                continue
            way = self._ways.setdefault((name, link.peer), _Way())
            if link.samples < way.samples:
                way.at -= way.samples  # a new connection counts from the start
            if link.samples == way.samples:
                continue
            way.samples = link.samples
            before = way.usual
            if not _has_changed(way, link, now):
                continue
            figures = f"{name} to {link.peer}: {link.bytes_s / 1e6:,.4g} MB/s"
            if way.is_slow:
                figures += f", and {before / 1e6:,.4g} before"
            kind = "link.degraded" if way.is_slow else "link.recovered"
            news.append(LinkNews(kind, f"host:{target}", f"from {source}: {figures} (in training)"))
        return news


def _has_changed(way: _Way, link: TaskLink, now: float) -> bool:
    """Take a new figure; tell whether the link has become slow by it, or is well again."""
    way.newest.append(link.bytes_s)
    if len(way.newest) == way.newest.maxlen:
        way.usual = max(way.usual, min(way.newest))
    share = link.bytes_s / max(min(way.usual, ENOUGH_BYTES_S), 1.0)
    changes = way.usual > 0 and (share > MENDED_SHARE if way.is_slow else share < LEAST_SHARE)
    if not changes:
        way.since = None
        return False
    if way.since is None:
        way.since, way.at = now, link.samples
    if now - way.since < HOLD_S or link.samples - way.at < HOLD_SAMPLES:
        return False
    way.is_slow, way.since = not way.is_slow, None
    return True
