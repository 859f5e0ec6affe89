"""What the cluster file's `checkpoints` wants of a program that does not say itself how often it saves."""

from __future__ import annotations

import os
from typing import TypeVar

STEPS, SECONDS, KEEP = "DTF_CHECKPOINT_STEPS", "DTF_CHECKPOINT_SECONDS", "DTF_CHECKPOINT_KEEP"
SECONDS_OUTSIDE_A_JOB = 600.0

Amount = TypeVar("Amount", int, float)


def how_often() -> tuple[int | None, float | None]:
    """Find between how many steps, or else seconds, a checkpoint is written; one of the two is None.

    Raises:
        ValueError: the variable is no number above 0.
    """
    steps = _number(STEPS, int)
    if steps is not None:
        return steps, None
    seconds = _number(SECONDS, float)
    return None, SECONDS_OUTSIDE_A_JOB if seconds is None else seconds


def how_many(outside_a_job: int) -> int:
    """Find how many of the newest checkpoints are kept.

    Raises:
        ValueError: the variable is no number above 0.
    """
    kept = _number(KEEP, int)
    return outside_a_job if kept is None else kept


def _number(variable: str, kind: type[Amount]) -> Amount | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        number = kind(text)
    except ValueError:
        number = kind(0)
    if not number > 0:
        raise ValueError(f"{variable} is {text!r}: it has to be a number above 0")
    return number
