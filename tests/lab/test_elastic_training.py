"""Elastic training over hosts: a task that is killed changes the group and not the job, and so do tasks that come."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from tests.cluster.commands import Shell
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab
from tests.support.waiting import wait_until

HOSTS, SLOTS = 4, 2
PROGRAM = """
import time

import dtfctl.runtime as tf


def train(strategy):
    with strategy.scope():
        count = tf.train.get_or_create_global_step()
        weights = tf.get_variable("w", [1000], initializer=tf.zeros_initializer())

        def step():
            loss = tf.reduce_sum((weights - 1.0) ** 2) / strategy.num_replicas_in_sync
            return tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=count)

        train_op = strategy.run(step)
        with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=10**9)]) as session:
            before = session.run_step_fn(lambda c: c.session.run(count))
            session.run(train_op)
            print(f"group {strategy.num_replicas_in_sync} step {before} at {time.time():.3f}", flush=True)
            while not session.should_stop():
                session.run(train_op)
                time.sleep(0.02)


tf.distribute.experimental.run_elastic(train, fewest=2)
"""
SAID = re.compile(r"group (\d+) step (\d+) at ([\d.]+)")


@pytest.mark.nightly
def test_training_goes_on_with_fewer_and_with_more(
    make_lab: Callable[[int], Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(HOSTS)
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    shell = Shell(tmp_path, {**os.environ, "NO_COLOR": "1"})
    script = tmp_path / "train_elastic.py"
    script.write_text(PROGRAM)
    cluster = Cluster.up(cluster_of(lab, ps=0, worker=HOSTS, slots=SLOTS)).cluster
    assert cluster is not None
    try:
        done = shell("submit", "--detach", "--replication", "elastic", str(script))
        assert done.returncode == 0, done.stdout + done.stderr

        def groups() -> list[tuple[int, int, float]]:
            found = [
                (int(n), int(step), float(at)) for n, step, at in SAID.findall(shell("logs", "train-elastic-1").stdout)
            ]
            return sorted(found, key=lambda each: each[2])

        def went_on(size: int, since: float) -> tuple[int, int, float]:
            wait_until(lambda: any(n == size and at > since for n, _, at in groups()), f"{size} train", 60)
            return next(each for each in groups() if each[0] == size and each[2] > since)

        begun = went_on(HOSTS, 0.0)
        status = {task.name: task for task in cluster.status().tasks}
        victim = status[f"worker/{HOSTS - 1}"]
        host = next(name for name in lab.names if lab.address_of(name) == victim.host)
        killed_at = time.time()
        for pid in lab.processes(host, "dtfctl.task"):
            os.kill(pid, signal.SIGKILL)
        # With those who are left at first, or with the task that is back at once.
        wait_until(lambda: any(at > killed_at for _, _, at in groups()), "a group goes on", 120)
        size, step, at = next(each for each in groups() if each[2] > killed_at)
        print(f"a task is killed: {size} go on after {at - killed_at:.2f} s from step {step}")
        assert step >= begun[1]
        asked_at = time.time()
        assert shell("scale", f"worker={HOSTS * SLOTS}").returncode == 0
        _, more_step, more_at = went_on(HOSTS * SLOTS, asked_at)
        print(f"scaled: {HOSTS * SLOTS} go on after {more_at - asked_at:.2f} s from step {more_step}")
        assert more_step > step
    finally:
        cluster.down(grace_s=1.0)
