"""The command line over a real launcher: real processes of stub tasks, jobs that are real scripts."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dtfctl.launcher.api import clusters
from dtfctl.launcher.paths import ClusterPaths
from tests.cluster.commands import SPEC, command
from tests.cluster.conftest import PATIENCE_S, wait_until

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dtfctl(home: Path, tmp_path: Path) -> Run:
    (tmp_path / "c.yaml").write_text(SPEC)

    def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command(*arguments), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def script(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def holders(folder: Path, text: str) -> list[Path]:
    """The files that hold it."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # sockets, and what goes away meanwhile
            if text.encode() in path.read_bytes():
                found.append(path)
    return found


def test_a_cluster_from_up_to_down(dtfctl: Run, home: Path, tmp_path: Path) -> None:
    assert dtfctl("status").returncode == 4
    assert "start worker/1 on localhost" in dtfctl("up", "c.yaml", "--dry-run").stdout
    first = dtfctl("up", "c.yaml")
    assert (first.returncode, first.stdout.split(" (")[0]) == (0, "cli is up: 3/3 tasks run")
    assert dtfctl("up", "c.yaml").stdout.startswith("cli was up already: 3/3 tasks run")
    assert json.loads(dtfctl("status", "-o", "json").stdout)["healthy"] is True

    job = script(tmp_path, "import os, sys; print(os.environ['DTF_TASK_INDEX'], sys.argv[1:], os.environ['A'])")
    secret = "a-value-nobody-else-has"
    done = dtfctl("submit", "--env", "A=b", "--env", f"S={secret}", job, "--x", "-c", "1")
    assert done.returncode == 0
    wait_until(lambda: not holders(home, secret), "no file of the cluster holds the job's secret any more")
    assert sorted(done.stdout.splitlines()) == [
        "worker/0 | 0 ['--x', '-c', '1'] b",
        "worker/1 | 1 ['--x', '-c', '1'] b",
    ]
    assert "job-1 succeeded" in done.stderr
    assert dtfctl("logs", "job-1").stdout.count("['--x', '-c', '1'] b") == 2

    assert dtfctl("restart", "failed", "tasks").stdout == "nothing to restart: no task of cli has failed\n"
    assert dtfctl("restart", "worker/1").stdout == "restarted 1 task: worker/1\n"
    tasks = json.loads(dtfctl("status", "-o", "json").stdout)["tasks"]
    assert [(t["name"], t["state"], t["restarts"]) for t in tasks][2] == ("worker/1", "running", 1)
    assert {"job.queued", "job.succeeded"} <= {
        json.loads(line)["event"] for line in dtfctl("events", "-o", "json").stdout.splitlines()
    }

    asked = {"_DTFCTL_COMPLETE": "complete_bash", "COMP_WORDS": "dtfctl why ", "COMP_CWORD": "2"}
    offered = dtfctl(env={**os.environ, **asked})
    assert (offered.stdout.split(), offered.stderr) == (["ps/0", "worker/0", "worker/1", "job-1"], "")
    os.kill(json.loads(dtfctl("status", "-o", "json").stdout)["controller"]["pid"], signal.SIGKILL)
    wait_until(lambda: not clusters()[0].alive, "the controller has ended")
    offered = dtfctl(env={**os.environ, **asked})
    assert (offered.stdout.split(), offered.stderr) == (["ps/0", "worker/0", "worker/1"], "")
    assert not clusters()[0].alive, "no key that is pressed starts a controller"

    assert dtfctl("down").returncode == 0
    assert dtfctl("status").returncode == 4
    assert dtfctl(env={**os.environ, **asked}).stdout.split() == []
    left = {path.parts[len(home.parts) + 2] for path in home.rglob("*") if path.is_file()}
    assert left == {"logs", "job-ids.json"}


def test_the_exit_code_of_a_script_is_the_commands(dtfctl: Run, tmp_path: Path) -> None:
    dtfctl("up", "c.yaml")
    failing = script(tmp_path, "import sys; print('out'); print('why', file=sys.stderr); sys.exit(7)")
    done = dtfctl("submit", "--replication", "in-graph", failing)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "why\n" in done.stderr and "exit code 7" in done.stderr
    for bad, text in [("def (", "job.py:1:5: invalid syntax"), (None, "no script")]:
        path = tmp_path / "job.py"
        path.unlink()
        if bad:
            path.write_text(bad)
        refused = dtfctl("submit", str(path))
        assert refused.returncode == 3
        assert text in refused.stderr
        path.touch()
    assert len(json.loads(dtfctl("jobs", "-o", "json").stdout)["jobs"]) == 1


def test_ctrl_c_cancels_the_job(dtfctl: Run, tmp_path: Path) -> None:
    dtfctl("up", "c.yaml")
    job = script(
        tmp_path,
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("stopping", flush=True), sys.exit(0)))
        print("ready", flush=True)
        time.sleep(60)
        """,
    )
    with subprocess.Popen(
        command("submit", "--replication", "in-graph", job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "stopping\n"), err
    assert "cancelling job-1" in err and "job-1 was cancelled" in err
    assert json.loads(dtfctl("job", "job-1", "-o", "json").stdout)["state"] == "cancelled"


def test_a_time_limit_ends_a_job(dtfctl: Run, tmp_path: Path) -> None:
    dtfctl("up", "c.yaml")
    job = script(tmp_path, "import time; time.sleep(60)")
    done = dtfctl("submit", "--max-time", "500ms", job)
    assert done.returncode not in (0, 125)
    assert "job-1 failed" in done.stderr


def test_a_job_does_not_mix_with_one_of_an_earlier_cluster(dtfctl: Run, tmp_path: Path) -> None:
    for number in (1, 2):
        dtfctl("up", "c.yaml")
        done = dtfctl("submit", "--replication", "in-graph", script(tmp_path, f"print('cluster', {number})"))
        assert (done.returncode, done.stdout) == (0, f"cluster {number}\n")
        assert f"job-{number} succeeded" in done.stderr, "an id is given once, also across clusters of one name"
        dtfctl("down")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_submit_that_is_ended_says_that_the_job_goes_on(dtfctl: Run, tmp_path: Path, number: signal.Signals) -> None:
    dtfctl("up", "c.yaml")
    job = script(tmp_path, "import time; print('begun', flush=True); time.sleep(600)")
    pipe = subprocess.PIPE
    with subprocess.Popen(command("submit", job), cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert "begun" in process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert f"{number.name}: leaving; job-1 goes on" in err
    assert "`dtfctl cancel job-1` stops it" in err
    assert json.loads(dtfctl("job", "job-1", "-o", "json").stdout)["state"] == "running"
    refused = dtfctl("down")
    assert refused.returncode == 7
    assert "1 job would be cancelled: job-1 (running)" in refused.stderr
    assert dtfctl("down", "--yes").returncode == 0


def test_a_killed_worker_is_back_and_the_other_never_stopped(dtfctl: Run) -> None:
    dtfctl("up", "c.yaml")
    before = {t["name"]: t for t in json.loads(dtfctl("status", "-o", "json").stdout)["tasks"]}
    os.kill(before["worker/1"]["pid"], signal.SIGKILL)

    def back() -> bool:
        after = {t["name"]: t for t in json.loads(dtfctl("status", "-o", "json").stdout)["tasks"]}
        one = after["worker/1"]
        assert after["worker/0"]["pid"] == before["worker/0"]["pid"]
        return one["state"] == "running" and one["pid"] != before["worker/1"]["pid"] and one["restarts"] == 1

    wait_until(back, "worker/1 runs again")
    assert "signal 9" in dtfctl("events").stdout or "SIGKILL" in dtfctl("events").stdout


def test_a_port_that_is_taken_is_named(dtfctl: Run, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        (tmp_path / "c.yaml").write_text(
            f"cluster: cli\ntasks: {{worker: 1}}\nports: {port}\nrestart: {{attempts: 0}}\n"
        )
        done = dtfctl("up", "c.yaml", "--timeout", "20s")
    assert done.returncode not in (0, 125)
    assert str(port) in done.stdout + done.stderr


def test_two_clusters_at_once_and_the_newest_is_the_default(dtfctl: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"cluster: {name}\ntasks: {{worker: 1}}\n")
        assert dtfctl("up", f"{name}.yaml").returncode == 0
    assert dtfctl("status").stdout.startswith("two is healthy")
    assert dtfctl("-c", "one", "status").stdout.startswith("one is healthy")
    found = json.loads(dtfctl("clusters", "-o", "json").stdout)["clusters"]
    me = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}"
    assert [(item["name"], item["owner"]) for item in found] == [("two", me), ("one", me)]
    assert json.loads(dtfctl("status", "-o", "json").stdout)["owner"] == me
    refused = dtfctl("down")
    assert (refused.returncode, refused.stdout) == (7, "")
    assert "two is the newest of 2 clusters (the others: one)" in refused.stderr
    assert dtfctl("down", "--yes").stdout.startswith("two is down")
    assert dtfctl("status").stdout.startswith("one is healthy")


def test_ctrl_c_in_up_leaves_a_cluster_that_up_completes_and_down_removes(dtfctl: Run, tmp_path: Path) -> None:
    with subprocess.Popen(
        command("up", "c.yaml"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        paths = ClusterPaths.of("cli")
        wait_until(lambda: paths.info.exists() or process.poll() is not None, "it has begun")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 130), err
    assert "Traceback" not in err
    assert dtfctl("up", "c.yaml").returncode == 0
    assert dtfctl("down").returncode == 0
