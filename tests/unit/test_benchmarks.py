"""The benchmark harness runs and judges; what it measures is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from benchmarks import __main__ as command, processes, report, rounds, store
from benchmarks.bench import Bench, CustomCase
from benchmarks.cases import all_cases, zoo
from benchmarks.limits import Limits
from benchmarks.machine import describe
from benchmarks.processes import Side
from benchmarks.programs.zoo import STEPS, models
from benchmarks.results import Row, geometric_mean, judge, same_values, timing
from benchmarks.rounds import Plan, StepCase
from benchmarks.transports import WITH_TLS

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_a_local_case_and_one_on_real_servers_run_and_make_a_table() -> None:
    names = ["--case", "feed-add-callable", "--case", "scalar-ps"]
    data = bench("--quick", "--no-peers", "--rounds", "1", "--seconds", "0.01", "--patience", "10", *names)
    rows = {row["case"]: row for row in data["rows"]}
    assert set(rows) == {"feed-add-callable", "scalar-ps"}
    assert all(row["ours"]["steps"] >= 1 and not row["error"] for row in rows.values())
    (run,) = data["runs"].values()
    assert "OpenBLAS" in run["machine"]["sides"]["ours"]["blas"]
    table = store.Table.from_json(data)
    page = report.write_docs(f"before\n{report.START}\nold\n{report.END}\nafter\n", table)
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page
    assert "| scalar synchronous ps step" in page


@pytest.mark.parametrize("model", models.MODELS)
def test_models_of_the_zoo_learn(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are measured, by batch and with regions: large steps are planned otherwise than small ones."""
    monkeypatch.delenv("DTF_NATIVE", raising=False)
    program = models.build(tf, "", model, zoo.BATCHES[model])
    losses = program.values()[:STEPS]
    program.step()
    program.close()
    assert losses[-1] < losses[0]
    assert set(models.MODELS) == set(zoo.BATCHES)
    assert len({case.name for case in zoo.CASES}) == len(zoo.CASES)


def test_the_mean_of_ratios() -> None:
    assert geometric_mean([4.0, 0.25, 8.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None


LIMITS = Limits(1e-5, 1e-5, 1e9, 1e10, 1e11, 1e9, 1e-3)


def a_bench(**more: Any) -> Bench:
    return Bench(Plan(), LIMITS, {}, "not compared", True, False, lambda text: None, **more)


def test_a_case_that_hangs_is_ended_with_its_reason_and_what_it_had() -> None:
    def rows(_: Bench) -> Iterator[Row]:
        yield Row("stuck", "before")
        subprocess.run(["sleep", "300"], env=processes.clean_environment(), check=True)
        yield Row("stuck", "after")

    done, failed = a_bench().run(CustomCase("stuck", "hangs", rows, most_s=0.5))
    assert done.what == "before" and not done.error
    assert "not done within" in failed.error and report.cells(failed)[-1] == "failed"


def test_a_case_there_is_no_time_for_is_not_begun_and_keeps_its_old_row() -> None:
    def never(_: Bench) -> Iterator[Row]:
        raise AssertionError("it was begun")

    (row,) = a_bench(until=time.monotonic()).run(CustomCase("late", "late", never))
    assert not row.was_run and report.cells(row)[-1] == "not run"
    table = a_table([Row("late", "late", ours=timing([[1.0]]))], ["late"])
    table.add(a_run("second"), [row], ["late"])
    assert [r.ours is not None for r in table.rows] == [True]


def test_what_a_run_leaves_behind_is_found_and_ended() -> None:
    # It leaves its parent and its session, as a daemon does.
    code = (
        "import os, sys, time; os.fork() and sys.exit(); os.setsid(); print(os.getpid(), flush=True); time.sleep(300)"
    )
    environment = processes.clean_environment()
    done = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert done.stdout is not None
    pid = int(done.stdout.readline())
    done.stdout.close()
    done.wait()
    assert any("time.sleep(300)" in command for command in processes.sweep())
    assert not is_running(pid)
    assert processes.sweep() == []


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def a_run(command: str) -> store.Run:
    return store.Run(command, f"date of {command}", describe(), LIMITS)


def a_table(rows: list[Row], order: list[str]) -> store.Table:
    table = store.Table()
    table.add(a_run("first"), rows, order)
    return table


def test_a_run_replaces_its_own_rows_and_every_row_keeps_its_date(tmp_path: Path) -> None:
    order = ["one", "two"]
    old = [Row("two", "old two"), Row("one", "old one"), Row("one", "old one", ours_name="ours (tcp)")]
    table = a_table(old, order)
    table.add(a_run("second"), [Row("one", "new one", ours=timing([[1.0, 2.0]]))], order)
    path = tmp_path / "table.json"
    store.save(path, table)
    back = store.load(path)
    assert [(r.what, back.runs[r.run].date) for r in back.rows] == [
        ("old one", "date of first"),
        ("new one", "date of second"),
        ("old two", "date of first"),
    ]
    assert back.rows[1].ours == timing([[1.0, 2.0]])
    text = report.markdown(back)
    assert "`second`, date of second" in text and "| new one |" in text
    # Nothing of the first run is left, and so it is not named.
    back.add(a_run("third"), [Row("one", "x"), Row("one", "x", ours_name="ours (tcp)"), Row("two", "x")], order)
    assert [run.command for run in back.runs.values()] == ["third"]


def test_prefixes_and_whole_names_may_be_given_together() -> None:
    given = ["--case", "mlp-small", "--case", "feed-add", "--case", "cnn"]
    options = command._options().parse_args(given)
    names = [case.name for case in command._chosen(all_cases(), options)]
    assert names == ["mlp-small-local", "mlp-small-ps", "cnn", "feed-add"]


def test_a_name_of_no_case_is_refused_though_others_are_known() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--case", "cnn", "--case", "nothing"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "nothing" in done.stderr and "cnn" not in done.stderr


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


def test_only_transports_that_are_chosen_by_themselves_have_goals() -> None:
    (case,) = (case for case in all_cases() if case.name == "dense-1MB")
    assert isinstance(case, StepCase)
    limits = Limits(1e-4, 1e-5, 1e9, 1e10, 1e11, 1e9, 1e-3)
    goals = {t: rounds._row(case, Side(f"ours ({t})", "ours", ""), "nobody", limits).goal for t in WITH_TLS}
    assert goals == {"tcp": 3.0, "tls": None, "grpc": None}


def test_no_ratio_where_values_differ() -> None:
    row = judge(compared([[1.0]], [[2.0]], goal=1.0, verified=False))
    assert row.ratio is None and row.met is False


@pytest.mark.parametrize(
    ("a", "b", "same"), [([1.0, 0.0], [1.00001, 1e-5], True), ([1.0], [1.01], False), ([1.0], [1.0, 1.0], False)]
)
def test_values_compare_within_a_tolerance(a: list[float], b: list[float], same: bool) -> None:
    assert same_values(a, b, 1e-4) is same
