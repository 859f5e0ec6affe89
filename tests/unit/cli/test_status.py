"""`dtfctl status`, and the options every command has."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from dtfctl.cli._groups import GROUPS
from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import TaskLink
from tests.doubles.launcher import FakeLauncher, status, task
from tests.unit.cli.harness import DEGRADED, HEALTHY, Dtfctl, job


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


def test_tasks_whose_hosts_are_away_are_no_case_for_a_restart(dtfctl: Dtfctl) -> None:
    found = status(task("ps/0", state="lost"), problems=["localhost: it has been silent for 18 s"])
    assert dtfctl("status", fake=FakeLauncher(found)).err == "next: dtfctl hosts\n"


def test_status_of_a_cluster_that_somebody_took_over_says_who_has_it(dtfctl: Dtfctl) -> None:
    whose = "eve@box (/home/eve/.local/state/dtfctl, since 2026-01-02 03:04 UTC)"
    found = status(task("ps/0", state="lost"), problems=[f"localhost: cluster demo there belongs to {whose}"])
    host = replace(found.hosts[0], state="down", cause="owner", last_error=f"cluster demo there belongs to {whose}")
    result = dtfctl("status", fake=FakeLauncher(replace(found, hosts=(host,))))
    assert result.out.splitlines()[0] == f"demo is not yours any more: it belongs to {whose}"
    assert "restart failed" not in result.err and "up FILE --adopt" in result.err


def test_status_shows_jobs_and_wide_shows_hosts_and_the_controller(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(status(task("ps/0"), jobs=[job()]))
    shown = re.sub(r"3m\d\ds", "3m05s", dtfctl("status", "-q", fake=fake).out)  # it goes on while one looks
    assert shown.splitlines()[4:] == [
        "",
        "JOB       STATE    PROGRESS                                    STARTED    TOOK   RESTARTS",
        "digits-1  running  step 200/1,000, loss 0.3123, accuracy 0.94  3m05s ago  3m05s  0",
    ]
    wide = dtfctl("status", "-o", "wide", fake=fake).out.splitlines()
    assert wide[2].endswith("STEPS  PID  ADDRESS          INCARNATION  TRANSPORT  BLAS")
    assert wide[3].split()[-5:] == ["100", "127.0.0.1:20000", "1", "-", "-"]
    assert wide[5].endswith("EXIT  FRAMEWORK  PRIORITY  TASKS  SCRIPT")
    assert wide[-5:-3] == [
        "HOST       STATE  TASKS  CORES  LOAD  FREE MEMORY    FREE DISK  GPUS  AGENT PID  CALLED AT  THROUGH",
        "localhost  up     1      2      0.5   4.0GiB/8.0GiB  100GiB     0     99         unix:/a    directly",
    ]
    assert wide[-2:] == ["controller: pid 98, unix:/c, up 1m15s, start 1, dtfctl 0.1.0", "owner: me@laptop"]


def test_wide_shows_what_compression_kept_off_the_network(dtfctl: Dtfctl) -> None:
    tasks = task("ps/0"), replace(task("worker/0"), spared_bytes=3 << 30)
    wide = dtfctl("status", "-o", "wide", fake=FakeLauncher(status(*tasks))).out.splitlines()
    assert wide[2].endswith("BLAS  SPARED")
    assert [line.split()[-1] for line in wide[3:5]] == ["0B", "3.0GiB"]
    assert "SPARED" not in dtfctl("status", fake=FakeLauncher(status(*tasks))).out


def test_wide_shows_how_tasks_are_linked(dtfctl: Dtfctl) -> None:
    codecs = "topk off (takes 41 ms, saves 8 ms)"
    links = TaskLink("ps/0", "tcp", True, 1.18e8, 9, codecs), TaskLink("worker/1", "shm", False)
    fake = FakeLauncher(status(task("ps/0"), replace(task("worker/0"), links=links)))
    wide = dtfctl("status", "-o", "wide", fake=fake).out.splitlines()
    begin = wide.index("FROM      TO        TRANSPORT  ENCRYPTED  RATE     CODECS")
    assert wide[begin + 1 : begin + 4] == [
        f"worker/0  ps/0      tcp        yes        118MB/s  {codecs}",
        "worker/0  worker/1  shm        no         -        -",
        "",
    ]
    assert "ENCRYPTED" not in dtfctl("status", fake=fake).out
    assert dtfctl("status", "-o", "json", fake=fake).json["tasks"][1]["links"][0]["bytes_s"] == 1.18e8


def test_status_as_json_has_a_versioned_shape(dtfctl: Dtfctl) -> None:
    found = dtfctl("status", "-o", "json", fake=FakeLauncher(DEGRADED))
    assert list(found.json)[:5] == ["version", "kind", "name", "healthy", "running"]
    assert (found.json["version"], found.json["kind"], found.json["healthy"]) == (1, "ClusterStatus", False)
    assert found.json["owner"] == "me@laptop"
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


def test_a_word_that_is_nearly_a_selector_is_suggested(dtfctl: Dtfctl) -> None:
    for word, meant in (("fialed", "failed"), ("wroker/1", "worker/1"), ("al", "all")):
        result = dtfctl("status", word, fake=FakeLauncher(HEALTHY))
        assert result.code == 4
        assert f"there is no task {word}" in result.err
        assert f"did you mean {meant}?" in result.err


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_fit_a_narrow_terminal(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    long = job(id="a-rather-long-name-of-a-job-12", state="failed", reason="worker/0: exit code 1: " + "why " * 20)
    state = status(task("ps/0", host="a-host-with-a-long-name.example.org"), task("worker/0"), jobs=[long])
    monkeypatch.setattr(Screen, "width", width)
    for words in (["status"], ["jobs"], ["hosts"], ["status", "-o", "wide"]):
        lines = dtfctl(*words, fake=FakeLauncher(state)).out.splitlines()
        assert max(len(line) for line in lines if not line.startswith("controller:")) <= width, words
    lines = dtfctl("jobs", fake=FakeLauncher(state)).out.splitlines()
    assert lines[1].startswith("a-rather-")
    assert "failed" in lines[1]


def test_hosts_and_jobs_say_why(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    drained = replace(HEALTHY.hosts[0], state="drained", note="new disk")
    queued = job(state="queued", started=None, progress=None, position=1, reason="waits for worker/0")
    fake = FakeLauncher(replace(HEALTHY, hosts=(drained,), jobs=(queued, job(id="b"))))
    header, line = dtfctl("hosts", fake=fake).out.splitlines()[2:]
    assert header.endswith("REASON")
    assert line.endswith("new disk")
    header, first, second = dtfctl("jobs", fake=fake).out.splitlines()
    assert header.endswith("REASON")
    assert first.endswith("waits for worker/0")
    assert second.endswith("-")
    monkeypatch.setattr(Screen, "width", 50)
    header, line = dtfctl("hosts", fake=fake).out.splitlines()[2:]
    assert header.endswith("REASON")
    assert line.endswith("new disk")
    assert "waits for worker/0" in dtfctl("jobs", fake=fake).out


def test_help_shows_the_commands_in_groups(dtfctl: Dtfctl) -> None:
    told = dtfctl("--help").out
    titles = [line for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", *(f"{title}:" for title in GROUPS)]
