"""A cluster of real processes for each test, below the test's own folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher import api
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.model import TaskStatus
from dtfctl.launcher.operator import local_controller
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup
from dtfctl.launcher.system.procfs import identify, kill_group
from tests.support.waiting import PATIENCE_S as PATIENCE_S, wait_until as wait_until

STUB = Path(__file__).with_name("stub_task.py")
STUB_COMMAND = (sys.executable, str(STUB))


def spec_of(name: str = "t", ps: int = 1, worker: int = 2, **changes: Any) -> ClusterSpec:
    return ClusterSpec(name, {"ps": TaskGroup(ps), "worker": TaskGroup(worker)}, **changes)


def task(cluster: Cluster, name: str) -> TaskStatus:
    return next(item for item in cluster.status().tasks if item.name == name)


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {item.name: item.pid for item in cluster.status().tasks}


def processes_of(folder: Path) -> list[str]:
    """Live processes that have `folder` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and identify(int(entry.name)):
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in command:
                found.append(f"{entry.name} {command}")
    return found


def kill_leftovers(folder: Path) -> None:
    """End what a test left below `folder`, and fail if there was anything."""
    left = processes_of(folder)
    for line in left:
        process = identify(int(line.split()[0]))
        if process is not None:
            kill_group(process)
            os.kill(process.pid, signal.SIGKILL)
    assert not left, "left by the test:\n" + "\n".join(left)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """DTFCTL_HOME of this test; whatever runs below it is taken down afterwards, and if need be killed."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DTFCTL_HOME", str(folder))
    yield folder
    for info in api.clusters():
        try:
            Cluster.down_by_name(info.name, grace_s=0.5)
        except LauncherError:
            continue  # what it left is killed, and reported, below
    kill_leftovers(folder)


@pytest.fixture
def up(home: Path) -> Callable[..., Cluster]:
    """Bring up a cluster of stub tasks."""

    def bring_up(spec: ClusterSpec | None = None) -> Cluster:
        result = Cluster.up(spec or spec_of(), task_command=STUB_COMMAND)
        assert result.cluster is not None
        return result.cluster

    return bring_up


def controller_pid(cluster: Cluster) -> int:
    found = local_controller.find_controller(ClusterPaths.of(cluster.name))
    assert found is not None
    return found[0].pid


def agent_pid(cluster: Cluster) -> int:
    pid = cluster.status().hosts[0].agent_pid
    assert pid is not None
    return pid


def kill(pid: int | None, number: int = signal.SIGKILL) -> None:
    assert pid is not None
    os.kill(pid, number)


def peer_notes(cluster: Cluster, name: str) -> str:
    """What the stub task `name` was told about its peers."""
    host = ClusterPaths.of(cluster.name).host("localhost")
    return (host / "tasks" / name.replace("/", "-") / "peers.jsonl").read_text()
