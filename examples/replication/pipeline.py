"""Pipeline: a model too large for one worker, in stages on all of them, trained by one client.

    dtfctl submit --replication in-graph examples/replication/pipeline.py

Each batch is cut into micro-batches that go through the stages one behind the other. A stage's worker may be killed at
any time: the step ends with an error, and training goes on from the newest checkpoint when the worker is back. Without
a cluster two devices of one process are the stages.
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

BATCH = 128


def load():
    """(train images, train labels, test images, test labels); every fifth digit is held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--schedule", choices=("1f1b", "gpipe"), default="1f1b")
    parser.add_argument("--recompute", action="store_true", help="compute activations again instead of holding them")
    saved = os.environ.get("DTF_CHECKPOINT_DIR")
    parser.add_argument("--checkpoints", default=saved, help="where to save, and to go on from")
    args = parser.parse_args()
    train_x, train_y, test_x, test_y = load()

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = task.cluster_spec()
    workers = [f"/job:worker/task:{i}" for i in range(cluster.num_tasks("worker"))] if cluster else ["/cpu:0", "/cpu:1"]
    pipeline = tf.distribute.experimental.Pipeline(workers, args.microbatches, args.schedule, args.recompute)

    def network(images):
        """Logits; a layer of 64 for each stage, and the last stage's of 10 besides."""
        hidden = images
        for i in range(len(workers)):
            with pipeline.stage(i):
                hidden = tf.layers.dense(hidden, 64, activation=tf.nn.relu, name=f"layer{i}", reuse=tf.AUTO_REUSE)
        with pipeline.stage(len(workers) - 1):
            return tf.layers.dense(hidden, 10, name="logits", reuse=tf.AUTO_REUSE)

    def model(images, labels):
        """The mean loss over a micro-batch."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(images)))

    with tf.device(workers[0]):
        count = tf.train.get_or_create_global_step()
        dataset = tf.data.Dataset.from_tensor_slices((train_x, train_y)).shuffle(2000, seed=1).repeat()
        batch = dataset.batch(BATCH, drop_remainder=True).make_one_shot_iterator().get_next()
    step = pipeline.minimize(tf.train.AdamOptimizer(0.005), model, batch, global_step=count)
    right = tf.equal(tf.argmax(network(tf.constant(test_x)), 1), test_y)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))

    hooks = [tf.train.StopAtStepHook(last_step=args.steps), tf.train.ProgressHook(total=args.steps)]
    devices = None if cluster else tf.ConfigProto(device_count={"CPU": len(workers)})
    with tf.train.MonitoredTrainingSession(
        master=task.master(), hooks=hooks, config=devices, checkpoint_dir=args.checkpoints, save_checkpoint_steps=50
    ) as session:
        print(f"goes on from step {session.run_step_fn(lambda c: c.session.run(count))}", flush=True)
        while not session.should_stop():
            loss, _ = session.run([step.loss, step.train_op])
        reached = session.run_step_fn(lambda c: c.session.run(accuracy))
    print(f"loss {loss:.4f}, accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
