"""Links as training uses them, between hosts that have them for themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.controller.decisions.link_rates import HOLD_SAMPLES
from dtfctl.launcher.spec.exchange import Runtime
from dtfctl.launcher.spec.model import Metrics
from tests.cluster.commands import Shell
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

BYTES = 8_000_000
PROGRAM = f"""
import dtfctl.runtime as tf

task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
worker = f"/job:{{task.task_type}}/task:{{task.task_id}}"
with tf.device("/job:ps/task:0"):
    weights = tf.get_variable(f"weights{{task.task_id}}", [{BYTES // 4}], initializer=tf.ones_initializer())
with tf.device(worker):
    gradient = tf.multiply(weights, 0.5)
train = tf.train.GradientDescentOptimizer(1e-6).apply_gradients([(gradient, weights)])
with tf.Session(task.master()) as session:
    session.run(weights.initializer)
    while True:
        session.run(train)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_a_link_that_becomes_slow_under_training_is_an_event_and_so_is_its_recovery(
    make_lab: Callable[[int], Lab], transport: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(2)
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    (port,) = free_ports(1)
    spec = cluster_of(lab, worker=1, runtime=Runtime(transport=transport), metrics=Metrics(port))
    cluster = Cluster.up(spec).cluster
    assert cluster is not None
    try:
        shell = Shell(tmp_path, {**os.environ, "NO_COLOR": "1"})
        script = tmp_path / "train.py"
        script.write_text(PROGRAM)
        assert shell("submit", "--detach", str(script)).returncode == 0

        def told() -> list[str]:
            """What was said of links in training, in its order."""
            events = [json.loads(line) for line in shell("events", "-o", "json").stdout.splitlines()]
            names = ("ps/0 to worker/0", "worker/0 to ps/0")
            return [
                f"{event['event']} {name}"
                for event in events
                for name in names
                if event["event"].startswith("link.") and name in event["reason"]
            ]

        def samples() -> int:
            links = [link for task in cluster.status().tasks for link in task.links]
            return min((link.samples for link in links), default=0) if len(links) == 2 else 0

        wait_until(lambda: samples() > HOLD_SAMPLES, "both ways were measured")
        assert not told()
        assert shell("metrics").stdout.count("\ndtfctl_runtime_link_bytes_per_second{") == 2
        lab.slow(lab.names[1], "100mbit")
        wait_until(lambda: len(told()) == 2, "both ways are slow")
        assert sorted(told()) == ["link.degraded ps/0 to worker/0", "link.degraded worker/0 to ps/0"]
        lab.mend(lab.names[1])
        wait_until(lambda: len(told()) == 4, "both ways are well again")
        assert sorted(told()[2:]) == ["link.recovered ps/0 to worker/0", "link.recovered worker/0 to ps/0"]
    finally:
        cluster.down(grace_s=1.0)
        lab.down()
