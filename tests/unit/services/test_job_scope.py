"""Jobs that use the same tasks at once: each sees its own state, under its own names for tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.errors import AbortedError, CancelledError, FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.services.job_scope import JobScope
from tests.support.clusters import InProcessCluster, in_process_cluster

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster({"ps": 1, "worker": 3}) as made:
        yield made


def counter(device: str) -> tuple[tf.Graph, Any, Any]:
    """A graph with a variable on `device`: (graph, its initialization, one more)."""
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        variable = tf.get_variable("count", initializer=0.0, use_resource=False)
        return graph, variable.initializer, tf.assign_add(variable, 1.0)


def session(cluster: InProcessCluster, graph: tf.Graph, job: str, index: int = 0) -> tf.Session:
    return tf.Session(f"{cluster.target('worker', index)}{'?' if job else ''}{job}", graph=graph)


def test_variables_of_one_job_are_not_those_of_another(cluster: InProcessCluster) -> None:
    graph, init, more = counter("/job:ps/task:0")
    with session(cluster, graph, "job=a-1") as a, session(cluster, graph, "job=b-1") as b:
        a.run(init)
        assert [a.run(more), a.run(more)] == [1.0, 2.0]
        with pytest.raises(FailedPreconditionError):
            b.run(more)
        b.run(init)
        assert b.run(more) == 1.0
    with session(cluster, graph, "job=a-1", index=1) as other_worker:
        assert other_worker.run(more) == 3.0, "workers of a job share its variables"
    with session(cluster, graph, "") as outside, pytest.raises(FailedPreconditionError):
        outside.run(more)


def test_a_job_names_its_tasks_from_zero(cluster: InProcessCluster) -> None:
    job = "job=c-1&tasks=ps/0=ps/0,worker/0=worker/2,worker/1=worker/1"
    graph, init, more = counter("/job:worker/task:0")
    with session(cluster, graph, job, index=2) as mine:
        mine.run(init)
        assert mine.run(more) == 1.0
        names = {device.name for device in mine.list_devices()}
        assert {name.partition("/device")[0] for name in names} == {
            "/job:ps/replica:0/task:0",
            "/job:worker/replica:0/task:0",
            "/job:worker/replica:0/task:1",
        }
    # The same variable, by the cluster's name of its task.
    real, _, _ = counter("/job:worker/task:2")
    with session(cluster, real, "job=c-1", index=0) as all_tasks:
        assert all_tasks.run("count:0") == 1.0


def test_a_job_has_no_other_tasks_than_its_own(cluster: InProcessCluster) -> None:
    graph, init, _ = counter("/job:worker/task:1")
    with (
        session(cluster, graph, "job=d-1&tasks=ps/0=ps/0,worker/0=worker/2", index=2) as mine,
        pytest.raises(InvalidArgumentError, match=r"job d-1 has no task worker/1; it has ps/0, worker/0"),
    ):
        mine.run(init)


def test_a_task_that_is_down_is_no_matter_to_a_job_without_it() -> None:
    with in_process_cluster({"ps": 1, "worker": 2}, peer_timeout_s=1.0) as cluster:
        cluster.stop("worker", 1)
        graph, init, more = counter("/job:ps/task:0")
        with session(cluster, graph, "job=e-1&tasks=ps/0=ps/0,worker/0=worker/0") as mine:
            mine.run(init)
            assert mine.run(more) == 1.0
        with pytest.raises(AbortedError), session(cluster, graph, "job=e-1") as everybody:
            everybody.run(init)


def test_with_the_job_its_state_and_sessions_go(cluster: InProcessCluster) -> None:
    graph, init, more = counter("/job:ps/task:0")
    left_open = session(cluster, graph, "job=f-1")
    left_open.run(init)
    with session(cluster, graph, "job=g-1") as other:
        other.run(init)
        for server in cluster.servers.values():
            server.job_ended("f-1")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                left_open.run(more)
            except (AbortedError, CancelledError, FailedPreconditionError):
                break
            assert time.monotonic() < deadline, "the session goes on"
        assert other.run(more) == 1.0
    with pytest.raises(AbortedError, match="Job f-1 has ended"), session(cluster, graph, "job=f-1") as late:
        late.run(init)
    ps = cluster.servers["ps", 0].worker
    assert "f-1" not in ps._job_resources


def test_reset_is_of_the_job_alone(cluster: InProcessCluster) -> None:
    graph, init, more = counter("/job:ps/task:0")
    one = session(cluster, graph, "job=h-1")
    one.run(init)
    with session(cluster, graph, "job=i-1") as two:
        two.run(init)
        tf.Session.reset(f"{cluster.target('worker', 0)}?job=h-1")
        assert two.run(more) == 1.0
        with pytest.raises(AbortedError):
            one.run(more)
    with session(cluster, graph, "job=h-1") as again, pytest.raises(FailedPreconditionError):
        again.run(more)


@pytest.mark.parametrize(
    "text", ["", "task=3", "job=", "job=a b", "job=../x", "job=a&tasks=worker/0", "job=a&tasks=w/0=w/1,w/1=w/1"]
)
def test_malformed_scopes_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        JobScope.parse(text)
