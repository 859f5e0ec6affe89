"""1, 2, 4 and 8 workers on this machine: the cost of each worker more, beside TensorFlow's curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.report import amount
from benchmarks.results import Row, Timing
from benchmarks.rounds import Plan, StepCase, run_case

WORKERS = (1, 2, 4, 8)
JOBS = {"ps": 1, "worker": 8}
ROUNDS = 3


def _curve(bench: Bench, name: str, what: str, program: str, params: Mapping[str, Any]) -> Iterator[Row]:
    plan = bench.plan if bench.quick else Plan(min(bench.plan.rounds, ROUNDS), 0.2, 0.1)
    first: Row | None = None
    for workers in WORKERS:
        case = StepCase(
            name=name,
            what=f"scaling: {what}, {workers} worker{'s' if workers > 1 else ''}",
            program=program,
            params={**params, "workers": workers},
            jobs=JOBS,
        )
        (row,) = run_case(case, plan, bench.limits, [bench.ours], bench.tensorflow)
        first = first or row
        ours = _each_more(first.ours, row.ours, workers)
        theirs = _each_more(first.peer, row.peer, workers)
        if ours is not None:
            row.note = f"each worker more: {amount(ours, 's')}"
            if theirs is not None:
                row.note += f", TensorFlow {amount(theirs, 's')}"
        row.extra |= {"workers": workers, "cost_per_worker_s": {"ours": ours, "tensorflow": theirs}}
        yield row


def _each_more(one: Timing | None, many: Timing | None, workers: int) -> float | None:
    """What each worker beyond the first adds to a step."""
    if one is None or many is None or workers == 1:
        return None
    return (many.median - one.median) / (workers - 1)


def _case(name: str, what: str, program: str, **params: Any) -> CustomCase:
    text = f"scaling over 1, 2, 4, 8 workers: {what}"
    return CustomCase(name, text, _run(name, what, program, params), quick=False, most_s=120.0)


def _run(name: str, what: str, program: str, params: Mapping[str, Any]) -> Any:
    return lambda bench: _curve(bench, name, what, program, params)


CASES: list[Case] = [
    _case("scaling-null", "null step", "null_step"),
    _case("scaling-1MB", "1 MB dense ps step", "ps_step", elements=250_000),
    _case("scaling-100MB", "100 MB dense ps step", "ps_step", elements=25_000_000),
    _case("scaling-sparse", "sparse ps step, 32 rows of 64 MB", "sparse_step", table_bytes=64 << 20),
]
