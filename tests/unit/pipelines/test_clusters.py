"""Pipelines over the tasks of a cluster: sessions for training, checkpoints, and stages that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.unit.pipelines.test_training import adam, alone, same, staged, trained

pytestmark = pytest.mark.slow


def train(build: Any, target: str, folder: Path, steps: int, before: Any = lambda step: None) -> Any:
    """Train up to a step in a session for training; return losses and variables."""
    from tests.unit.pipelines.test_training import X, Y

    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0" if target else None):
            count = tf.train.get_or_create_global_step()
        op, loss = build(adam(), tf.constant(X), tf.constant(Y), count)
        hooks = [tf.train.StopAtStepHook(last_step=steps)]
        losses = []
        with tf.train.MonitoredTrainingSession(
            target, checkpoint_dir=str(folder), hooks=hooks, save_checkpoint_steps=1, log_step_count_steps=None
        ) as session:
            while not session.should_stop():
                before(session.run_step_fn(lambda c: c.session.run(count)))
                losses.append(session.run([loss, op])[0])
            found = {v.op.name: session.run_step_fn(lambda c, v=v: c.session.run(v)) for v in tf.global_variables()}
    return losses, found


def stages(cluster: InProcessCluster) -> list[str]:
    return [f"/job:worker/task:{i}" for i in range(len(cluster.cluster["worker"]))]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_checkpoints_are_those_of_one_device_and_a_lost_stage_is_restored(tmp_path: Path, schedule: str) -> None:
    """Steps 1 and 2 on one device, 3 to 6 in a pipeline that loses a stage after 4, 7 and 8 on one device again."""
    expected = trained(alone, adam, 8)
    train(alone, "", tmp_path, 2)
    with in_process_cluster({"worker": 2}) as cluster:
        pipeline = tf.distribute.experimental.Pipeline(stages(cluster), 4, schedule)
        lost = []

        def lose(step: int) -> None:
            if step == 4 and not lost:
                lost.append(step)
                cluster.stop("worker", 1)
                cluster.start("worker", 1)

        losses, _ = train(staged(pipeline, 2), cluster.target("worker", 0), tmp_path, 6, lose)
        assert lost and len(losses) == 4
    losses, found = train(alone, "", tmp_path, 8)
    same((losses, found), (expected[0][6:], expected[1]))
