"""Sums over tasks without a parameter server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.exchange import PEERS, start_ranks
from benchmarks.cases.steps import MB, moved, size_text, trips
from benchmarks.peers import Missing
from benchmarks.processes import ChildError
from benchmarks.results import Row, judge, timing
from benchmarks.rounds import Runner, StepCase
from benchmarks.transports import WITH_TLS

TIMES = 10


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


def _beside_peers(size: int, workers: int) -> CustomCase:
    """Compare sums one after the other, as gloo and MPICH run them; several of ours share the cost of a step."""
    text = size_text(size)
    return CustomCase(
        f"all-reduces-{text.replace(' ', '')}-{workers}",
        f"all-reduces of {text} over {workers} workers, {TIMES} in a step: one, against gloo's and MPICH's",
        lambda bench: _run_beside_peers(bench, size, workers),
        tuple(PEERS.values()),
        quick=False,
        full=size > 1 * MB and workers > 4,
    )


def _run_beside_peers(bench: Bench, size: int, workers: int) -> Iterator[Row]:
    case = replace(_all_reduce(size, workers), transports=())
    case = replace(case, params={**case.params, "times": TIMES}, limit=None, checked=False)
    for name, goal in (("gloo", 3.0), ("MPICH", 1.0)):
        text = size_text(size)
        row = Row(
            f"all-reduces-{text.replace(' ', '')}-{workers}",
            f"all-reduce of {text} over {workers} workers, one of {TIMES} in a step",
            peer_name=name,
            goal=goal,
        )
        try:
            peer = start_ranks(bench, name, workers)
        except (Missing, ChildError) as e:
            row.note = str(e)
            yield row
            continue
        ours = Runner(bench.ours, case)
        try:
            ours.warm(bench.plan.warm_s, case.most)
            steps = max(int(bench.plan.seconds / (size * workers / 2e9 + 1e-4)), 2)
            peer.ask({"do": "measure", "elements": size // 4, "steps": 2})
            theirs = []
            for _ in range(bench.plan.rounds):
                ours.round(bench.plan.seconds, case.most)
                theirs.append(peer.ask({"do": "measure", "elements": size // 4, "steps": steps})["times"])
            row.ours = timing([[t / TIMES for t in times] for times in ours.times], ours.steps)
            row.peer = timing(theirs)
            yield judge(row, 2 * (workers - 1) * size)
        finally:
            peer.stop()
            ours.end()


CASES: list[Case] = [
    _all_reduce(4000, 2),
    _all_reduce(1 * MB, 2, quick=True),
    _all_reduce(100 * MB, 2),
    _all_reduce(4000, 4),
    _all_reduce(1 * MB, 4),
    _all_reduce(100 * MB, 4),
    _all_reduce(4000, 8),
    _all_reduce(1 * MB, 8),
    *(_beside_peers(size, workers) for workers in (2, 4, 8) for size in (4000, 1 * MB, 100 * MB)),
]
