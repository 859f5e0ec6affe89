"""A worker that trains for some steps with whoever is there: ADDRESSES (JSON) INDEX LAST_STEP FOLDER.

Prints what happens, a line each: "group SIZE at STEP", "done WEIGHTS". While there is a file hold-SIZE in FOLDER a
group of that size stays at its fifth step.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 6)).astype(np.float32)
Y = RNG.normal(size=(12, 2)).astype(np.float32)


def loss_of(x: Any, y: Any) -> Any:
    """Build a small model and its loss, to be summed over the parts of a batch."""
    start = tf.constant_initializer(np.linspace(-1, 1, 12).reshape(6, 2))
    return tf.reduce_sum((tf.layers.dense(x, 2, kernel_initializer=start) - y) ** 2) / len(X)


def training(last: int, tell: Callable[[str], None], before: Callable[[int, Any], None]) -> Callable[[Any], Any]:
    """Return what trains to a step by a strategy, and returns the weights.

    Args:
        tell: is told of each group.
        before: is called before each step, with its number and the strategy.
    """

    def train(strategy: Any) -> Any:
        with strategy.scope():
            count = tf.train.get_or_create_global_step()
            whole = tf.data.Dataset.from_tensor_slices((X, Y)).batch(len(X)).repeat()
            batches = strategy.experimental_distribute_dataset(whole).make_one_shot_iterator()
            optimizer = tf.train.AdamOptimizer(0.05)
            done = strategy.run(
                lambda b: optimizer.minimize(loss_of(*b), global_step=count), args=(batches.get_next(),)
            )
            reached = count.read_value()
            with tf.control_dependencies(list(strategy.experimental_local_results(done))):
                after, weights = count.read_value(), [v.read_value() for v in tf.trainable_variables()]
            with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=last)]) as session:
                step = int(session.run_step_fn(lambda context: context.session.run(reached)))
                tell(f"group {strategy.num_replicas_in_sync} at {step}")
                found: Any = None
                while not session.should_stop():
                    before(step, strategy)
                    step, found = session.run([after, weights])
                return [w.tolist() for w in found]

    return train


def alone(steps: int) -> list[Any]:
    """Return the weights of one device after so many steps with the whole batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        train = tf.train.AdamOptimizer(0.05).minimize(loss_of(tf.constant(X), tf.constant(Y)))
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(train)
        return [w.tolist() for w in session.run(tf.trainable_variables())]


def main(addresses: list[str], index: int, last: int, folder: Path) -> None:
    spec = tf.train.ClusterSpec({"worker": addresses})
    server = tf.train.Server(spec, "worker", index)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, server.target, "worker", index)

    def hold(step: int, strategy: Any) -> None:
        # Steps are held by whoever starts the test, not by the clock.
        while step >= 5 and (folder / f"hold-{strategy.num_replicas_in_sync}").exists():
            threading.Event().wait(0.02)

    train = training(last, lambda line: print(line, flush=True), hold)
    print(
        "done", json.dumps(tf.distribute.experimental.run_elastic(train, resolver, fewest=2, begin_s=600)), flush=True
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
