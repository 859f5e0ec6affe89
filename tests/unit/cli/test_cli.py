"""The command line over a launcher without processes: what is asked of it, what is printed, and the exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtfctl.cli._command import COMMANDS, EXITS, ORDER
from dtfctl.cli.app import run
from dtfctl.launcher import errors
from dtfctl.launcher.api import UpResult
from dtfctl.launcher.model import (
    ClientStatus,
    Event,
    JobChanged,
    JobEnded,
    JobOutput,
    JobProgress,
    JobStatus,
    LogLine,
    Progress,
)
from tests.doubles.launcher import FakeLauncher, status, task

ROOT = Path(__file__).parents[3]
LOCAL = str(ROOT / "cluster-examples" / "local.yaml")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Dtfctl = Callable[..., Result]


@pytest.fixture
def dtfctl(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Dtfctl:
    for name in ("DTFCTL_CLUSTER", "DTFCTL_OUTPUT"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, fake: FakeLauncher | None = None) -> Result:
        code = run(arguments, fake or FakeLauncher())
        sys.stdout.flush()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Result(code, captured.out, captured.err)

    return call


def job(**changes: Any) -> JobStatus:
    now = time.time()
    values: dict[str, Any] = {
        "id": "digits-1",
        "name": "digits",
        "state": "running",
        "replication": "between-graph",
        "script": "digits.py",
        "submitted": now - 190,
        "started": now - 185,
        "progress": Progress(200, 1000, {"loss": 0.31234, "accuracy": 0.94}),
        **changes,
    }
    return JobStatus(**values)


HEALTHY = status(task("ps/0"), task("worker/0", steps=1200), task("worker/1"))
CRASHED = task(
    "worker/1",
    state="crashed",
    health="down",
    restarts=5,
    exit_code=1,
    last_error="exit code 1",
    last_lines=("File train.py, line 3", "ValueError: no"),
)
DEGRADED = status(task("ps/0"), task("worker/0"), CRASHED, problems=["worker/1 crashed: exit code 1"])


# status


def test_status_of_a_healthy_cluster(dtfctl: Dtfctl) -> None:
    result = dtfctl("status", fake=FakeLauncher(HEALTHY))
    assert result.code == 0
    assert result.out.splitlines() == [
        "demo is healthy: 3/3 tasks run",
        "",
        "TASK      STATE    HOST       UPTIME  RESTARTS  CPU  MEMORY  STEPS",
        "ps/0      running  localhost  1m12s   0         3%   60MiB   0",
        "worker/0  running  localhost  1m12s   0         3%   60MiB   1,200",
        "worker/1  running  localhost  1m12s   0         3%   60MiB   0",
    ]
    assert result.err == "next: dtfctl submit SCRIPT\n"


def test_status_of_a_degraded_cluster_says_what_is_wrong_and_what_to_do(dtfctl: Dtfctl) -> None:
    result = dtfctl("status", fake=FakeLauncher(DEGRADED))
    assert result.out.splitlines()[0] == "demo is degraded: 2/3 tasks run, 1 problem"
    assert result.out.splitlines()[-6:] == [
        "problems:",
        "  worker/1 crashed: exit code 1",
        "",
        "last lines of worker/1:",
        "  File train.py, line 3",
        "  ValueError: no",
    ]
    assert result.err == "next: dtfctl restart failed\n"


def test_status_shows_jobs_and_wide_shows_hosts_and_the_controller(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(status(task("ps/0"), jobs=[job()]))
    shown = re.sub(r"3m\d\ds", "3m05s", dtfctl("status", "-q", fake=fake).out)  # it goes on while one looks
    assert shown.splitlines()[4:] == [
        "",
        "JOB       STATE    PROGRESS                                    STARTED    TOOK   RESTARTS",
        "digits-1  running  step 200/1,000, loss 0.3123, accuracy 0.94  3m05s ago  3m05s  0",
    ]
    wide = dtfctl("status", "-o", "wide", fake=fake).out.splitlines()
    assert wide[2].endswith("STEPS  PID  ADDRESS          INCARNATION  TRANSPORT")
    assert wide[3].split()[-4:] == ["100", "127.0.0.1:20000", "1", "-"]
    assert wide[5].endswith("EXIT  FRAMEWORK  PRIORITY  TASKS  SCRIPT")
    assert wide[-4:-2] == [
        "HOST       STATE  TASKS  CORES  LOAD  FREE MEMORY    FREE DISK  GPUS  AGENT PID  CALLED AT  THROUGH",
        "localhost  up     1      2      0.5   4.0GiB/8.0GiB  100GiB     0     99         unix:/a    directly",
    ]
    assert wide[-1] == "controller: pid 98, unix:/c, up 1m15s, start 1, dtfctl 0.1.0"


def test_status_as_json_has_a_versioned_shape(dtfctl: Dtfctl) -> None:
    found = dtfctl("status", "-o", "json", fake=FakeLauncher(DEGRADED))
    assert list(found.json)[:5] == ["version", "kind", "name", "healthy", "running"]
    assert (found.json["version"], found.json["kind"], found.json["healthy"]) == (1, "ClusterStatus", False)
    assert found.json["tasks"][2]["name"] == "worker/1"
    assert found.json["tasks"][2]["last_lines"] == ["File train.py, line 3", "ValueError: no"]
    assert found.err == ""
    assert yaml.safe_load(dtfctl("status", "-o", "yaml", fake=FakeLauncher(DEGRADED)).out) == found.json


def test_status_takes_a_selector(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(DEGRADED)
    assert [t["name"] for t in dtfctl("status", "failed", "-o", "json", fake=fake).json["tasks"]] == ["worker/1"]
    assert [t["name"] for t in dtfctl("status", "worker", "-o", "json", fake=fake).json["tasks"]] == [
        "worker/0",
        "worker/1",
    ]
    missing = dtfctl("status", "worker/7", fake=fake)
    assert (missing.code, missing.err.splitlines()[0]) == (4, "error: there is no task worker/7")


@pytest.mark.parametrize("where", ["before", "after"])
def test_common_options_stand_before_or_after_the_command(dtfctl: Dtfctl, where: str) -> None:
    options = ["-c", "demo", "-o", "json", "--no-color"]
    fake = FakeLauncher(HEALTHY)
    result = dtfctl(*options, "status", fake=fake) if where == "before" else dtfctl("status", *options, fake=fake)
    assert result.json["name"] == "demo"
    assert fake.calls[0] == ("open", "demo")


def test_variables_stand_in_for_options(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTFCTL_CLUSTER", "other")
    monkeypatch.setenv("DTFCTL_OUTPUT", "json")
    fake = FakeLauncher(HEALTHY)
    assert dtfctl("status", fake=fake).code == 4
    assert dtfctl("status", "-c", "demo", fake=fake).json["name"] == "demo"


# up, plan, down


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


EVENTS = (
    Event(1, 0.5, "task.starting", "ps/0"),
    Event(2, 1.25, "task.failed", "worker/1", "exit code 1", 1),
)


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


def test_up_dry_run_and_plan_list_the_changes(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    fake.up_result = up_result(fake, cluster=None, running=0, changes=("start ps/0", "start worker/0"))
    expected = "demo: 2 changes\n  start ps/0\n  start worker/0\n"
    assert dtfctl("up", LOCAL, "--dry-run", fake=fake).out == expected
    assert dtfctl("plan", LOCAL, fake=fake).out == expected
    assert dtfctl("plan", LOCAL, "--exit-code", fake=fake).code == 10
    assert fake.calls == [("up", "demo", True)] * 3
    assert dtfctl("up", LOCAL, "--dry-run", "-o", "json", fake=fake).json["kind"] == "Plan"


def test_a_wrong_spec_starts_nothing_and_exits_2(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cluster: dev\ntasks: {wrker: 2}\n")
    fake = FakeLauncher()
    result = dtfctl("up", str(file), fake=fake)
    assert (result.code, result.out, fake.calls) == (2, "", [])
    assert f"{file}:2:9: `wrker` is not a job name" in result.err
    file.write_text("cluster: dev\ntasks: {wrker: 2, workr: 1}\n")
    assert dtfctl("up", str(file), fake=fake).err.endswith("2 problems; nothing was changed\n")


def test_ctrl_c_in_up_says_what_goes_on(dtfctl: Dtfctl) -> None:
    result = dtfctl("up", LOCAL, fake=FakeLauncher(error=KeyboardInterrupt()))
    assert result.code == 130
    assert "what demo had started goes on" in result.err
    assert "`dtfctl -c demo down` stops it" in result.err


def test_down(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY, happened=[Event(1, 1.0, "task.stopped", "ps/0")])
    result = dtfctl("down", "--grace", "500ms", fake=fake)
    assert (result.code, result.out.split(" (")[0], result.err) == (0, "demo is down", "  ps/0: stopped\n")
    assert fake.calls == [("down", None, 0.5)]
    fake.down_problems = ("ps/0 does not end",)
    assert dtfctl("down", fake=fake).code == 1


# restart


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


# scale


def test_scale_takes_roles_and_numbers(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    result = dtfctl("scale", "worker=8", "ps=2", fake=fake)
    assert (result.code, result.out.splitlines()[0]) == (0, "demo: 2 changes")
    assert fake.calls[-1] == ("scale", {"worker": 8, "ps": 2})
    result = dtfctl("scale", "worker", fake=fake)
    assert (result.code, result.err.splitlines()[0]) == (2, "error: `worker` is not ROLE=N")


# submit


def output(text: str, source: str = "digits-1:worker/0", stream: Any = "out", newline: bool = True) -> JobOutput:
    return JobOutput(LogLine(source, stream, text, 1.0, newline))


def ended(**changes: Any) -> JobEnded:
    return JobEnded(job(**{"state": "succeeded", "exit_code": 0, "started": 1.0, "ended": 3.5, **changes}))


ONE = [ClientStatus("worker/0", "localhost", "running")]
TWO = [*ONE, ClientStatus("worker/1", "localhost", "running")]


def launcher(*items: Any, clients: list[ClientStatus] = ONE) -> FakeLauncher:
    return FakeLauncher(status(task("ps/0"), jobs=[job(clients=tuple(clients))]), items=items)


def test_submit_streams_both_streams_apart_and_returns_0(dtfctl: Dtfctl) -> None:
    fake = launcher(output("hello"), output("careful", stream="err"), output("bye"), ended())
    result = dtfctl("submit", "train.py", fake=fake)
    assert (result.code, result.out) == (0, "hello\nbye\n")
    assert result.err.splitlines() == [
        "digits-1 submitted to demo",
        "careful",
        "digits-1 succeeded after 2.5s: step 200/1,000, loss 0.3123, accuracy 0.94",
    ]


def test_submit_gives_the_script_everything_after_it(dtfctl: Dtfctl) -> None:
    fake = launcher(ended())
    arguments = ["--lr", "0.1", "-c", "x", "--name", "y", "-h", "--"]
    dtfctl("submit", "--name", "n", "-e", "A=1", "-e", "B=x=y", "train.py", "--", *arguments, fake=fake)
    request = fake.requests[0]
    assert (request.script, request.args, request.name) == ("train.py", tuple(arguments), "n")
    assert request.env == {"A": "1", "B": "x=y"}


def test_submit_knows_its_main_options_after_the_script_too(dtfctl: Dtfctl) -> None:
    fake = launcher(ended())
    late = ["--name=n", "--env", "A=1", "--replication", "in-graph", "--id", "7", "--detach"]
    dtfctl("submit", "train.py", "--lr", "0.1", *late, "pos", "-x", "--", "--name", "y", fake=fake)
    request = fake.requests[0]
    assert request.args == ("--lr", "0.1", "pos", "-x", "--name", "y")
    assert (request.name, request.env, request.replication) == ("n", {"A": "1"}, "in-graph")
    assert request.submission_id == "7"
    fake = launcher(ended())
    assert dtfctl("submit", "train.py", "--name", fake=fake).code == 2
    assert fake.requests == []


def test_submit_passes_its_options_on(dtfctl: Dtfctl) -> None:
    fake = launcher(ended())
    dtfctl("submit", "--replication", "in-graph", "--id", "nightly", "train.py", fake=fake)
    assert (fake.requests[0].replication, fake.requests[0].submission_id) == ("in-graph", "nightly")
    options = ["--retries", "2", "--resume", "digits-0", "--priority", "-3", "--max-time", "2h"]
    dtfctl("submit", *options, "train.py", fake=fake)
    last = fake.requests[1]
    assert (last.retries, last.resume, last.priority, last.max_time_s) == (2, "digits-0", -3, 7200.0)
    options = ["--tasks", "worker/0-3", "--share", "--framework", "tensorflow", "--python", "/p", "--success", "chief"]
    dtfctl("submit", *options, "--exit-code-from", "chief", "--tf-config", "sparse", "train.py", fake=fake)
    last = fake.requests[2]
    assert (last.tasks, last.share, last.framework, last.python) == ("worker/0-3", True, "tensorflow", "/p")
    assert (last.success, last.exit_code_from, last.tf_config) == ("chief", "chief", "sparse")
    dtfctl("submit", "--workers", "2", "train.py", fake=fake)
    assert fake.requests[3].workers == 2


def test_a_secret_need_not_stand_on_the_command_line(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s=ecret")
    fake = launcher(ended())
    dtfctl("submit", "-e", "TOKEN", "train.py", fake=fake)
    assert fake.requests[0].env == {"TOKEN": "s=ecret"}


def test_submit_may_wait_without_showing_what_the_job_writes(dtfctl: Dtfctl) -> None:
    result = dtfctl("submit", "--wait", "train.py", fake=launcher(output("hello"), ended()))
    assert (result.code, result.out) == (0, "")
    assert "digits-1 succeeded" in result.err
    assert dtfctl("submit", "--wait", "--detach", "train.py", fake=launcher()).code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "NOT_SET_ANYWHERE"], "your environment has no NOT_SET_ANYWHERE"),
        (["--env", "1=2"], "`--env 1=2` is not K=V"),
        (["--replication", "both"], "`--replication both` is not known"),
        (["--framework", "mxnet"], "Expected dtf or tensorflow or torch or jax or command."),
        (["--success", "some"], "`--success some` is not known"),
        (["--workers", "0"], "--workers"),
        (["--nmae", "x"], "No such option"),
    ],
)
def test_submit_with_wrong_options_submits_nothing(dtfctl: Dtfctl, options: list[str], message: str) -> None:
    fake = launcher()
    result = dtfctl("submit", *options, "train.py", fake=fake)
    assert (result.code, fake.requests) == (2, [])
    assert message in result.err


@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [("failed", 3, 3), ("failed", None, 1), ("failed", 137, 137), ("cancelled", None, 1)],
)
def test_submit_returns_the_exit_code_of_the_job(dtfctl: Dtfctl, state: str, exit_code: int | None, code: int) -> None:
    result = dtfctl("submit", "train.py", fake=launcher(ended(state=state, exit_code=exit_code, reason="why")))
    assert result.code == code
    assert ("digits-1 failed after 2.5s: why" in result.err) == (state == "failed")


def test_lines_of_several_processes_name_their_worker(dtfctl: Dtfctl) -> None:
    fake = launcher(
        output("a"),
        output("half", source="digits-1:worker/1", newline=False),
        output("b"),
        output(" way", source="digits-1:worker/1"),
        ended(),
        clients=TWO,
    )
    result = dtfctl("submit", "train.py", fake=fake)
    assert result.out.splitlines() == ["worker/0 | a", "worker/1 | half", "worker/0 | b", "worker/1 |  way"]


def test_progress_is_plain_lines_where_stderr_is_no_terminal(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfctl.cli._progress.PLAIN_EVERY_S", 0.0)
    fake = launcher(JobProgress("worker/0", Progress(10, 100, {"loss": 2.5}), True), ended())
    result = dtfctl("submit", "train.py", fake=fake)
    assert "digits-1 running, step 10/100, loss 2.5 (0.0s)" in result.err
    assert "\x1b" not in result.err and "\r" not in result.err
    assert result.out == ""


def test_a_recovering_job_says_why(dtfctl: Dtfctl) -> None:
    changed = JobChanged(job(state="recovering", reason="ps/0 was restarted"))
    assert "digits-1 recovering: ps/0 was restarted" in dtfctl("submit", "t.py", fake=launcher(changed, ended())).err


def test_a_queued_job_says_what_it_waits_for(dtfctl: Dtfctl) -> None:
    waiting = job(state="queued", position=1, reason="0 of 2 worker tasks run", clients=())
    fake = FakeLauncher(status(task("ps/0"), jobs=[waiting]), items=[ended()])
    assert "digits-1 queued, place 1: 0 of 2 worker tasks run" in dtfctl("submit", "t.py", fake=fake).err


def test_submit_detached_prints_the_id(dtfctl: Dtfctl) -> None:
    fake = launcher()
    result = dtfctl("submit", "--detach", "train.py", fake=fake)
    assert (result.code, result.out, result.err) == (0, "digits-1\n", "next: dtfctl logs digits-1 -f\n")
    assert dtfctl("submit", "-d", "-o", "json", "t.py", fake=fake).json["id"] == "digits-1"


def test_a_stream_that_ends_before_the_job_is_a_bug(dtfctl: Dtfctl) -> None:
    result = dtfctl("submit", "train.py", fake=launcher(output("x")))
    assert result.code == 125
    report = result.err.split("The report is in ")[1].rstrip(".\n")
    assert "the stream of digits-1 ended before the job did" in Path(report).read_text()
    Path(report).unlink()


# jobs, job, cancel, logs, events, clusters


def test_jobs(dtfctl: Dtfctl) -> None:
    assert dtfctl("jobs", fake=FakeLauncher(HEALTHY)).out == "demo has no job yet\n"
    fake = FakeLauncher(status(jobs=[job(state="queued", position=2, started=None, progress=None)]))
    assert dtfctl("jobs", fake=fake).out.splitlines() == [
        "JOB       STATE       PROGRESS  STARTED  TOOK  RESTARTS",
        "digits-1  queued (2)  -         -        -     0",
    ]
    assert dtfctl("jobs", "-o", "json", fake=fake).json["jobs"][0]["position"] == 2
    ended_ones = [job(id=f"old-{number}", state="succeeded") for number in range(30)]
    many = FakeLauncher(status(jobs=[*ended_ones, job(id="slow-1", state="running")]))
    lines = dtfctl("jobs", fake=many).out.splitlines()
    assert lines[-2].startswith("slow-1")
    assert lines[-1] == "... 10 older; `dtfctl jobs --all` shows them"
    assert len(dtfctl("jobs", "--all", "-o", "json", fake=many).json["jobs"]) == 31


def test_job_in_detail(dtfctl: Dtfctl) -> None:
    failed = ClientStatus(
        "worker/0",
        "localhost",
        "failed",
        exit_code=1,
        last_lines=("ValueError: no",),
        task="worker/1",
        address="10.0.0.1:5",
    )
    fake = FakeLauncher(status(jobs=[job(state="failed", reason="worker/0 exited 1", exit_code=1, clients=(failed,))]))
    lines = dtfctl("job", "digits-1", fake=fake).out.splitlines()
    assert lines[0] == "digits-1 failed: worker/0 exited 1"
    assert lines[-5:] == [
        "PROCESS   STATE   TASK      HOST       PID  ADDRESS     EXIT  RESTARTS  PROGRESS",
        "worker/0  failed  worker/1  localhost  -    10.0.0.1:5  1     0         -",
        "",
        "last lines of worker/0:",
        "  ValueError: no",
    ]
    missing = dtfctl("job", "x-9", fake=fake)
    assert (missing.code, missing.err) == (4, "error: no job x-9 in cluster demo\n  `dtfctl jobs` lists them.\n")


def test_cancel(dtfctl: Dtfctl) -> None:
    fake = launcher()
    result = dtfctl("cancel", "digits-1", "--grace", "2s", fake=fake)
    assert (result.code, result.out) == (0, "1 job cancelled\n")
    assert fake.calls[-1] == ("cancel", ("digits-1",), 2.0)
    assert dtfctl("cancel", fake=fake).code == 2
    assert dtfctl("cancel", "digits-1", "--all", fake=fake).code == 2
    assert dtfctl("cancel", "--all", "--now", fake=fake).out == "1 job cancelled\n"
    assert fake.calls[-1] == ("cancel", None, 0.0)


def test_logs_go_to_stdout_with_their_source(dtfctl: Dtfctl) -> None:
    lines = [LogLine("ps/0", "out", "a", 1.0), LogLine("worker/0", "err", "b", 2.0)]
    fake = FakeLauncher(HEALTHY, lines=lines)
    assert dtfctl("logs", fake=fake).out == "ps/0 | a\nworker/0 | b\n"
    for one in ("controller", "agent:localhost", "ps/0"):
        assert dtfctl("logs", one, "--tail", "5", fake=fake).out == "a\nb\n"
    nothing = {"follow": False, "since": None, "grep": None, "previous": False}
    assert fake.calls[-1] == ("logs", "ps/0", {**nothing, "tail": 5})
    assert dtfctl("logs", "worker/0", "--job", "j-1", "--stderr", "--grep", "x", "-p", fake=fake).code == 0
    chosen = {"grep": "x", "previous": True, "streams": ("err",), "tail": None}
    assert fake.calls[-1] == ("logs", "job:j-1:worker/0", {**nothing, **chosen})
    records = [json.loads(line) for line in dtfctl("logs", "-o", "json", fake=fake).out.splitlines()]
    assert [(r["version"], r["kind"], r["text"]) for r in records] == [(1, "LogLine", "a"), (1, "LogLine", "b")]


def test_since_is_how_long_ago_or_when(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    dtfctl("logs", "--since", "10m", fake=fake)
    assert fake.calls[-1][2]["since"] == pytest.approx(time.time() - 600, abs=60)
    dtfctl("logs", "--since", "2026-01-31T12:00:00+00:00", fake=fake)
    assert fake.calls[-1][2]["since"] == 1769860800.0
    assert dtfctl("logs", "--since", "yesterday", fake=fake).code == 2


def test_events(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    fake = FakeLauncher(HEALTHY, happened=EVENTS)
    assert dtfctl("events", fake=fake).out.splitlines() == [
        "00:00:00.500  ps/0                    task.starting",
        "00:00:01.250  worker/1                task.failed         exit code 1",
    ]
    first = json.loads(dtfctl("events", "-o", "json", fake=fake).out.splitlines()[0])
    assert (first["version"], first["kind"], first["seq"], first["event"]) == (1, "Event", 1, "task.starting")


def test_clusters(dtfctl: Dtfctl) -> None:
    assert dtfctl("clusters").out == "no cluster is up\n"
    assert dtfctl("clusters", fake=FakeLauncher(HEALTHY)).out.splitlines()[1].startswith("demo     running")


# files


def test_init_writes_a_valid_spec_once(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    first = dtfctl("init", str(file), "--hosts", "alice@node[1-4]", "--worker", "8")
    assert (first.code, first.out) == (0, f"wrote {file}: cluster lab, 9 tasks\n")
    assert dtfctl("validate", str(file)).out == f"{file} is valid: cluster lab, 9 tasks on 4 hosts\n"
    again = dtfctl("init", str(file))
    assert (again.code, again.err.splitlines()[0]) == (7, f"error: {file} exists")
    assert dtfctl("init", str(file), "--force", "--name", "Bad Name").code == 2
    assert dtfctl("init", str(file), "--force").code == 0
    assert dtfctl("init", str(tmp_path / "none" / "x.yaml")).code == 2


def test_validate_names_every_file_and_exits_2_if_one_is_wrong(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cluster: dev\ntasks: {wrker: 2}\n")
    result = dtfctl("validate", LOCAL, str(file))
    assert result.code == 2
    assert result.out.splitlines() == [
        f"{LOCAL} is valid: cluster demo, 3 tasks on 1 host",
        f"{file} is not valid: 1 problem",
    ]
    found = dtfctl("validate", LOCAL, str(file), "-o", "json").json
    assert [(f["valid"], f.get("tasks")) for f in found["files"]] == [
        (True, ["ps/0", "worker/0", "worker/1"]),
        (False, None),
    ]
    assert found["files"][1]["problems"][0]["column"] == 9


def test_config_shows_origins_and_prints_a_spec(dtfctl: Dtfctl, tmp_path: Path) -> None:
    lines = dtfctl("config", LOCAL).out.splitlines()
    assert any(line.split() == ["restart.attempts", "5", "default"] for line in lines)
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(dtfctl("config", LOCAL, "-o", "yaml").out)
    assert dtfctl("validate", str(resolved)).code == 0


def test_schema_is_the_published_one(dtfctl: Dtfctl) -> None:
    assert dtfctl("schema").json == json.loads((ROOT / "dtfctl/launcher/spec/schema.json").read_text("utf-8"))


# every command


@pytest.mark.parametrize("name", ORDER)
def test_every_command_has_help_with_examples_and_exit_codes(dtfctl: Dtfctl, name: str) -> None:
    result = dtfctl(name, "--help")
    assert result.code == 0
    assert f"Examples:\n    dtfctl {name}" in result.out
    assert "Exit codes:\n    0    done as asked" in result.out
    assert all(code in EXITS for code in COMMANDS[name].exits)


def test_the_examples_in_the_help_name_options_that_exist(dtfctl: Dtfctl) -> None:
    for name, info in COMMANDS.items():
        text = dtfctl(name, "-h").out
        for example in info.examples:
            before_script = example.split(".py")[0] if name == "submit" else example
            for word in before_script.split():
                if word.startswith("-"):
                    assert word in text, (example, word)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("m", "h"), 2),
        (errors.ScriptError("m", "h"), 2),
        (errors.NoSuchCluster("m", "h"), 4),
        (errors.PartlyDone("m", "h"), 5),
        (errors.LoginError("m", "h"), 6),
        (errors.Conflict("m", "h"), 7),
        (errors.ControllerUnreachable("m", "h"), 8),
        (errors.DeadlineExpired("m", "h"), 9),
        (errors.NoSpace("m", "h"), 1),
    ],
)
@pytest.mark.parametrize(
    "command", [["status"], ["up", LOCAL], ["down"], ["submit", "x.py"], ["restart", "all"], ["logs"], ["cancel", "x"]]
)
def test_an_error_is_a_message_a_hint_and_its_exit_code(
    dtfctl: Dtfctl, error: errors.LauncherError, code: int, command: list[str]
) -> None:
    result = dtfctl(*command, fake=FakeLauncher(HEALTHY, error=error))
    assert (result.code, result.out, result.err) == (code, "", "error: m\n  h\n")


def test_a_bug_is_a_report_and_125(dtfctl: Dtfctl) -> None:
    result = dtfctl("status", fake=FakeLauncher(HEALTHY, error=RuntimeError("surprise")))
    assert (result.code, result.out) == (125, "")
    assert "error: a bug in dtfctl: RuntimeError: surprise" in result.err
    report = Path(result.err.split("The report is in ")[1].rstrip(".\n"))
    assert "RuntimeError: surprise" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0
    report.unlink()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 0), (["nonsense"], 2), (["status", "--nonsense"], 2), (["up"], 2), (["status", "-o", "xml"], 2), (["-h"], 0)],
)
def test_wrong_usage_exits_2(dtfctl: Dtfctl, arguments: list[str], code: int) -> None:
    assert dtfctl(*arguments).code == code


def test_version(dtfctl: Dtfctl) -> None:
    assert dtfctl("version").out.startswith("dtfctl 0.1.0 (Python 3.")
    assert dtfctl("--version").out == "dtfctl 0.1.0\n"
    assert dtfctl("version", "-o", "json").json["kind"] == "Version"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from dtfctl.cli.main import main; main()' schema | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_what_the_machine_refuses_is_no_bug(dtfctl: Dtfctl) -> None:
    error = NotADirectoryError(20, "Not a directory", "/etc/passwd/clusters")
    result = dtfctl("up", LOCAL, fake=FakeLauncher(error=error))
    assert (result.code, result.err.splitlines()[0]) == (1, "error: not a directory: /etc/passwd/clusters")


def test_a_full_disk_under_stdout_is_said_once() -> None:
    program = [sys.executable, "-c", "from dtfctl.cli.main import main; main()", "schema"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: no space left on device")


def test_the_entry_point_imports_nothing_before_it_handles_ctrl_c() -> None:
    code = "import sys; before = set(sys.modules); import dtfctl.cli.main; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) <= {"__future__", "dtfctl", "dtfctl._version", "dtfctl.cli", "dtfctl.cli.main"}


def test_nothing_heavy_is_imported_for_help_and_version() -> None:
    code = (
        "import sys; from dtfctl.cli.app import run; run(['version']); run(['--help']); run(['submit', '--help']);"
        "heavy = {'grpc', 'numpy', 'yaml', 'asyncssh', 'cryptography', 'google.protobuf'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# options of every command, and commands about dtfctl itself


def test_a_time_limit_ends_any_command_with_nine(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeLauncher):
        def note(self, *call: Any) -> None:
            super().note(*call)
            if call[0] == "status":
                time.sleep(60)

    slow = Slow(HEALTHY)
    for words in (["status", "--timeout", "100ms"], ["--timeout", "100ms", "status"]):
        result = dtfctl(*words, fake=slow)
        assert result.code == 9
        assert "not done within 0.1 s" in result.err and "goes on" in result.err
    monkeypatch.setenv("DTFCTL_TIMEOUT", "100ms")
    assert dtfctl("status", fake=slow).code == 9
    assert dtfctl("status", "--timeout", "soon", fake=slow).code == 2


def test_a_command_with_a_limit_of_its_own_keeps_to_it(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    dtfctl("restart", "worker", fake=fake)
    dtfctl("--timeout", "2m", "restart", "worker", fake=fake)
    dtfctl("--timeout", "2m", "restart", "worker", "--timeout", "5s", fake=fake)
    dtfctl("restart", "worker", "--no-wait", "--force", "--reset", fake=fake)
    assert [call[2] for call in fake.calls if call[0] == "restart"] == [30.0, 120.0, 5.0, 0.0]


def test_scripts_are_never_asked(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    assert dtfctl("restart", "all", fake=fake).code == 0
    assert dtfctl("-y", "stop", "all", fake=fake).code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_asks_dtfctl(dtfctl: Dtfctl, shell: str) -> None:
    result = dtfctl("completion", shell)
    assert result.code == 0 and "_DTFCTL_COMPLETE" in result.out
    assert dtfctl("completion", "tcl").code == 2


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "dtfctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dtfctl "$@"\n')
    program.chmod(0o755)
    asked = """
eval "$(dtfctl completion bash)"
COMP_WORDS=(dtfctl res); COMP_CWORD=1; _dtfctl_completion dtfctl; echo "${COMPREPLY[@]}"
COMP_WORDS=(dtfctl logs --prev); COMP_CWORD=2; _dtfctl_completion dtfctl; echo "${COMPREPLY[@]}"
"""
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.splitlines() == ["restart", "--previous"], done.stderr


def test_dtfctls_own_settings_and_where_each_comes_from(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTFCTL_CLUSTER", "lab")
    monkeypatch.setenv("DTFCTL_TIMEOUT", "9s")
    monkeypatch.setenv("DTFCTL_OUTPUT", "yaml")
    found = {row["name"]: (row["value"], row["from"]) for row in dtfctl("config", "-o", "json").json["settings"]}
    assert found["cluster"] == ("lab", "DTFCTL_CLUSTER")
    assert found["output"] == ("json", "--output")
    assert found["timeout"] == ("9s", "DTFCTL_TIMEOUT")
    assert found["quiet"] == ("no", "default")
    monkeypatch.delenv("DTFCTL_OUTPUT")
    assert "cluster   demo" in dtfctl("-c", "demo", "config").out
