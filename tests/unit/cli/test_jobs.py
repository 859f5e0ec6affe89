"""`dtfctl jobs`, `job`, `cancel`, `logs`, `events` and `clusters`."""

from __future__ import annotations

import json
import time

import pytest

from dtfctl.launcher.model import ClientStatus, LogLine
from tests.doubles.launcher import FakeLauncher, status
from tests.unit.cli.harness import EVENTS, HEALTHY, Dtfctl, job, launcher


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
        rss_bytes=50 * 2**20,
        limits="cpus 1",
    )
    fake = FakeLauncher(status(jobs=[job(state="failed", reason="worker/0 exited 1", exit_code=1, clients=(failed,))]))
    lines = dtfctl("job", "digits-1", fake=fake).out.splitlines()
    assert lines[0] == "digits-1 failed: worker/0 exited 1"
    assert lines[-5:] == [
        "PROCESS   STATE   TASK      HOST       PID  ADDRESS     EXIT  RESTARTS  MEMORY  LIMITS  PROGRESS",
        "worker/0  failed  worker/1  localhost  -    10.0.0.1:5  1     0         50MiB   cpus 1  -",
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
    line = dtfctl("clusters", fake=FakeLauncher(HEALTHY)).out.splitlines()[1]
    assert line.startswith("demo     running")
    assert line.endswith("me@laptop  /home/me/demo")
