"""Synchronous training by whoever is there: workers come, are killed or scaled away while it goes on.

    dtfctl submit --replication elastic examples/replication/elastic.py --steps 2000 --pause 0.02
    dtfctl scale worker=4

Those who are left go on from what they have in memory; every step is over the same whole batch, whoever shares it.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import argparse
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

BATCH = 256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step, to have time to look on")
    args = parser.parse_args()
    digits = load_digits()
    images, labels = (digits.data / 16.0).astype(np.float32), digits.target.astype(np.int64)

    def train(strategy):
        """Called in a graph of its own for each group of workers."""
        with strategy.scope():
            count = tf.train.get_or_create_global_step()
            optimizer = tf.train.AdamOptimizer(0.005)
            dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2000, seed=1).repeat().batch(BATCH)
            batches = strategy.experimental_distribute_dataset(dataset).make_one_shot_iterator()

            def step(batch):
                hidden = tf.layers.dense(batch[0], 64, tf.nn.relu)
                logits = tf.layers.dense(hidden, 10)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch[1], logits=logits)
                loss = tf.reduce_sum(losses) / BATCH
                with tf.control_dependencies([optimizer.minimize(loss, global_step=count)]):
                    return tf.identity(loss)

            loss = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batches.get_next(),)))
            hooks = [tf.train.StopAtStepHook(last_step=args.steps), tf.train.ProgressHook(total=args.steps)]
            with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                reached = session.run_step_fn(lambda c: c.session.run(count))
                print(f"{strategy.num_replicas_in_sync} workers go on from step {reached}", flush=True)
                value = None
                while not session.should_stop():
                    value = session.run(loss)
                    time.sleep(args.pause)
        return value

    value = tf.distribute.experimental.run_elastic(train)
    print("training was over" if value is None else f"loss {value:.4f}")
    return 0 if value is None or value < 0.2 else 1


if __name__ == "__main__":
    sys.exit(main())
