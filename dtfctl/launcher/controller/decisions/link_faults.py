"""Broken links between hosts that both answer the controller: named with both ends, and nothing is restarted.

A task says whom it cannot reach. When the other one is well by its own agent's word, the link between them is at
fault: neither a restart nor a move of a task would be sure to mend it, so people are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dtfctl.launcher.model import TaskStatus

HOLD_S = 1.0
"""A report and the other side's silence may cross; a fault lasts."""


@dataclass(frozen=True, slots=True)
class LinkNews:
    kind: str
    subject: str
    reason: str


class LinkFaults:
    """Fed with the tasks by the controller's loop."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._named: dict[tuple[str, str], str] = {}

    @property
    def is_watching(self) -> bool:
        """Something was out of reach at the last look."""
        return bool(self._since)

    def look(
        self, tasks: Mapping[str, TaskStatus], unreachable: Mapping[str, tuple[str, ...]], now: float
    ) -> list[LinkNews]:
        """Find what is new. `unreachable`: task to those it says it cannot reach."""
        found = {
            (min(name, other), max(name, other)): name
            for name, others in unreachable.items()
            for other in others
            if _is_well(tasks.get(name)) and _is_well(tasks.get(other))
        }
        news = []
        for pair, name in found.items():
            since = self._since.setdefault(pair, now)
            if now - since >= HOLD_S and pair not in self._named:
                other = pair[1] if name == pair[0] else pair[0]
                text = (
                    f"{name} (host {tasks[name].host}) and {other} (host {tasks[other].host}) cannot reach each other, "
                    "though both hosts answer the controller"
                )
                self._named[pair] = text
                news.append(LinkNews("link.fault", name, text))
        for pair in [pair for pair in self._since if pair not in found]:
            del self._since[pair]
            if self._named.pop(pair, None) is not None:
                news.append(LinkNews("link.mended", pair[0], f"{pair[0]} and {pair[1]}"))
        return news

    def problems(self) -> list[str]:
        """Write one sentence for each fault there is now."""
        return [f"link fault: {text}" for text in self._named.values()]


def _is_well(task: TaskStatus | None) -> bool:
    return task is not None and task.state == "running" and task.health == "healthy"
