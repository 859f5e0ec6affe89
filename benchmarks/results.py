"""What a run yields, and the arithmetic of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# A peer that seems to move bytes faster than this does not move them.
IMPOSSIBLE_BYTES_S = 30e9


@dataclass
class Timing:
    """One side's times of one case, seconds.

    Attributes:
        rounds: the median of each round.
        median, p99, best: of all.
        steps: how many were timed.
        cpu: CPU seconds a step, over all processes of the side; None where it was not taken.
        mean: of all, which says how many steps there are in a second; None where it was not taken.
    """

    median: float
    p99: float
    best: float
    steps: int
    rounds: list[float] = field(default_factory=list)
    cpu: float | None = None
    mean: float | None = None


@dataclass
class Ratio:
    """How many times as fast as the peer: median over the rounds, and the lowest and highest round.

    Attributes:
        by_mean: the same by the means of all steps: beside other work steps come in bursts with long waits between,
            which a median does not see.
    """

    median: float
    low: float
    high: float
    by_mean: float | None = None


@dataclass
class Row:
    """A line of the table.

    Attributes:
        case, what: the case's name; what it is, in words.
        ours, peer: timings; a side that failed has none.
        unit: "s" for times; else figures are plain numbers of this unit ("bytes").
        limit, limit_is: the physical limit in the same unit, and what it is made of.
        goal: the least ratio asked for; or, with `goal_is`, a text and `met` set by the case.
        note: why something is missing, or what to know.
        was_run: False when there was no time for the case.
        run: names the run it is of, among those of a table made of several.
    """

    case: str
    what: str
    ours_name: str = "ours"
    peer_name: str = ""
    ours: Timing | None = None
    peer: Timing | None = None
    ratio: Ratio | None = None
    unit: str = "s"
    limit: float | None = None
    limit_is: str = ""
    goal: float | None = None
    goal_is: str = ""
    met: bool | None = None
    verified: bool | None = None
    note: str = ""
    error: str = ""
    was_run: bool = True
    run: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def timing(rounds: Sequence[Sequence[float]], steps: int = 0, cpu: float | None = None) -> Timing:
    """Of the times of each round."""
    every = sorted(t for r in rounds for t in r)
    p99 = every[min(math.ceil(len(every) * 0.99), len(every)) - 1]
    medians = [statistics.median(r) for r in rounds]
    mean = statistics.fmean(every)
    return Timing(statistics.median(medians), p99, every[0], steps or len(every), medians, cpu, mean)


def ratio(ours: Timing, peer: Timing) -> Ratio:
    """Round against the round beside it."""
    each = [p / o for o, p in zip(ours.rounds, peer.rounds)]
    by_mean = peer.mean / ours.mean if peer.mean and ours.mean else None
    return Ratio(statistics.median(each), min(each), max(each), by_mean)


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the mean that ratios have; None of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.mean(logarithms)) if logarithms else None


def same_values(a: Sequence[float], b: Sequence[float], tolerance: float) -> bool:
    """Whether two sides computed the same."""
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance) for x, y in zip(a, b))


def judge(row: Row, bytes_moved: float = 0.0) -> Row:
    """Fill in the ratio and whether the goal is met; refuse a ratio that cannot be."""
    if row.ours is None or row.peer is None:
        return row
    if row.verified is False:
        row.note = "values differ: no ratio"
        row.met = False
        return row
    if bytes_moved and bytes_moved / row.peer.median > IMPOSSIBLE_BYTES_S:
        row.note = (
            f"the peer would have moved {bytes_moved / row.peer.median / 1e9:.0f} GB/s: its optimiser deleted the "
            "transfer, no ratio"
        )
        return row
    row.ratio = ratio(row.ours, row.peer)
    if row.goal is not None:
        row.met = row.ratio.median >= row.goal
    return row
