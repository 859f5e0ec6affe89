"""Synchronous training by a strategy: every worker has all variables, and what one lacks it gets from the others.

    dtfctl submit examples/replication/multi_worker_mirrored.py

A worker may be killed at any time: the others wait until it is back, give it what they have, and all go on. The same
program trains in one process where there is no cluster.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import argparse
import sys

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

BATCH = 256


def load():
    """(train images, train labels, test images, test labels); every fifth digit is held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(images, training):
    hidden = tf.layers.dense(images, 64, name="hidden", reuse=tf.AUTO_REUSE)
    hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, training=training, name="norm", reuse=tf.AUTO_REUSE))
    return tf.layers.dense(hidden, 10, name="logits", reuse=tf.AUTO_REUSE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--checkpoints", help="where the first worker saves, and all go on from if nobody has anything")
    args = parser.parse_args()
    train_x, train_y, test_x, test_y = load()
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()

    with strategy.scope():
        count = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.005)
        # The same seed in all workers: each takes its part of the same batches.
        dataset = tf.data.Dataset.from_tensor_slices((train_x, train_y)).shuffle(2000, seed=1).repeat().batch(BATCH)
        batches = strategy.experimental_distribute_dataset(dataset).make_one_shot_iterator()

        def step(batch):
            images, labels = batch
            logits = network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            # Gradients of replicas are added up: each has its part of the mean over the whole batch.
            loss = tf.reduce_sum(losses) / BATCH
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                train = optimizer.minimize(loss, global_step=count)
            with tf.control_dependencies([train]):
                return tf.identity(loss)

        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batches.get_next(),)))

        def evaluate():
            right = tf.equal(tf.argmax(network(tf.constant(test_x), training=False), 1), test_y)
            return tf.reduce_mean(tf.cast(right, tf.float32))

        accuracy = strategy.experimental_local_results(strategy.run(evaluate))[0]
        hooks = [tf.train.StopAtStepHook(last_step=args.steps), tf.train.ProgressHook(total=args.steps)]
        with tf.train.MonitoredTrainingSession(hooks=hooks, checkpoint_dir=args.checkpoints) as session:
            print(f"goes on from step {session.run_step_fn(lambda c: c.session.run(count))}", flush=True)
            while not session.should_stop():
                value = session.run(loss)
            reached = session.run_step_fn(lambda c: c.session.run(accuracy))
    print(f"loss {value:.4f}, accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
