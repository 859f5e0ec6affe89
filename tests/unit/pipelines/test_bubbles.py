"""How long stages have nothing to do, as steps really run: in which order, and who waits for whom.

What a stage computes takes time by a clock of its own alone: tensors carry when they were computed, so that what else
the machine does is nothing to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.pipelines.schedules import ideal_bubble
from tests.support.clusters import InProcessCluster, in_process_cluster

FORWARD, BACKWARD = 1.0, 2.0
CLOCKS: dict[int, float] = defaultdict(float)
"""Of each stage: when it has ended what it computed last."""


def _back(op: Any, grad: Any) -> Any:
    return tf.apply_op("TimedUnit", x=grad, stage=op.get_attr("stage"), takes=BACKWARD)


tf.define_op("TimedUnit(x: float) -> (y: float); stage: int; takes: float; !stateful", gradient=_back)


@tf.register_kernel("TimedUnit")
def _unit(build: Any) -> Any:
    stage, takes = build.attr("stage"), build.attr("takes")

    def compute(x: Any) -> Any:
        CLOCKS[stage] = max(CLOCKS[stage], float(x.max())) + takes
        return np.full_like(x, CLOCKS[stage])

    return compute


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster({"worker": 4}) as made:
        yield made


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (4, 4), (4, 8), (4, 16), (4, 2)])
def test_steps_have_the_bubble_of_their_schedule_and_no_more(
    cluster: InProcessCluster, schedule: str, stages: int, microbatches: int
) -> None:
    with tf.Graph().as_default():
        devices = [f"/job:worker/task:{index}" for index in range(stages)]
        pipeline = tf.distribute.experimental.Pipeline(devices, microbatches, schedule)

        def model(x: Any) -> Any:
            for stage in range(stages):
                with pipeline.stage(stage):
                    # What is added is 0, so that times pass as they are.
                    own = tf.get_variable(f"w{stage}", [1], initializer=tf.zeros_initializer())
                    x = tf.apply_op("TimedUnit", x=x + own, stage=stage, takes=FORWARD)
            return tf.reduce_mean(x)

        batch = tf.zeros([microbatches, 1])
        step = pipeline.minimize(tf.train.GradientDescentOptimizer(0.0), model, (batch,))
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(5):  # the first ones are not planned as later ones are
                CLOCKS.clear()
                session.run(step.train_op)
                bubble = 1 - microbatches * (FORWARD + BACKWARD) / max(CLOCKS.values())
                assert bubble == pytest.approx(ideal_bubble(stages, microbatches))
