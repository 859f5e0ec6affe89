"""The benchmark harness runs and judges; what it measures is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.cases import all_cases
from benchmarks.results import Row, judge, same_values, timing
from benchmarks.rounds import StepCase

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_local_case_and_one_on_real_servers_run_and_make_a_table() -> None:
    names = ["--case", "feed-add-callable", "--case", "scalar-ps"]
    data = bench("--quick", "--no-peers", "--rounds", "1", "--seconds", "0.01", *names)
    rows = {row["case"]: row for row in data["rows"]}
    assert set(rows) == {"feed-add-callable", "scalar-ps"}
    assert all(row["ours"]["steps"] >= 1 and not row["error"] for row in rows.values())
    assert "OpenBLAS" in data["machine"]["sides"]["ours"]["blas"]
    page = report.write_docs(f"before\n{report.START}\nold\n{report.END}\nafter\n", data)
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page
    assert "| scalar synchronous ps step" in page


def test_cases_have_distinct_names_and_their_programs_exist() -> None:
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        if isinstance(case, StepCase):
            assert (ROOT / "benchmarks" / "programs" / f"{case.program}.py").is_file()


def compared(ours: list[list[float]], peer: list[list[float]], **more: Any) -> Row:
    return Row("c", "c", ours=timing(ours), peer=timing(peer), **more)


def test_a_ratio_is_of_rounds_beside_each_other() -> None:
    row = judge(compared([[1.0], [2.0], [4.0]], [[2.0], [8.0], [12.0]], goal=3.0, verified=True))
    assert row.ratio is not None
    assert (row.ratio.median, row.ratio.low, row.ratio.high) == (3.0, 2.0, 4.0)
    assert row.met is True


def test_no_ratio_for_a_transfer_that_cannot_have_happened() -> None:
    row = judge(compared([[1e-3]], [[1e-3]], goal=1.0, verified=True), bytes_moved=100e6)
    assert row.ratio is None and row.met is None
    assert "100 GB/s" in row.note


def test_no_ratio_where_values_differ() -> None:
    row = judge(compared([[1.0]], [[2.0]], goal=1.0, verified=False))
    assert row.ratio is None and row.met is False


@pytest.mark.parametrize(
    ("a", "b", "same"), [([1.0, 0.0], [1.00001, 1e-5], True), ([1.0], [1.01], False), ([1.0], [1.0, 1.0], False)]
)
def test_values_compare_within_a_tolerance(a: list[float], b: list[float], same: bool) -> None:
    assert same_values(a, b, 1e-4) is same
