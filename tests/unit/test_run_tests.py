"""tools/run_tests.py: what may fail beside others and pass alone, what may not, and what a late machine leaves out."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"
    spec = importlib.util.spec_from_file_location("run_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ([("tests/lab/test_up.py::test_a", "call")], ["tests/lab/test_up.py::test_a"]),
        ([("tests/cluster/test_cli.py::test_a", "setup")] * 2, ["tests/cluster/test_cli.py::test_a"]),
        ([("tests/unit/kernels/test_math_oracle.py::test_a", "call")], []),
        ([("tests/lab/test_up.py::test_a", "call"), ("tests/unit/spec/test_load.py::test_b", "call")], []),
        ([("tests/lab/test_up.py::test_a", "call"), ("tests/lab/test_up.py::test_a", "teardown")], []),
        ([(f"tests/lab/test_up.py::test_{n}", "call") for n in range(5)], []),
        (
            [("tests/lab/test_up.py::test_a", "call"), ("tests/unit/spec/test_load.py::test_b", "no time")],
            ["tests/lab/test_up.py::test_a"],
        ),
        ([("tests/lab/test_up.py::test_a", "no time")], []),
        ([], []),
    ],
)
def test_only_few_tests_that_start_processes_get_a_second_try(
    run_tests: ModuleType, tmp_path: Path, failed: list[tuple[str, str]], again: list[str]
) -> None:
    failures = tmp_path / "failures"
    failures.write_text("".join(json.dumps({"test": test, "when": when}) + "\n" for test, when in failed))
    assert run_tests.may_run_again(failures, slow=False) == again


def test_on_a_slow_machine_few_of_any_kind_get_a_second_try(run_tests: ModuleType, tmp_path: Path) -> None:
    failures = tmp_path / "failures"
    tests = [f"tests/unit/spec/test_load.py::test_{n}" for n in range(5)]
    failures.write_text("".join(json.dumps({"test": test, "when": "call"}) + "\n" for test in tests[:4]))
    assert run_tests.may_run_again(failures, slow=True) == tests[:4]
    failures.write_text("".join(json.dumps({"test": test, "when": "call"}) + "\n" for test in tests))
    assert run_tests.may_run_again(failures, slow=True) == []


def test_what_a_late_machine_leaves_out_is_counted_by_folder(run_tests: ModuleType, tmp_path: Path) -> None:
    failures = tmp_path / "failures"
    late = ["tests/lab/test_up.py::test_a", "tests/lab/test_up.py::test_b[a/b]", "tests/unit/spec/test_load.py::test_c"]
    reports = [{"test": test, "when": "no time"} for test in [*late, *late]]
    failures.write_text(
        "".join(json.dumps(each) + "\n" for each in [*reports, {"test": "tests/x.py::a", "when": "call"}])
    )
    assert run_tests.not_reached(failures) == {"tests/lab": 2, "tests/unit/spec": 1}


@pytest.mark.parametrize(("until", "outcome"), [("0", "no tests ran"), ("9999999999", "1 passed")])
def test_no_test_begins_after_the_time_that_checks_have(tmp_path: Path, until: str, outcome: str) -> None:
    told = tmp_path / "told"
    test = "tests/unit/test_run_tests.py::test_what_a_late_machine_leaves_out_is_counted_by_folder"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", test],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "DTF_CHECKS_UNTIL": until, "DTF_TEST_FAILURES": str(told)},
        capture_output=True,
        text=True,
        check=False,
    )
    # A run that no time was left for has not passed.
    assert (ran.returncode == 0) == (until != "0"), ran.stdout
    assert outcome in ran.stdout
    assert (json.loads(told.read_text()) if told.exists() else None) == (
        {"test": test, "when": "no time"} if until == "0" else None
    )


def test_what_the_last_commits_touched_goes_first() -> None:
    tests = [
        "tests/unit/spec/test_hostlist.py",
        "tests/unit/test_run_tests.py::test_on_a_slow_machine_few_of_any_kind_get_a_second_try",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--collect-only", "-q", *tests],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "DTF_TEST_NEWEST": "tests/unit/test_run_tests.py"},
        capture_output=True,
        text=True,
        check=False,
    )
    collected = ran.stdout.splitlines()
    assert collected[0] == tests[1], ran.stdout
    assert collected[1].startswith(tests[0])


def test_only_files_of_tests_that_are_still_there_are_newest(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    assert run_tests.newest_tests() == []
    (tmp_path / "tests").mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for names in (["test_old.py", "test_gone.py", "programs.py"], ["test_new.py"]):
        for name in names:
            (tmp_path / "tests" / name).write_text("")
        subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
        subprocess.run([*git, "commit", "-qm", "more"], cwd=tmp_path, check=True)
    (tmp_path / "tests" / "test_gone.py").unlink()
    assert run_tests.newest_tests() == ["tests/test_new.py", "tests/test_old.py"]
