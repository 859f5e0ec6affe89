"""Synchronous training without a parameter server: every worker has all variables, and gradients are averaged.

    dtfctl submit examples/replication/all_reduce.py

Nobody saves checkpoints. When a worker dies, the step of the others fails at once; once it is back, one that has gone
furthest gives it what it has, and all go on. Without a cluster it trains in one process.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import argparse
import contextlib
import sys

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

BATCH = 64
GROUP = 1


def load():
    """(train images, train labels, test images, test labels); every fifth digit is held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(images):
    hidden = tf.layers.dense(images, 64, activation=tf.nn.relu, name="hidden")
    return tf.layers.dense(hidden, 10, name="logits")


class Together:
    """What all workers compute together; each computation has a number of its own, the same in all of them."""

    def __init__(self, workers: int):
        self.workers = workers
        self.instances = 0

    def _keys(self):
        self.instances += 1
        return {"group_size": self.workers, "group_key": GROUP, "instance_key": self.instances}

    def mean(self, value):
        return tf.raw_ops.CollectiveReduce(
            input=value, merge_op="Add", final_op="Div", subdiv_offsets=[0], **self._keys()
        )

    def each(self, value):
        """The values of all workers, one below the other."""
        shape = [self.workers, *value.shape.as_list()[1:]]
        return tf.raw_ops.CollectiveGather(input=value, shape=shape, **self._keys())

    def give_and_take(self, variables):
        """Two ops for one of which each worker decides: to give the others its variables, or to take those given."""
        given, taken = [], []
        for variable in variables:
            keys = self._keys()
            given.append(tf.raw_ops.CollectiveBcastSend(input=variable.value(), shape=variable.shape, **keys).op)
            value = tf.raw_ops.CollectiveBcastRecv(T=variable.dtype.base_dtype, shape=variable.shape, **keys)
            taken.append(variable.assign(value).op)
        return tf.group(*given), tf.group(*taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    train_x, train_y, test_x, test_y = load()
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = task.cluster_spec()
    together = Together(cluster.num_tasks("worker") if cluster else 1)
    index = task.task_id or 0
    own = f"/job:worker/task:{index}" if cluster else ""
    with tf.device(own):
        images, labels = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        # Workers of a cluster keep variables by name: each its own.
        with tf.variable_scope(f"worker_{index}"):
            logits = network(images)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
            step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
            optimizer = tf.train.AdamOptimizer(0.005)
            gradients = [(together.mean(g), v) for g, v in optimizer.compute_gradients(loss)]
            train = optimizer.apply_gradients(gradients, global_step=step)
        steps_of_all = together.each(tf.reshape(step, [1]))
        give, take = together.give_and_take(tf.global_variables())
        init, missing = tf.global_variables_initializer(), tf.report_uninitialized_variables()

    # It sees no task but its own: others may come and go.
    config = tf.ConfigProto(device_filters=[own] if own else [])
    draw = np.random.default_rng(index)
    done = agreed = 0
    session = None
    while done < args.steps:
        try:
            if session is None:
                session, agreed = tf.Session(task.master(), config=config), False
                if session.run(missing).size:
                    session.run(init)
            if not agreed:
                counts = session.run(steps_of_all)
                furthest = int(np.argmax(counts))
                session.run(give if index == furthest else take)
                agreed, done = True, int(counts[furthest])
                print(f"goes on from step {done} of worker {furthest}", flush=True)
            rows = draw.integers(len(train_y), size=BATCH)
            session.run(train, {images: train_x[rows], labels: train_y[rows]})
            done += 1
        except (tf.errors.AbortedError, tf.errors.UnavailableError) as error:
            print(f"step {done}: {error.message.splitlines()[0]}", flush=True)
            if session is not None:
                # Its own task may be the one that died.
                with contextlib.suppress(tf.errors.OpError):
                    session.close()
            session = None

    reached = session.run(accuracy, {images: test_x, labels: test_y})
    print(f"accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
