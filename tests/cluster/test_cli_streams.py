"""`logs`, `events`, `why` over a real cluster that all tests of this file share."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.commands import SPEC, Shell
from tests.cluster.conftest import kill_leftovers, wait_until


@pytest.fixture(scope="module")
def dtfctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "c.yaml").write_text(SPEC)
    shell = Shell(folder, {**os.environ, "DTFCTL_HOME": str(folder / "home"), "NO_COLOR": "1"})
    assert shell("up", "c.yaml").returncode == 0
    yield shell
    shell("down", "--yes", "--grace", "500ms")
    kill_leftovers(folder / "home")


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def test_logs_are_merged_by_time_and_prefixed(dtfctl: Shell) -> None:
    found = lines_of(dtfctl("logs").stdout)
    assert {line.split(" | ")[0].strip() for line in found} == {"ps/0", "worker/0", "worker/1"}
    assert {line.split(" | ")[0].strip() for line in lines_of(dtfctl("logs", "worker").stdout)} == {
        "worker/0",
        "worker/1",
    }
    times = [json.loads(line)["time"] for line in lines_of(dtfctl("logs", "-o", "json").stdout)]
    assert times == sorted(times)


def test_the_run_before_the_newest(dtfctl: Shell) -> None:
    assert dtfctl("logs", "ps/0", "--previous").returncode == 4
    assert dtfctl("restart", "worker/1").returncode == 0
    assert dtfctl("restart", "worker/1").returncode == 0
    everything = lines_of(dtfctl("logs", "worker/1").stdout)
    assert [line.split(" serves")[0] for line in everything if "serves" in line] == [
        f"worker/1 incarnation {n}" for n in (1, 2, 3)
    ]
    previous = lines_of(dtfctl("logs", "worker/1", "--previous").stdout)
    assert [line.split(" serves")[0] for line in previous] == ["worker/1 incarnation 2"]
    refused = dtfctl("logs", "worker/1", "--previous", "-f")
    assert refused.returncode == 2 and "do not go together" in refused.stderr


def test_grep_stderr_and_tail_choose_lines_of_a_job(dtfctl: Shell) -> None:
    job = dtfctl.script(
        """
        import os, sys
        for n in range(100):
            print("line", n, flush=True)
        print("wrong", os.environ["DTF_TASK_INDEX"], file=sys.stderr)
        """
    )
    assert dtfctl("submit", "--name", "talk", job).returncode == 0
    assert dtfctl("logs", "talk-1", "-n", "2").stdout.count("line 99") == 2
    assert sorted(lines_of(dtfctl("logs", "talk-1", "--stderr").stdout)) == ["worker/0 | wrong 0", "worker/1 | wrong 1"]
    chosen = lines_of(dtfctl("logs", "talk-1", "--grep", r"line \d5$", "-n", "2").stdout)
    assert sorted(chosen) == sorted(f"worker/{w} | line {n}" for w in (0, 1) for n in (85, 95))
    assert lines_of(dtfctl("logs", "worker/1", "--job", "talk-1", "--stderr").stdout) == ["wrong 1"]
    assert dtfctl("logs", "worker", "--job", "talk-1").returncode == 2
    assert dtfctl("logs", "--job", "never-1").returncode == 4
    assert dtfctl("logs", "--grep", "(").returncode == 2
    followed = dtfctl("logs", "talk-1", "-f")
    assert followed.returncode == 0 and followed.stdout.count("line 99") == 2


def test_following_goes_on_while_the_controller_is_replaced(dtfctl: Shell) -> None:
    with dtfctl.start("logs", "worker/0", "-f", "-n", "0") as follower:
        try:
            assert follower.stdout is not None
            wait_until(lambda: dtfctl.json("status")["controller"]["pid"], "a controller")
            os.kill(dtfctl.json("status")["controller"]["pid"], signal.SIGKILL)

            def heard() -> bool:
                # What was written before the follower looked is not for it: then there must be more.
                assert dtfctl("restart", "worker/0").returncode == 0
                return bool(select.select([follower.stdout], [], [], 3.0)[0])

            wait_until(heard, "the follower hears of a restart", 60.0)
            assert b"worker/0 incarnation" in follower.stdout.readline()
            follower.send_signal(signal.SIGINT)
            assert follower.wait(60) == 0
        finally:
            follower.kill()


def test_events_are_objects_and_are_followed(dtfctl: Shell) -> None:
    found = [json.loads(line) for line in lines_of(dtfctl("events", "-o", "json").stdout)]
    assert all((event["version"], event["kind"]) == (1, "Event") for event in found)
    assert sorted(event["seq"] for event in found) == list(range(1, len(found) + 1))
    assert [event["time"] for event in found] == sorted(event["time"] for event in found)
    with dtfctl.start("events", "-f", "-o", "json", "--since", "1h") as follower:
        try:
            assert follower.stdout is not None
            seen = [json.loads(follower.stdout.readline()) for _ in found]
            assert seen == found
            assert dtfctl("restart", "worker/1").returncode == 0
            following = json.loads(follower.stdout.readline())
            assert (following["event"], following["subject"]) == ("task.restart-requested", "worker/1")
        finally:
            follower.kill()


def test_why_names_the_cause_and_what_led_there(dtfctl: Shell) -> None:
    assert dtfctl("why", "ps/0").stdout.startswith("ps/0 runs on localhost since it was first started\n")
    pid = next(task["pid"] for task in dtfctl.json("status")["tasks"] if task["name"] == "worker/1")
    os.kill(pid, signal.SIGKILL)

    def again() -> bool:
        return (
            "killed by SIGKILL" in (found := dtfctl.json("why", "worker/1"))["answer"] and found["state"] == "running"
        )

    wait_until(again, "the reason of the restart")
    found = dtfctl.json("why", "worker/1")
    assert "restarted because of: killed by SIGKILL" in found["answer"]
    assert "task.ended" in [event["event"] for event in found["chain"]]
    assert dtfctl("stop", "worker/1").returncode == 0
    stopped = dtfctl("why", "worker/1")
    assert "is stopped on request" in stopped.stdout and "next: dtfctl start worker/1" in stopped.stderr
    assert dtfctl("start", "worker/1").returncode == 0
    failing = dtfctl.script("import sys; sys.exit('no data')", "fails.py")
    assert dtfctl("submit", failing).returncode == 1
    failed = dtfctl("why", "fails-1").stdout
    assert failed.startswith("fails-1 has failed: worker/") and "no data" in failed
    assert dtfctl("why", "worker/9").returncode == 4


def test_the_controllers_own_log(dtfctl: Shell) -> None:
    assert dtfctl("logs", "controller").returncode == 0
    assert "task.running worker/1" in dtfctl("logs", "agent:localhost").stdout
    unknown = dtfctl("logs", "agent:elsewhere")
    assert unknown.returncode == 4 and "agent:localhost" in unknown.stderr
    assert Path(dtfctl.env["DTFCTL_HOME"]).is_dir()


def test_doctor_and_top_over_a_real_cluster(dtfctl: Shell) -> None:
    found = dtfctl.json("doctor")
    assert (found["kind"], found["errors"]) == ("Diagnosis", 0)
    checks = {(item["check"], item["subject"]) for item in found["findings"]}
    assert {("agent", "host:localhost"), ("clock", "host:localhost"), ("keys", "this machine")} <= checks
    key = next((dtfctl.folder / "home").rglob("cli.key"))
    key.chmod(0o644)
    try:
        loose = dtfctl("doctor")
        assert loose.returncode == 1 and "others may use" in loose.stdout and "chmod go=" in loose.stdout
    finally:
        key.chmod(0o600)
    picture = dtfctl.json("top", "worker")
    assert (picture["kind"], [row["name"] for row in picture["tasks"]]) == ("Top", ["worker/0", "worker/1"])
    assert all(row["steps_per_s"] > 0 and row["silence_s"] < 60 for row in picture["tasks"])
    assert "STEPS/S" in dtfctl("top").stdout


def test_restart_by_force_and_without_waiting(dtfctl: Shell) -> None:
    before = dtfctl.json("status", "worker/0")["tasks"][0]["incarnation"]
    assert dtfctl("restart", "worker/0", "--no-wait", "--force").stdout == "restarting 1 task: worker/0\n"
    wait_until(lambda: dtfctl.json("status", "worker/0")["tasks"][0]["incarnation"] > before, "it was restarted")
    wait_until(lambda: dtfctl.json("status")["healthy"], "all is well")
