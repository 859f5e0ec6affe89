"""`dtfctl up`, `plan`, `down`, `restart` and `scale`: what the launcher is asked, what is printed, the exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import UpResult
from dtfctl.launcher.model import ClusterInfo, Event
from tests.doubles.launcher import FakeLauncher
from tests.unit.cli.harness import DEGRADED, EVENTS, HEALTHY, LOCAL, Dtfctl, job


def up_result(fake: FakeLauncher, **changes: Any) -> UpResult:
    values: dict[str, Any] = {
        "cluster": fake.Cluster("demo"),
        "wanted": 3,
        "running": 3,
        "changes": ("start ps/0",),
        "problems": (),
        "elapsed_s": 1.24,
        **changes,
    }
    return UpResult(**values)


def test_up_says_what_runs_and_what_happened(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY, happened=EVENTS)
    fake.up_result = up_result(fake)
    result = dtfctl("up", LOCAL, fake=fake)
    assert (result.code, result.out) == (0, "demo is up: 3/3 tasks run (1.2s)\n")
    assert result.err.splitlines() == [
        "  ps/0: starting",
        "  worker/1: failed (exit code 1)",
        "next: dtfctl submit SCRIPT",
    ]
    assert fake.specs[0].task_names == ("ps/0", "worker/0", "worker/1")


def test_a_cluster_whose_tasks_had_to_be_started_was_not_up_already(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY, happened=EVENTS[:1])
    fake.up_result = up_result(fake, changes=())
    assert dtfctl("up", LOCAL, fake=fake).out == "demo is up: 3/3 tasks run (1.2s)\n"
    assert dtfctl("up", LOCAL, "-q", fake=fake).out == "demo is up: 3/3 tasks run (1.2s)\n"


@pytest.mark.parametrize(
    ("changes", "code", "line"),
    [
        ({"changes": ()}, 0, "demo was up already: 3/3 tasks run (1.2s)"),
        ({"running": 2, "problems": ("worker/1: port taken",)}, 5, "demo is up in part: 2/3 tasks run (1.2s)"),
        ({"running": 0, "usable": False}, 1, "demo is not up: 0/3 tasks run (1.2s)"),
    ],
)
def test_up_has_an_exit_code_for_each_outcome(dtfctl: Dtfctl, changes: dict[str, Any], code: int, line: str) -> None:
    fake = FakeLauncher(HEALTHY)
    fake.up_result = up_result(fake, **changes)
    result = dtfctl("up", LOCAL, fake=fake)
    assert (result.code, result.out.splitlines()[0]) == (code, line)
    assert all(f"error: {problem}" in result.err for problem in changes.get("problems", ()))


def test_what_up_says_to_type_next_fits_the_failure(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("cluster: demo\nhosts: [a]\ntasks: {worker: 2}\n")
    refused = replace(HEALTHY.hosts[0], name="a", state="pending", cause="auth", last_error="no key lets us in")

    def said(path: object, changes: dict[str, Any], happened: tuple[Event, ...] = (), state: Any = HEALTHY) -> str:
        fake = FakeLauncher(state, happened=happened)
        fake.up_result = up_result(fake, usable=False, running=0, **changes)
        return dtfctl("up", str(path), fake=fake).err.splitlines()[-1]

    assert said(file, {"no_login": True}) == f"next: dtfctl hosts check {file}"
    assert said(file, {}, state=replace(HEALTHY, hosts=(refused,))) == f"next: dtfctl hosts check {file}"
    assert said(file, {}, EVENTS) == "next: dtfctl why worker/1"
    assert said(LOCAL, {}, EVENTS) == "next: dtfctl why worker/1"
    assert said(LOCAL, {}) == "next: dtfctl status"


def test_up_dry_run_and_plan_list_the_changes(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    fake.up_result = up_result(fake, cluster=None, running=0, changes=("start ps/0", "start worker/0"))
    expected = "demo: 2 changes\n  start ps/0\n  start worker/0\n"
    assert dtfctl("up", LOCAL, "--dry-run", fake=fake).out == expected
    assert dtfctl("plan", LOCAL, fake=fake).out == expected
    assert dtfctl("plan", LOCAL, "--exit-code", fake=fake).code == 10
    assert fake.calls == [("up", "demo", True)] * 3
    assert dtfctl("up", LOCAL, "--dry-run", "-o", "json", fake=fake).json["kind"] == "Plan"


def test_a_wrong_spec_starts_nothing_and_exits_3(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cluster: dev\ntasks: {wrker: 2}\n")
    fake = FakeLauncher()
    result = dtfctl("up", str(file), fake=fake)
    assert (result.code, result.out, fake.calls) == (3, "", [])
    assert f"{file}:2:9: `wrker` is not a job name" in result.err
    file.write_text("cluster: dev\ntasks: {wrker: 2, workr: 1}\n")
    assert dtfctl("up", str(file), fake=fake).err.endswith("2 problems; nothing was changed\n")


def test_ctrl_c_in_up_says_what_goes_on(dtfctl: Dtfctl) -> None:
    result = dtfctl("up", LOCAL, fake=FakeLauncher(error=KeyboardInterrupt()))
    assert result.code == 130
    assert "what demo had started goes on" in result.err
    assert "`dtfctl -c demo down` stops it" in result.err


def test_down(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    result = dtfctl("down", "--grace", "500ms", fake=fake)
    assert (result.code, result.out.split(" (")[0], result.err) == (0, "demo is down", "")
    assert fake.calls[-1] == ("down", None, 0.5)
    fake.down_problems = ("ps/0 does not end",)
    assert dtfctl("down", fake=fake).code == 5


def test_down_wants_a_yes_where_jobs_run(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(replace(HEALTHY, jobs=(job(), job(id="digits-0", state="succeeded"))))
    result = dtfctl("down", fake=fake)
    assert (result.code, result.out) == (7, "")
    assert "nothing was done: 1 job would be cancelled: digits-1 (running)" in result.err
    assert "dtfctl -c demo down --yes" in result.err
    assert "down" not in [call[0] for call in fake.calls]
    assert dtfctl("down", "--yes", fake=fake).code == 0
    assert dtfctl("-y", "down", fake=fake).code == 0


def test_down_wants_a_name_where_several_clusters_are_up(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeLauncher(HEALTHY)
    up = [ClusterInfo("demo", 1000.0, "/a", True), ClusterInfo("lab", 900.0, "/b", True)]
    monkeypatch.setattr(fake, "clusters", lambda: up)
    result = dtfctl("down", fake=fake)
    assert result.code == 7
    assert "demo is the newest of 2 clusters (the others: lab)" in result.err
    assert dtfctl("-c", "demo", "down", fake=fake).code == 0
    assert dtfctl("down", "--yes", fake=fake).code == 0


@pytest.mark.parametrize(
    ("words", "selector", "out"),
    [
        (["failed"], "failed", "restarted 1 task: worker/1"),
        (["failed", "tasks"], "failed", "restarted 1 task: worker/1"),
        (["worker/1"], "worker/1", "restarted 1 task: worker/1"),
        (["task", "worker/1"], "worker/1", "restarted 1 task: worker/1"),
        (["ps", "worker/0"], "ps,worker/0", "restarted 2 tasks: ps/0, worker/0"),
        (["all"], "all", "restarted 3 tasks: ps/0, worker/0, worker/1"),
    ],
)
def test_restart_takes_selectors_and_sentences(dtfctl: Dtfctl, words: list[str], selector: str, out: str) -> None:
    fake = FakeLauncher(DEGRADED)
    result = dtfctl("restart", *words, fake=fake)
    assert (result.code, result.out) == (0, out + "\n")
    assert fake.calls[-1] == ("restart", selector, 30.0)


def test_restart_failed_with_nothing_failed_says_so(dtfctl: Dtfctl) -> None:
    result = dtfctl("restart", "failed", fake=FakeLauncher(HEALTHY))
    assert (result.code, result.out) == (0, "nothing to restart: no task of demo has failed\n")


def test_restart_without_a_selector_is_wrong_usage(dtfctl: Dtfctl) -> None:
    assert dtfctl("restart", fake=FakeLauncher(HEALTHY)).code == 2
    assert dtfctl("restart", "tasks", fake=FakeLauncher(HEALTHY)).code == 2
    result = dtfctl("restart", "all", "--timeout", "5", fake=FakeLauncher(HEALTHY))
    assert (result.code, result.err.splitlines()[0]) == (2, "error: `--timeout 5` is not a duration")


def test_scale_takes_roles_and_numbers(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    result = dtfctl("scale", "worker=8", "ps=2", fake=fake)
    assert (result.code, result.out.splitlines()[0]) == (0, "demo: 2 changes")
    assert fake.calls[-1] == ("scale", {"worker": 8, "ps": 2})
    result = dtfctl("scale", "worker", fake=fake)
    assert (result.code, result.err.splitlines()[0]) == (2, "error: `worker` is not ROLE=N")


def test_lines_of_up_that_say_the_same_of_many_are_one(dtfctl: Dtfctl) -> None:
    def of(number: int, kind: str, reason: str = "") -> Event:
        return Event(number, 1000.0, kind, f"host:10.0.0.{number}", reason)

    happened = [of(number, "host.connecting") for number in range(1, 9)]
    happened += [of(number, "host.installing", f"core (37 MiB) from 10.0.0.{9 - number}") for number in range(1, 9)]
    happened += [of(number, "host.up", f"agent pid {number}") for number in range(1, 9)]
    happened += [of(9, "host.failed", "no answer within 10 s")]
    fake = FakeLauncher(HEALTHY, happened=happened)
    fake.up_result = up_result(fake)
    assert dtfctl("up", LOCAL, fake=fake).err.splitlines()[:-1] == [
        "  8 hosts: connecting",
        "  8 hosts: installing (core (37 MiB))",
        "  8 hosts: up",
        "  host:10.0.0.9: failed (no answer within 10 s)",
    ]


def test_down_says_for_whom_it_waits(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY, down_waits=(["a", "b"], ["b"]))
    result = dtfctl("down", "--yes", fake=fake)
    assert result.err.splitlines()[:2] == ["  waits for 2 hosts: a, b", "  waits for 1 host: b"]
    assert "waits" not in dtfctl("down", "--yes", "-q", fake=fake).err


def test_drain_waits_and_says_for_what_and_what_stays(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY, stays=("ps/0",))
    result = dtfctl("hosts", "drain", "localhost", "--reason", "new disk", fake=fake)
    assert (result.code, result.out) == (5, "drained: localhost\n")
    assert ("drain", ("localhost",), "new disk") in fake.calls
    assert result.err.splitlines()[0] == "  waits for ps/0, worker/0, worker/1 to run elsewhere"
    assert "no other host has room for ps/0" in result.err
    fake = FakeLauncher(HEALTHY)
    assert dtfctl("hosts", "drain", "localhost", "--no-wait", fake=fake).err == ""
    assert not any(call[0] == "wait_drained" for call in fake.calls)
