"""1, 2, 4 and 8 workers on this machine: the cost of each worker more, beside TensorFlow's curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.results import Row
from benchmarks.rounds import Plan, StepCase, run_case

WORKERS = (1, 2, 4, 8)
JOBS = {"ps": 1, "worker": 8}


def _curve(bench: Bench, name: str, what: str, program: str, params: Mapping[str, Any]) -> Iterator[Row]:
    rows: list[Row] = []
    plan = bench.plan if bench.quick else Plan(5, 0.2, 0.15)
    for workers in WORKERS:
        case = StepCase(
            name=name,
            what=f"scaling: {what}, {workers} worker{'s' if workers > 1 else ''}",
            program=program,
            params={**params, "workers": workers},
            jobs=JOBS,
        )
        rows += run_case(case, plan, bench.limits, [bench.ours], bench.tensorflow)
    first = rows[0]
    for row, workers in zip(rows, WORKERS):
        costs = []
        for one, many in ((first.ours, row.ours), (first.peer, row.peer)):
            costs.append((many.median - one.median) / (workers - 1) if one and many and workers > 1 else None)
        if costs[0] is not None:
            row.note = f"each worker more: {costs[0] * 1e6:.0f} us" + (
                f", TensorFlow {costs[1] * 1e6:.0f} us" if costs[1] is not None else ""
            )
        row.extra["workers"] = workers
        row.extra["cost_per_worker_s"] = {"ours": costs[0], "tensorflow": costs[1]}
    yield from rows


def _case(name: str, what: str, program: str, **params: Any) -> CustomCase:
    return CustomCase(name, f"scaling over 1, 2, 4, 8 workers: {what}", _run(name, what, program, params), quick=False)


def _run(name: str, what: str, program: str, params: Mapping[str, Any]) -> Any:
    return lambda bench: _curve(bench, name, what, program, params)


CASES: list[Case] = [
    _case("scaling-null", "null step", "null_step"),
    _case("scaling-1MB", "1 MB dense ps step", "ps_step", elements=250_000),
    _case("scaling-100MB", "100 MB dense ps step", "ps_step", elements=25_000_000),
    _case("scaling-sparse", "sparse ps step, 32 rows of 64 MB", "sparse_step", table_bytes=64 << 20),
]
