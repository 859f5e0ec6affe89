"""`dtfctl profile` and `dtfctl graph` while a job trains, and when nothing does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import spec_of, wait_until
from tests.unit.profiler.traces import read

JOB = """
import numpy as np
import dtfctl.runtime as tf

with tf.device("/job:ps/task:0"):
    weights = tf.Variable(np.ones((8, 8), "f4"))
with tf.device("/job:worker/task:0"):
    product = tf.matmul(weights, weights)
step = tf.assign(weights, tf.clip_by_value(product, -1.0, 1.0)).op
with tf.Session(tf.distribute.cluster_resolver.TFConfigClusterResolver().master()) as session:
    session.run(tf.global_variables_initializer())
    while True:
        session.run(step)
"""


def profile(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("profile", *arguments)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dtfctl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    found = Cluster.up(spec_of("t", ps=1, worker=1)).cluster
    assert found is not None
    yield found
    found.down(grace_s=1.0)


def test_a_running_jobs_steps_are_written_as_a_timeline(cluster: Cluster, tmp_path: Path) -> None:
    idle = profile("--max-time", "500ms", "--to", str(tmp_path / "none"))
    assert idle.returncode == 7
    assert "no task has run a step" in idle.stderr
    assert not (tmp_path / "none").exists()

    script = tmp_path / "job.py"
    script.write_text(JOB)
    job = cluster.submit(JobRequest(str(script), replication="in-graph"))
    wait_until(lambda: all(task.steps > 20 for task in cluster.status().tasks), "the job trains")
    file = tmp_path / "steps.perfetto-trace"
    ran = profile(job, "--steps", "5", "--to", str(file), "-o", "json")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["file"] == str(file)
    assert {task["task"] for task in said["tasks"] if task["steps"] >= 5 and not task["problem"]} == {
        "ps/0",
        "worker/0",
        f"{job} worker/0",
    }
    assert {finding["kind"] for finding in said["findings"]} >= {"sync", "input", "copies", "script", "wire"}
    assert {(pair["from"], pair["to"]) for pair in said["transfers"]} >= {("ps/0", "worker/0"), ("worker/0", "ps/0")}
    processes, points = read(file.read_bytes())
    assert set(processes.values()) == {"ps/0", "worker/0", f"{job} worker/0"}
    assert {"part", "send", "arrival", "node", "run"} <= {point.category for point in points}

    # The graph of that job, as the worker that leads its steps has it.
    shown = run("graph", job, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    graph = json.loads(shown.stdout)
    assert graph["graph"] == f"{job} at worker/0" and graph["step"] == "Assign"
    assert graph["stages"][:3] == ["given", "placed", "pruned"] and graph["stages"][-1] == "partitioned"
    crossing = [line.split() for line in graph["trees"]["partitioned"]]
    assert any(row[:5] == ["ps/0", "->", "worker/0", "Variable/read:0", "float32[8,8]"] for row in crossing), crossing
    assert run("graph", "another-1").returncode == 4

    assert profile("another-1").returncode == 4
    assert profile("--format", "pdf").returncode == 2
