"""Hosts that can only be reached over a jump host: their agents are called through the SSH connection."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import Health
from tests.cluster.commands import Shell
from tests.cluster.conftest import controller_pid, kill, pids, wait_until
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import Lab
from tests.lab.test_up import ADD, run_job

LEASE_S = 5.0
IDLE_S = 6.0
"""After which a connection that nobody needs would have been closed."""


@pytest.fixture(scope="module")
def hidden(lab: Lab) -> Iterator[list[str]]:
    """Two hosts that see each other and the jump host, and this machine not at all."""
    names = lab.names[1:]
    for name in names:
        lab.split(name, lab.gateway)
    yield names
    for name in names:
        lab.mend(name)


@pytest.fixture(scope="module")
def cluster(lab: Lab, hidden: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("jump")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(base / "home"))
        jump = ssh_of(lab, jump=(f"root@{lab.address_of(lab.names[0])}",))
        spec = cluster_of(lab, 1, 1, hosts=hidden, ssh=jump, health=Health(lease=LEASE_S))
        result = Cluster.up(spec)
        assert (result.exit_code, result.running) == (0, 2), result.problems
        assert result.cluster is not None
        yield result.cluster
        assert result.cluster.down(grace_s=1.0) == ()
        for name in hidden:
            assert lab.left_over(name) == []


def test_the_way_is_shown(cluster: Cluster, lab: Lab) -> None:
    shell = Shell(Path(os.environ["DTFCTL_HOME"]).parent, {**os.environ, "NO_COLOR": "1"})
    shown = shell("hosts", "-o", "wide").stdout
    assert shown.count(f"SSH over root@{lab.address_of(lab.names[0])}") == 2
    assert "THROUGH" not in shell("hosts").stdout


def test_a_job_runs_and_the_connection_stays(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "add.py"
    script.write_text(ADD.replace("worker/task:1", "worker/task:0"))
    time.sleep(IDLE_S)
    ended, output = run_job(cluster, JobRequest(str(script)))
    assert ended.state == "succeeded", output
    assert [event for event in cluster.events() if event.kind in ("host.suspect", "host.down")] == []


def test_an_agent_that_died_is_found_at_its_new_port(cluster: Cluster, lab: Lab, hidden: list[str]) -> None:
    address = lab.address_of(hidden[0])
    (pid,) = lab.processes(hidden[0], "dtfctl.launcher.agent --cluster")
    was = next(host for host in cluster.status().hosts if host.name == address)
    os.kill(pid, signal.SIGKILL)

    def is_new() -> bool:
        now = next(host for host in cluster.status().hosts if host.name == address)
        return now.state == "up" and now.agent_pid not in (None, was.agent_pid)

    wait_until(is_new, "another agent")
    wait_until(lambda: all(task.state == "running" for task in cluster.status().tasks), "all run")


def test_tasks_outlast_a_dead_controller_behind_a_jump_host(cluster: Cluster) -> None:
    before = pids(cluster)
    kill(controller_pid(cluster))
    time.sleep(LEASE_S * 2)
    wait_until(lambda: pids(cluster) == before, "they go on")
    assert not [event for event in cluster.events() if event.kind == "host.lease-ended"]


def test_a_host_cut_off_from_the_jump_host_stops_its_tasks(cluster: Cluster, lab: Lab, hidden: list[str]) -> None:
    name = hidden[1]
    address = lab.address_of(name)
    task = next(item for item in cluster.status().tasks if item.host == address)
    lab.cut(name)
    try:
        wait_until(lambda: lab.processes(name, "dtfctl.task") == [], "its lease has ended")
    finally:
        lab.mend(name)
        lab.split(name, lab.gateway)

    def is_back() -> bool:
        now = next(item for item in cluster.status().tasks if item.name == task.name)
        return now.state == "running" and now.incarnation > task.incarnation

    wait_until(is_back, f"{task.name} runs again")
