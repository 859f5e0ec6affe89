"""The cases, in the order of the table."""

from __future__ import annotations

from benchmarks.bench import Case
from benchmarks.cases import (
    chain,
    collectives,
    control_plane,
    exchange,
    memory,
    models,
    recording,
    scaling,
    steps,
    storage,
)


def all_cases() -> list[Case]:
    """Every case by family."""
    return [
        *steps.CASES,
        *models.CASES,
        *chain.CASES,
        *exchange.CASES,
        *collectives.CASES,
        *storage.CASES,
        *memory.CASES,
        *control_plane.CASES,
        *recording.CASES,
        *scaling.CASES,
    ]
