"""Checkpoints of 1 GB."""

from __future__ import annotations

from benchmarks.bench import Case
from benchmarks.rounds import StepCase


def checkpoint(way: str, goal: float | None, size: int, quick: bool) -> StepCase:
    return StepCase(
        name=f"checkpoint-{way}" if not quick else f"checkpoint-{way}-64MB",
        what=f"checkpoint of {size / 1e9:g} GB by tf.train.Saver: {'the call of save' if way == 'save' else 'restore'}",
        program="checkpoint",
        params={"total_bytes": size, "way": way},
        goal=goal,
        limit=lambda limits, _: size / limits.memcpy_bytes_s,
        limit_is="one copy in memory",
        most=1,
        quick=quick,
    )


def stall(size: int, quick: bool) -> StepCase:
    return StepCase(
        name="checkpoint-stall" if not quick else "checkpoint-stall-64MB",
        what=f"checkpoint of {size / 1e9:g} GB by CheckpointSaverHook: what the training is delayed by",
        program="checkpoint_stall",
        params={"total_bytes": size},
        goal=15.0,
        limit=lambda limits, _: size / limits.memcpy_bytes_s,
        limit_is="one copy in memory",
        most=1,
        quick=quick,
    )


CASES: list[Case] = [
    stall(72_000_000, quick=True),
    checkpoint("restore", 20.0, 72_000_000, quick=True),
    stall(1_000_000_000, quick=False),
    checkpoint("save", None, 1_000_000_000, quick=False),
    checkpoint("restore", 20.0, 1_000_000_000, quick=False),
]
