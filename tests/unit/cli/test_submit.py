"""`dtfctl submit`: a script, its output and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.model import (
    ClientStatus,
    Event,
    JobChanged,
    JobEnded,
    JobNote,
    JobOutput,
    JobProgress,
    LogLine,
    Progress,
)
from tests.doubles.launcher import FakeLauncher, status, task
from tests.unit.cli.harness import ONE, Dtfctl, job, launcher


def output(text: str, source: str = "digits-1:worker/0", stream: Any = "out", newline: bool = True) -> JobOutput:
    return JobOutput(LogLine(source, stream, text, 1.0, newline))


def ended(**changes: Any) -> JobEnded:
    return JobEnded(job(**{"state": "succeeded", "exit_code": 0, "started": 1.0, "ended": 3.5, **changes}))


TWO = [*ONE, ClientStatus("worker/1", "localhost", "running")]


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
    assert request.id == "7"
    fake = launcher(ended())
    assert dtfctl("submit", "train.py", "--name", fake=fake).code == 2
    assert fake.requests == []


def test_submit_passes_its_options_on(dtfctl: Dtfctl) -> None:
    fake = launcher(ended())
    dtfctl("submit", "--replication", "in-graph", "--id", "nightly", "train.py", fake=fake)
    assert (fake.requests[0].replication, fake.requests[0].id) == ("in-graph", "nightly")
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
    dtfctl("submit", "--as-tensorflow", "train.py", fake=fake)
    assert fake.requests[4].env == {"DTF_AS_TENSORFLOW": "1"}
    assert dtfctl("submit", "--as-tensorflow", "--framework", "torch", "train.py", fake=fake).code == 2


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
    assert ("next: dtfctl why digits-1" in result.err) == (state == "failed")


def test_a_job_that_was_out_of_memory_is_to_be_given_more(dtfctl: Dtfctl) -> None:
    failed = ended(state="failed", exit_code=137, reason="worker/0: out of memory: it used 70 MiB, its limit is 64 MiB")
    result = dtfctl("submit", "train.py", fake=launcher(failed))
    assert result.err.splitlines()[-1] == "next: dtfctl submit --memory SIZE digits.py"
    told = dtfctl("job", "digits-1", fake=FakeLauncher(status(task("ps/0"), jobs=[failed.status])))
    assert told.err.splitlines()[-1] == "next: dtfctl submit --memory SIZE digits.py"


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


def test_where_training_goes_on_after_a_fault_is_told_once(dtfctl: Dtfctl) -> None:
    again = "worker/0: begins again at step 0; steps up to 9 had been done: 9 are lost (there is no checkpoint in /c)"
    fake = launcher(
        JobNote("worker/0: begins at step 0 (there is no checkpoint in /c)"),
        JobProgress("worker/0", Progress(9), True),
        JobNote(again),
        JobProgress("worker/0", Progress(1), True),
        JobProgress("worker/0", Progress(0), True),
        ended(),
    )
    lines = dtfctl("submit", "t.py", fake=fake).err
    assert "begins at step 0" not in lines
    assert lines.count(f"digits-1 {again}") == 1
    assert "went back from step 9" not in lines
    assert "digits-1 went back from step 1 to 0" in lines, "of this nobody has said why"


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


def test_submit_says_why_a_job_began_again_though_nobody_saw_it_recover(dtfctl: Dtfctl) -> None:
    events = [
        Event(1, 1000.0, "process.ended", "job:digits-10.af:worker/0", "exit code 9"),
        Event(2, 1001.0, "process.ended", "job:digits-1.3f9a:worker/1", "killed by SIGKILL; starts again in 0.0 s"),
        Event(3, 1002.0, "process.ended", "job:digits-11.af:worker/0", "exit code 8"),
    ]
    again = JobChanged(job(state="running", restarts=1))
    fake = launcher(again, ended())
    fake.happened = events
    result = dtfctl("submit", "train.py", fake=fake)
    assert "digits-1 began again: killed by SIGKILL; starts again in 0.0 s\n" in result.err
