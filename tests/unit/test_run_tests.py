"""tools/run_tests.py: what may fail beside others and pass alone, what may not, and what a late machine leaves out."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.waiting import wait_until


def outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DTF_"))}


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
            [("tests/lab/test_up.py::test_a", "call"), ("tests/unit/spec/test_load.py::test_b", "passed")],
            ["tests/lab/test_up.py::test_a"],
        ),
        ([("tests/lab/test_up.py::test_a", "begun")], []),
        ([], []),
    ],
)
def test_only_few_tests_that_start_processes_get_a_second_try(
    run_tests: ModuleType, tmp_path: Path, failed: list[tuple[str, str]], again: list[str]
) -> None:
    events = tmp_path / "events"
    events.write_text("".join(json.dumps({"test": test, "when": when}) + "\n" for test, when in failed))
    assert run_tests.may_run_again(events, slow=False) == again


def test_on_a_slow_machine_few_of_any_kind_get_a_second_try(run_tests: ModuleType, tmp_path: Path) -> None:
    events = tmp_path / "events"
    tests = [f"tests/unit/spec/test_load.py::test_{n}" for n in range(5)]
    events.write_text("".join(json.dumps({"test": test, "when": "call"}) + "\n" for test in tests[:4]))
    assert run_tests.may_run_again(events, slow=True) == tests[:4]
    events.write_text("".join(json.dumps({"test": test, "when": "call"}) + "\n" for test in tests))
    assert run_tests.may_run_again(events, slow=True) == []


def test_what_a_late_machine_leaves_out_is_counted_by_folder(run_tests: ModuleType, tmp_path: Path) -> None:
    tests = [
        "tests/lab/test_up.py::test_a",
        "tests/lab/test_up.py::test_b[a/b]",
        "tests/unit/spec/test_load.py::test_c",
    ]
    events = [("collected", test) for test in [*tests, "tests/x.py::a"]]
    events += [("begun", "tests/x.py::a"), ("begun", tests[0]), ("call", "tests/x.py::a")]
    file = tmp_path / "events"
    file.write_text("".join(json.dumps({"test": test, "when": when}) + "\n" for when, test in events))
    assert run_tests.not_reached(file) == {"tests/lab": 1, "tests/unit/spec": 1}
    assert run_tests.stopped(file) == {tests[0]}


@pytest.mark.parametrize(
    ("until", "outcome", "at_a_time"),
    [("0", "no tests ran", "0"), ("0", "no tests ran", "2"), ("9999999999", "2 passed", "2")],
)
def test_no_test_begins_after_the_time_that_checks_have(
    tmp_path: Path, run_tests: ModuleType, until: str, outcome: str, at_a_time: str
) -> None:
    events = tmp_path / "events"
    name = "tests/unit/test_run_tests.py::test_only_few_tests_that_start_processes_get_a_second_try[failed{}-again{}]"
    tests = {name.format(n, n) for n in (0, 1)}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", at_a_time, "-p", "no:cacheprovider", *tests],
        cwd=Path(__file__).resolve().parents[2],
        env={**outside(), "DTF_CHECKS_UNTIL": until, "DTF_TEST_EVENTS": str(events)},
        capture_output=True,
        text=True,
        check=False,
    )
    # A run that no time was left for has not passed.
    assert ran.returncode == (pytest.ExitCode.NO_TESTS_COLLECTED if until == "0" else 0), ran.stdout
    assert outcome in ran.stdout
    assert run_tests.tests_that(events, "collected") == tests
    assert run_tests.tests_that(events, "begun") == run_tests.tests_that(events, "passed")
    assert len(run_tests.tests_that(events, "begun")) == (0 if until == "0" else 2)


@pytest.mark.parametrize(
    ("ended", "code"), [([("passed", "a")], 0), ([("passed", "a"), ("call", "c")], 1), ([("skipped", "a")], 5)]
)
def test_tests_that_outlast_the_time_are_named_and_the_others_judged(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: list[tuple[str, str]],
    code: int,
) -> None:
    def outlast(arguments: list[str], events: Path) -> int:
        told = [("begun", test) for test in "abc"] + ended
        events.write_text("".join(json.dumps({"test": test, "when": when}) + "\n" for when, test in told))
        raise subprocess.TimeoutExpired(arguments, 0)

    monkeypatch.setattr(run_tests, "pytest", outlast)
    assert run_tests.run([], tmp_path, slow=False) == code
    named = capsys.readouterr().out.split("STOPPED, AS TIME WAS OVER, IN:\n")[1].split()
    assert named == sorted(set("abc") - {test for _, test in ended})


def test_what_outlasts_the_time_is_killed_with_its_workers(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_hang.py").write_text(
        "import os, time, pytest\n"
        "@pytest.mark.parametrize('n', '12')\n"
        "def test_hang(n):\n"
        "    os.write(os.open('tests/running', os.O_WRONLY), b'x')\n"
        "    time.sleep(3600)\n"
    )
    os.mkfifo(tmp_path / "tests" / "running")
    running = os.open(tmp_path / "tests" / "running", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(running, True)
    popen = subprocess.Popen

    def started(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = popen(*args, **kwargs)
        wait_until(lambda: select.select([running], [], [], 0)[0] and len(os.read(running, 1)) == 1, "a test runs")
        wait_until(lambda: select.select([running], [], [], 0)[0] and len(os.read(running, 1)) == 1, "another runs")
        return process

    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests.subprocess, "Popen", started)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            run_tests.pytest(["-n", "2", "-p", "no:cacheprovider", "tests"], tmp_path / "events", until=0.0)
        assert os.read(running, 1) == b"", "nobody holds the other end any more"
    finally:
        os.close(running)


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
