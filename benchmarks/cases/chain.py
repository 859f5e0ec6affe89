"""Many small ops: the executor's overhead, crossings, and what the first step costs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.steps import JOBS, trips
from benchmarks.results import Row
from benchmarks.rounds import Plan, StepCase, run_case
from benchmarks.transports import TRANSPORTS

FEW, MANY = 12_500, 50_000
COMPILE_GOAL_S = 3.0
LINEAR = 1.25
NOT_COMPARED = "ours only"


def _first_step(nodes: int, checked: bool) -> StepCase:
    return StepCase(
        name="first-step-50000",
        what=f"first step of a graph of {nodes:,} nodes, in one process",
        program="chain",
        # Each addition is a node, and so is what it adds.
        params={"ops": nodes // 2, "crossings": 0, "first_step": True},
        most=1,
        checked=checked,
    )


def _linearity(bench: Bench) -> Iterator[Row]:
    """A quarter of the graph by ours alone, all of it by both."""
    plan = Plan(2, 0.0, 0.0)
    (few,) = run_case(_first_step(FEW, False), plan, bench.limits, [bench.ours], NOT_COMPARED)
    (many,) = run_case(_first_step(MANY, True), plan, bench.limits, [bench.ours], bench.tensorflow)
    if few.ours is not None and many.ours is not None:
        growth = many.ours.best / few.ours.best / (MANY / FEW)
        many.goal_is = f"< {COMPILE_GOAL_S:g} s, growth <= {LINEAR:g}x linear"
        many.met = many.ours.median < COMPILE_GOAL_S and growth <= LINEAR
        many.note = f"{growth:.2f}x linear from {FEW:,} nodes"
        many.extra["growth"] = growth
    yield few
    yield many


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
    CustomCase(
        "first-step-50000", "first step of a 50,000-node graph, and its growth", _linearity, quick=False, most_s=150.0
    ),
]
