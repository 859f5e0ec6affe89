"""Sums over tasks without a parameter server."""

from __future__ import annotations

from benchmarks.bench import Case
from benchmarks.cases.steps import MB, moved, size_text, trips
from benchmarks.rounds import StepCase
from benchmarks.transports import WITH_TLS


def _all_reduce(size: int, workers: int, quick: bool = False) -> StepCase:
    text = size_text(size)
    return StepCase(
        name=f"all-reduce-{text.replace(' ', '')}-{workers}",
        what=f"all-reduce of {text} over {workers} workers",
        program="all_reduce",
        params={"elements": size // 4, "workers": workers},
        jobs={"ps": 1, "worker": workers},
        goal=5.0,
        limit=lambda limits, transport: (
            trips(limits, 2) + moved(limits, transport, 2 * (workers - 1) / workers * size * workers)
        ),
        limit_is="2 round trips, and 2(n-1)/n of the bytes for each of n workers, one worker after the other",
        bytes_moved=2 * (workers - 1) * size,
        transports=WITH_TLS if workers == 2 else (),
        quick=quick,
    )


CASES: list[Case] = [
    _all_reduce(4000, 2),
    _all_reduce(1 * MB, 2, quick=True),
    _all_reduce(100 * MB, 2),
    _all_reduce(4000, 4),
    _all_reduce(1 * MB, 4),
    _all_reduce(100 * MB, 4),
]
