"""Many small ops: the executor's overhead, crossings, and what the first step costs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.steps import JOBS, trips
from benchmarks.results import Row
from benchmarks.rounds import Plan, StepCase, run_case
from benchmarks.transports import TRANSPORTS

NODE_COUNTS = (12_500, 25_000, 50_000)
COMPILE_GOAL_S = 3.0
LINEAR = 1.25


def _linearity(bench: Bench) -> Iterator[Row]:
    rows = []
    for nodes in NODE_COUNTS:
        case = StepCase(
            name="first-step-50000",
            what=f"first step of a graph of {nodes:,} nodes, in one process",
            program="chain",
            # Each addition is a node, and so is what it adds.
            params={"ops": nodes // 2, "crossings": 0, "first_step": True},
            most=1,
        )
        rows += run_case(case, Plan(2, 0.0, 0.0), bench.limits, [bench.ours], bench.tensorflow)
    yield from rows
    last, first = rows[-1], rows[0]
    if first.ours is None or last.ours is None:
        return
    growth = last.ours.best / first.ours.best / (NODE_COUNTS[-1] / NODE_COUNTS[0])
    yield Row(
        "first-step-50000",
        f"the same: seconds at {NODE_COUNTS[-1]:,} nodes, and growth against linear from {NODE_COUNTS[0]:,}",
        ours=last.ours,
        goal_is=f"< {COMPILE_GOAL_S:g} s, growth <= {LINEAR:g}x linear",
        met=last.ours.median < COMPILE_GOAL_S and growth <= LINEAR,
        note=f"{growth:.2f}x linear",
        extra={"growth": growth},
    )


CASES: list[Case] = [
    StepCase(
        name="chain-local",
        what="1000 chained scalar adds, one process, as written",
        program="chain",
        params={"ops": 1000, "crossings": 0},
        goal=0.85,
        limit=lambda limits, _: 1000 * 0.15e-6,
        limit_is="1000 numpy calls of 0.15 us",
    ),
    StepCase(
        name="chain-5000",
        what="5000 ops, 50 crossings between 2 tasks: step",
        program="chain",
        params={"ops": 5000, "crossings": 50},
        jobs=JOBS,
        goal=4.0,
        limit=lambda limits, _: trips(limits, 26) + 5000 * 0.15e-6,
        limit_is="26 round trips + 5000 numpy calls of 0.15 us",
        transports=TRANSPORTS,
    ),
    StepCase(
        name="chain-5000-first",
        what="5000 ops, 50 crossings between 2 tasks: first step of a session",
        program="chain",
        params={"ops": 5000, "crossings": 50, "first_step": True},
        jobs=JOBS,
        goal=1.0,
        most=1,
    ),
    CustomCase("first-step-50000", "first step of a 50,000-node graph, and its growth", _linearity, quick=False),
]
