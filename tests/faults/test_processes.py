"""Rows 4, 5, 10, 11, 15, 17, 18, 19, 23 and 24: what happens to processes of one host, on stub tasks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.spec.model import ClusterSpec, Health, Ports, Restart
from tests.cluster.conftest import (
    STUB_COMMAND,
    agent_pid,
    controller_pid,
    kill,
    pids,
    processes_of,
    spec_of,
    task,
    wait_until,
)
from tests.faults.conftest import Measured

Up = Callable[..., Cluster]


def with_worker_env(spec: ClusterSpec, **env: str) -> ClusterSpec:
    workers = spec.tasks["worker"]
    return replace(spec, tasks={**spec.tasks, "worker": replace(workers, env=env)})


def when(cluster: Cluster, kind: str, subject: str, incarnation: int = 0) -> float:
    """The time of the newest such event."""
    found = [e for e in cluster.events() if (e.kind, e.subject) == (kind, subject)]
    return next(e.time for e in reversed(found) if incarnation in (0, e.incarnation))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for the faults that leave it as it was."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("shared")))
    cluster = Cluster.up(spec_of(), task_command=STUB_COMMAND).cluster
    assert cluster is not None
    yield cluster
    cluster.down(grace_s=0.5)
    monkeypatch.undo()


@pytest.mark.fault(4)
def test_a_stopped_task_is_suspect_then_killed_then_runs_again(shared: Cluster, measured: Measured) -> None:
    before = task(shared, "ps/0")
    begun = time.time()
    kill(before.pid, signal.SIGSTOP)
    wait_until(lambda: (t := task(shared, "ps/0")).state == "running" and t.incarnation > before.incarnation, "back")
    measured("suspect s", when(shared, "task.suspect", "ps/0") - begun)
    measured("restarted s", when(shared, "task.running", "ps/0") - begun)
    reasons = [e.reason for e in shared.events() if (e.kind, e.subject) == ("task.stopping", "ps/0")]
    assert "stopped by a signal" in reasons[-1]


@pytest.mark.fault(10)
def test_a_killed_controller_adopts_every_task_again(shared: Cluster, measured: Measured) -> None:
    before, events = pids(shared), list(shared.events())
    restarts = {t.name: t.restarts for t in shared.status().tasks}
    kill(controller_pid(shared))
    begun = time.monotonic()
    found = Cluster.open()
    wait_until(lambda: found.status().running == 3, "the new controller sees the tasks")
    measured("adopted again s", time.monotonic() - begun)
    assert pids(found) == before
    after = {t.name: t.restarts for t in found.status().tasks}
    measured("restarts", sum(after.values()) - sum(restarts.values()))
    assert after == restarts
    assert list(found.events())[: len(events)] == events


@pytest.mark.fault(11)
def test_a_killed_agent_is_back_and_an_exit_it_missed_is_told_right(shared: Cluster, measured: Measured) -> None:
    before = pids(shared)
    restarts = {t.name: t.restarts for t in shared.status().tasks}
    first = agent_pid(shared)
    begun = time.monotonic()
    kill(first)
    wait_until(lambda: (h := shared.status().hosts[0]).state == "up" and h.agent_pid not in (None, first), "agent back")
    measured("agent back s", time.monotonic() - begun)
    assert pids(shared) == before
    measured("restarts", sum(t.restarts for t in shared.status().tasks) - sum(restarts.values()))
    newest = task(shared, "worker/1").incarnation
    kill(agent_pid(shared))
    kill(before["worker/1"], signal.SIGTERM)
    back = wait_until(
        lambda: (t := task(shared, "worker/1")).state == "running" and t.incarnation > newest and t, "worker/1 is back"
    )
    assert back.exit_code == 128 + signal.SIGTERM


@pytest.mark.fault(15)
def test_a_taken_port_is_replaced_and_a_taken_fixed_port_is_an_error(home: Path, measured: Measured) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        port = thief.getsockname()[1]
        begun = time.monotonic()
        fixed = Cluster.up(spec_of(name="fixed", ps=0, worker=1, ports=Ports(port, port)), task_command=STUB_COMMAND)
        measured("error s", time.monotonic() - begun)
        assert fixed.cluster is not None
        failed = task(fixed.cluster, "worker/0")
        assert (fixed.exit_code, failed.state, failed.restarts) == (1, "failed", 0)
        assert f"port {port} is taken by pid {os.getpid()}" in failed.last_error
        result = Cluster.up(spec_of(ps=0, worker=1, name="auto"), task_command=STUB_COMMAND)
        assert result.cluster is not None
        assert task(result.cluster, "worker/0").address.rpartition(":")[2] != str(port)


@pytest.mark.fault(17)
def test_a_slow_start_is_no_hang(up: Up, home: Path, measured: Measured) -> None:
    # Three times as long as the silence after which a task that runs is given up.
    spec = with_worker_env(spec_of(worker=1), STUB_SLOW="15")
    begun = time.monotonic()
    cluster = up(spec)
    assert time.monotonic() - begun >= 15
    slow = task(cluster, "worker/0")
    measured("false restarts", slow.restarts)
    assert (slow.state, slow.restarts, slow.incarnation) == ("running", 0, 1)
    assert not any(e.kind == "task.stopping" for e in cluster.events())


@pytest.mark.fault(18)
def test_a_crash_loop_gives_up_with_the_last_lines(up: Up, measured: Measured) -> None:
    begun = time.monotonic()
    cluster = up(with_worker_env(spec_of(worker=1, restart=Restart(attempts=4)), STUB_EXIT="1"))
    looping = wait_until(lambda: (t := task(cluster, "worker/0")).state == "crashed" and t, "gives up")
    measured("gives up s", time.monotonic() - begun)
    assert looping.last_lines == ("this stub is told to fail",)
    assert task(cluster, "ps/0").restarts == 0


@pytest.mark.fault(24)
def test_a_failing_task_that_the_user_stops_stays_stopped(up: Up, tmp_path: Path, measured: Measured) -> None:
    trouble = tmp_path / "trouble"
    cluster = up(with_worker_env(spec_of(worker=1, restart=Restart(attempts=1000)), STUB_FAIL_WHEN=str(trouble)))
    trouble.touch()
    wait_until(lambda: task(cluster, "worker/0").restarts >= 2, "it fails again and again")
    cluster.stop("worker/0")
    stopped = task(cluster, "worker/0")
    for process in (agent_pid(cluster), controller_pid(cluster)):
        kill(process)
    found = Cluster.open()
    wait_until(lambda: found.status().running == 1, "adopted")
    time.sleep(3 * 0.5)  # three beats, in any of which it could be started
    after = task(found, "worker/0")
    measured("restarts after the stop", after.restarts - stopped.restarts)
    assert (after.state, after.incarnation) == ("stopped", stopped.incarnation)


@pytest.mark.fault(23)
def test_an_interrupted_up_is_completed_by_the_next_and_two_at_once_conflict(home: Path, measured: Measured) -> None:
    file = home.parent / "cluster.yaml"
    file.write_text("cluster: t\ntasks: {ps: 1, worker: 2}\n")
    command = [sys.executable, "-m", "dtfctl", "up", str(file)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    paths = controller_client.ClusterPaths.of("t")
    wait_until(lambda: paths.controller_info.exists(), "the controller runs")
    first.send_signal(signal.SIGSTOP)  # however slowly the second one starts, this one is not done before
    second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert second.returncode == 7, second.stderr
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGCONT)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 130, said
    third = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert third.returncode == 0, third.stderr
    running = [line for line in processes_of(home) if "dtfctl.task" in line and "keeper" not in line]
    measured("duplicates", len(running) - 3)
    assert len(running) == 3
    assert Cluster.open().status().running == 3


HANGS = """
import os, pathlib, time
from dtfctl.runtime.train.progress import report
first = pathlib.Path(os.environ["DTF_CHECKPOINT_DIR"]) / "been-here"
for step in range(10):
    report(step, 10)
    time.sleep(0.05)
if not first.exists():
    first.touch()
    def a_loop_that_hangs():
        while True:
            time.sleep(0.01)
    a_loop_that_hangs()
"""


@pytest.mark.fault(5)
def test_a_loop_that_hangs_while_all_beats_go_on_is_restarted_with_its_stacks(
    home: Path, tmp_path: Path, measured: Measured
) -> None:
    limit = 4.0
    result = Cluster.up(spec_of(ps=0, worker=1, health=Health(progress=limit)), task_command=STUB_COMMAND)
    cluster = result.cluster
    assert cluster is not None
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    job_id = cluster.submit(JobRequest(str(script)))
    (folder,) = wait_until(lambda: [Path(cluster.job(job_id).checkpoint_dir)], "the job's folder")
    wait_until((folder / "been-here").exists, "it hangs")
    begun = time.monotonic()
    wait_until(lambda: cluster.job(job_id).clients[0].restarts == 1, "it is started again", 60.0)
    measured("acted on after the limit s", time.monotonic() - begun - limit)
    wait_until(lambda: cluster.job(job_id).is_final, "it ends")
    assert cluster.job(job_id).state == "succeeded"
    assert "a_loop_that_hangs" in "".join(line.text for line in cluster.logs(f"job:{job_id}"))
    assert task(cluster, "worker/0").restarts == 0


@pytest.mark.fault(19)
def test_a_task_that_eats_too_much_is_called_out_of_memory(up: Up, measured: Measured) -> None:
    spec = with_worker_env(spec_of(worker=1, restart=Restart(attempts=1)), STUB_EAT="400")
    group = replace(spec.tasks["worker"], memory=64 * 2**20)
    cluster = up(replace(spec, tasks={**spec.tasks, "worker": group}))
    over = wait_until(lambda: (t := task(cluster, "worker/0")).state == "crashed" and t, "it is given up")
    said = [e.reason for e in cluster.events() if (e.kind, e.subject) == ("task.ended", "worker/0")]
    reasons = [*said, over.last_error]
    measured("labelled wrongly", sum("out of memory: it used" not in reason for reason in reasons))
    assert all("out of memory: it used" in reason and "its limit is 64 MiB" in reason for reason in reasons), reasons
    assert task(cluster, "ps/0").restarts == 0
