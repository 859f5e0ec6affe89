"""In which order each stage of a pipeline does its work, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Schedule(Enum):
    """What a stage does next, where it could do several things.

    Attributes:
        GPIPE: all micro-batches forwards, then all backwards, the last one first. A stage holds the activations of all.
        ONE_F_ONE_B: backwards as soon as there is a gradient. Stage s of p holds those of p - s micro-batches at most.
    """

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"


class Unit(NamedTuple):
    """One micro-batch on one stage, forwards or backwards."""

    is_forward: bool
    microbatch: int


def units_of(schedule: Schedule, stage: int, stages: int, microbatches: int) -> list[Unit]:
    """List what a stage does in a step, in order."""
    if schedule is Schedule.GPIPE:
        forwards = [Unit(True, k) for k in range(microbatches)]
        return forwards + [Unit(False, k) for k in backward_order(schedule, microbatches)]
    ahead = min(stages - 1 - stage, microbatches)
    order = [Unit(True, k) for k in range(ahead)]
    for k in range(microbatches - ahead):
        order += [Unit(True, ahead + k), Unit(False, k)]
    return order + [Unit(False, k) for k in range(microbatches - ahead, microbatches)]


def backward_order(schedule: Schedule, microbatches: int) -> list[int]:
    """List the micro-batches as all stages take them backwards."""
    order = range(microbatches)
    return list(reversed(order)) if schedule is Schedule.GPIPE else list(order)


def ideal_bubble(stages: int, microbatches: int) -> float:
    """Return the part of a step in which a stage has nothing to do, if all stages take the same time."""
    return (stages - 1) / (microbatches + stages - 1)


def simulated(
    schedule: Schedule, microbatches: int, forward_s: Sequence[float], backward_s: Sequence[float]
) -> tuple[float, float]:
    """Compute what a step takes if transfers take nothing.

    Args:
        forward_s, backward_s: seconds that each stage computes for one micro-batch.

    Returns:
        seconds of a step, and the part of them in which the stages, all together, have nothing to do.
    """
    stages = len(forward_s)
    orders = [units_of(schedule, s, stages, microbatches) for s in range(stages)]
    done: dict[tuple[int, Unit], float] = {}
    clock, at = [0.0] * stages, [0] * stages
    while any(at[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(orders[s]):
                unit = orders[s][at[s]]
                neighbour = s - 1 if unit.is_forward else s + 1
                start = clock[s]
                if 0 <= neighbour < stages:
                    if (neighbour, unit) not in done:
                        break
                    start = max(start, done[neighbour, unit])
                clock[s] = start + (forward_s[s] if unit.is_forward else backward_s[s])
                done[s, unit] = clock[s]
                at[s] += 1
    total = max(clock)
    busy = microbatches * (sum(forward_s) + sum(backward_s))
    return total, 1 - busy / (stages * total)


def most_held(schedule: Schedule, stage: int, stages: int, microbatches: int) -> int:
    """Return of how many micro-batches a stage holds the activations at most."""
    held = most = 0
    for unit in units_of(schedule, stage, stages, microbatches):
        held += 1 if unit.is_forward else -1
        most = max(most, held)
    return most
