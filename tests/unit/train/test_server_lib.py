"""`train.Server` in a process by itself, and in a job beside a running task."""

from __future__ import annotations

import json

import pytest

import dtfctl.runtime as tf

CLUSTER = {"ps": ["localhost:2222"], "worker": ["localhost:2223", "localhost:2224"]}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of a job's process beside worker/1."""
    target = "unix:/somewhere/worker-1.sock"
    monkeypatch.setenv("DTF_TARGET", target)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}))
    return target


def test_the_server_of_the_running_task_is_that_task(job: str) -> None:
    server = tf.train.Server(tf.train.ClusterSpec(CLUSTER), job_name="worker", task_index=1)
    assert server.target == job
    server.join()  # returns


@pytest.mark.parametrize(
    ("cluster", "name", "index"),
    [({"worker": ["localhost:0"]}, "worker", 0), ({"ps": ["localhost:1"], "worker": ["localhost:0"]}, "worker", 0)],
)
def test_another_cluster_gets_a_server_of_its_own(job: str, cluster: dict, name: str, index: int) -> None:
    server = tf.train.Server(cluster, job_name=name, task_index=index)
    try:
        assert server.target.startswith("grpc://localhost:")
    finally:
        server.stop(0.0)


def test_without_a_job_a_session_runs_on_the_server_itself() -> None:
    server = tf.train.Server.create_local_server()
    try:
        with tf.Graph().as_default(), tf.Session(server.target) as session:
            assert session.run(tf.constant(2) + 3) == 5
    finally:
        server.stop(0.0)
