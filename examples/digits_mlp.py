"""Train an MLP on handwritten digits: variables on the ps, every worker updates them on its own (asynchronously).

    dtfctl submit examples/digits_mlp.py [--steps 2000]

The data are scikit-learn's 1,797 scanned digits of 8x8 pixels, which come with that package. Run without a cluster
(`python examples/digits_mlp.py`) it trains in one process.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import argparse
import os
import sys

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf


def load(seed: int = 0):
    """(train images, train labels, test images, test labels); every fifth digit, shuffled, is held out."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def model(images, labels, learning_rate: float):
    """The graph: loss, accuracy and train op of a 64-128-10 network."""
    hidden = tf.layers.dense(images, 128, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 10, name="logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(learning_rate).minimize(loss, global_step=step)
    return loss, accuracy, train_op


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    args = parser.parse_args()

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    train_x, train_y, test_x, test_y = load()
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        images = tf.placeholder(tf.float32, [None, 64], name="images")
        labels = tf.placeholder(tf.int64, [None], name="labels")
        loss, accuracy, train_op = model(images, labels, args.learning_rate)

    final = tf.train.FinalOpsHook(accuracy, final_ops_feed_dict={images: test_x, labels: test_y})
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"loss": loss, "accuracy": accuracy}))
    draw = np.random.default_rng(task.task_id)
    with tf.train.MonitoredTrainingSession(
        master=task.master(),
        is_chief=task.is_chief,
        checkpoint_dir=os.environ.get("DTF_CHECKPOINT_DIR"),
        save_checkpoint_secs=5,
        save_summaries_steps=None,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            rows = draw.integers(len(train_y), size=args.batch)
            session.run(train_op, {images: train_x[rows], labels: train_y[rows]})

    if not task.is_chief:
        return 0
    reached = float(final.final_ops_values)
    print(f"accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
