"""An agent that hangs is replaced, whoever notices it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import Health
from dtfctl.launcher.system.procfs import identify
from tests.cluster.conftest import agent_pid, controller_pid, kill, pids, processes_of, spec_of, wait_until

Up = Callable[..., Cluster]


def is_replaced(cluster: Cluster, first: int) -> bool:
    (host,) = cluster.status().hosts
    return host.state == "up" and host.agent_pid not in (None, first)


@pytest.mark.parametrize("health", [Health(), Health(pause=1.0, down_after=2.0)], ids=["patient", "hasty"])
def test_by_the_controller_that_knew_it(up: Up, health: Health) -> None:
    """Also where the host counts as lost before the agent is given up."""
    cluster = up(spec_of(health=health))
    first = agent_pid(cluster)
    kill(first, signal.SIGSTOP)
    wait_until(lambda: is_replaced(cluster, first), "another agent")
    wait_until(lambda: cluster.status().running == 3, "all run")


def test_by_a_controller_that_never_heard_of_it(up: Up) -> None:
    cluster = up(spec_of())
    before, first = pids(cluster), agent_pid(cluster)
    kill(first, signal.SIGSTOP)
    kill(controller_pid(cluster))
    wait_until(lambda: is_replaced(cluster, first), "another agent")
    wait_until(lambda: cluster.status().running == 3, "all run")
    assert pids(cluster) == before, "tasks outlive their agent"


def test_one_whose_folder_was_deleted_ends_with_all_it_runs_and_another_begins(up: Up, home: Path) -> None:
    cluster = up(spec_of())
    before, first = pids(cluster), agent_pid(cluster)
    (host,) = home.glob("clusters/*/hosts/*")
    host.rename(home / "gone")  # at once, as nothing is to be made in it meanwhile
    shutil.rmtree(home / "gone")
    wait_until(lambda: is_replaced(cluster, first), "another agent")
    old = {*before.values()}
    wait_until(lambda: cluster.status().running == 3 and not {*pids(cluster).values()} & old, "all run, and are others")
    wait_until(lambda: not any(pid and identify(pid) for pid in old), "nobody of before runs on")
    assert cluster.down() == ()
    assert processes_of(home) == []


def test_by_whoever_takes_the_cluster_down(up: Up, home: Path) -> None:
    cluster = up(spec_of())
    kill(agent_pid(cluster), signal.SIGSTOP)
    assert cluster.down() == ()
    assert processes_of(home) == []
