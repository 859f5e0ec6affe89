"""The spec's `restart` block; part of `model.py`."""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dtfctl.launcher.spec.kinds import (
    Choice,
    Duration,
    Fraction,
    Integer,
    ListOf,
    Number,
    Pattern,
    Percent,
    Seconds,
    Table,
    option,
)


@dataclass(frozen=True, slots=True)
class Delay:
    """Waits before restarts: `first`, then `then` times `factor` each time up to `max`, give or take `jitter`."""

    first: Seconds = option(Duration(positive=False), "Before the first restart.", "0s", default=0.0)
    then: Seconds = option(Duration(), "Before the second.", "500ms", default=0.5)
    factor: float = option(Number(low=1.0, high=100.0), "Growth from one to the next.", "2", default=2.0)
    max: Seconds = option(Duration(), "Never longer than this.", "30s", default=30.0)
    jitter: Fraction = option(Percent(), "Random part, so that tasks do not restart in step.", "25%", default=0.25)


@dataclass(frozen=True, slots=True)
class NeverWhen:
    """Endings after which a restart is pointless."""

    exit: tuple[int, ...] = option(ListOf(Integer(low=0, high=255)), "Exit codes.", "[2]", default=())
    log: tuple[str, ...] = option(
        ListOf(Pattern()),
        "Patterns in the task's log, in RE2's syntax.",
        '["CUDA out of memory"]',
        default=(),
    )


@dataclass(frozen=True, slots=True)
class BadHostWhen:
    """Signs that the host, not the task, is at fault."""

    log: tuple[str, ...] = option(
        ListOf(Pattern()), "Patterns in a task's log, in RE2's syntax.", '["Xid 79"]', default=()
    )


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens when a task ends by itself."""

    when: Literal["failure", "always", "never"] = option(
        Choice(("failure", "always", "never")),
        "Which endings are followed by a restart.",
        "failure",
        default="failure",
    )
    attempts: int = option(
        Integer(low=0, high=100_000),
        "Restarts of one task within `within`; then it is `crashed`.",
        "5",
        default=5,
    )
    within: Seconds = option(Duration(), "The window of `attempts`.", "10m", default=600.0)
    delay: Delay = option(Table(Delay), "Waits between restarts.", "{first: 0s, then: 500ms}", factory=Delay)
    healthy_after: Seconds = option(Duration(), "A run this long resets the delay.", "60s", default=60.0)
    move_after: int = option(Integer(low=1, high=1000), "Failures on one host before another is tried.", "2", default=2)
    never_when: NeverWhen = option(Table(NeverWhen), "Endings that are final.", "{exit: [2]}", factory=NeverWhen)
    bad_host_when: BadHostWhen = option(
        Table(BadHostWhen), "Signs of a bad host.", '{log: ["Xid 79"]}', factory=BadHostWhen
    )
