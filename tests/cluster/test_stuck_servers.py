"""A task whose server hangs while its process goes on to beat is noticed and replaced; one that only works is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.paths import ClusterPaths
from tests.cluster.conftest import spec_of, task, wait_until

COMMAND = (sys.executable, str(Path(__file__).with_name("stuck_task.py")))
PATIENCE_S = 180.0
"""A process that uses any processor time is given a minute."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("stuck")))
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        found = Cluster.up(spec_of(ps=0, worker=2), task_command=COMMAND, timeout_s=PATIENCE_S).cluster
        assert found is not None
        yield found
        found.down(grace_s=1.0)


def stick(cluster: Cluster, name: str, what: str) -> None:
    folder = ClusterPaths.of(cluster.name).host("localhost") / "tasks" / name.replace("/", "-")
    (folder / what).touch()


def said(cluster: Cluster, name: str, text: str) -> bool:
    return any(text in line.text for line in cluster.logs(name))


@pytest.mark.parametrize(("what", "reason"), [("reactor", "its reactor"), ("calls", "its gRPC server")])
def test_a_task_that_beats_and_does_not_serve_is_replaced(cluster: Cluster, what: str, reason: str) -> None:
    before, other = task(cluster, "worker/1"), task(cluster, "worker/0")
    stick(cluster, "worker/1", what)
    wait_until(
        lambda: (t := task(cluster, "worker/1")).state == "running" and t.incarnation > before.incarnation,
        "a new one runs",
        PATIENCE_S,
    )
    ended = [e.reason for e in cluster.events() if (e.kind, e.subject) == ("task.stopping", "worker/1")]
    assert f"hangs: {reason} has not answered for" in ended[-1]
    assert any(e.kind == "task.suspect" and reason in e.reason for e in cluster.events())
    assert said(cluster, "worker/1", "Thread 0x"), "where its threads stood"
    assert task(cluster, "worker/0").pid == other.pid


def test_a_task_that_computes_with_the_interpreter_lock_held_is_left_alone(cluster: Cluster) -> None:
    before = task(cluster, "worker/0")
    stick(cluster, "worker/0", "lock")
    wait_until(lambda: said(cluster, "worker/0", "held for"), "it has computed", PATIENCE_S)
    wait_until(lambda: (t := task(cluster, "worker/0")).health == "healthy" and t, "it beats again")
    assert (task(cluster, "worker/0").pid, task(cluster, "worker/0").restarts) == (before.pid, before.restarts)
