"""Between-graph replication, synchronous: a client and a graph for each worker, one update for all of them.

    dtfctl submit examples/replication/between_graph_sync.py

An update averages the gradients of all workers but one: the slowest in each step is the backup, and its gradient is
dropped. Without a cluster it trains in one process.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import sys

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

STEPS, BATCH = 600, 64


def load():
    """(train images, train labels, test images, test labels); every fifth digit is held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(images):
    """Logits of a 64-64-10 network; every call in the same variable scope has the same weights."""
    w1, b1 = tf.get_variable("w1", [64, 64]), tf.get_variable("b1", [64], initializer=tf.zeros_initializer())
    w2, b2 = tf.get_variable("w2", [64, 10]), tf.get_variable("b2", [10], initializer=tf.zeros_initializer())
    return tf.matmul(tf.nn.relu(tf.matmul(images, w1) + b1), w2) + b2


def loss_of(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def accuracy_of(logits, labels):
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))


def main() -> int:
    train_x, train_y, test_x, test_y = load()
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = task.cluster_spec()
    workers = cluster.num_tasks("worker") if cluster else 1
    worker = f"/job:worker/task:{task.task_id}" if cluster else ""
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        images, labels = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        logits = network(images)
        accuracy = accuracy_of(logits, labels)
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.AdamOptimizer(0.005), replicas_to_aggregate=max(workers - 1, 1), total_num_replicas=workers
        )
        train_op = optimizer.minimize(loss_of(logits, labels), global_step=global_step)

    final = tf.train.FinalOpsHook(accuracy, {images: test_x, labels: test_y})

    hooks = [optimizer.make_session_run_hook(task.is_chief), tf.train.StopAtStepHook(last_step=STEPS), final]
    draw = np.random.default_rng(task.task_id)
    with tf.train.MonitoredTrainingSession(master=task.master(), is_chief=task.is_chief, hooks=hooks) as session:
        while not session.should_stop():
            rows = draw.integers(len(train_y), size=BATCH)
            session.run(train_op, {images: train_x[rows], labels: train_y[rows]})

    if not task.is_chief:
        return 0
    print(f"accuracy on {len(test_y)} held-out digits: {final.final_ops_values:.1%}")
    return 0 if final.final_ops_values >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
