"""In-graph replication, asynchronous: one client, one graph with a tower on each worker, and a thread for each tower.

    dtfctl submit --replication in-graph examples/replication/in_graph_async.py

The threads share a session; each updates the weights at its own pace. Without a cluster two towers run in one process.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import sys
import threading

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

STEPS, BATCH = 1000, 64


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
    workers = cluster.num_tasks("worker") if cluster else 2
    images, labels = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
    optimizer = tf.train.AdamOptimizer(0.002)
    with tf.device("/job:ps/task:0" if cluster else None):
        global_step = tf.train.get_or_create_global_step()
    train_ops = []
    for i in range(workers):
        place = tf.train.replica_device_setter(
            cluster=cluster, worker_device=f"/job:worker/task:{i}" if cluster else ""
        )
        with tf.device(place), tf.name_scope(f"tower{i}"), tf.variable_scope("", reuse=tf.AUTO_REUSE):
            loss = loss_of(network(images), labels)
            train_ops.append(optimizer.minimize(loss, global_step=global_step))
    with tf.variable_scope("", reuse=True):
        accuracy = accuracy_of(network(images), labels)

    coordinator = tf.train.Coordinator()

    def train(session, train_op, seed):
        draw = np.random.default_rng(seed)
        with coordinator.stop_on_exception():
            while not coordinator.should_stop() and session.run(global_step) < STEPS:
                rows = draw.integers(len(train_y), size=BATCH)
                session.run(train_op, {images: train_x[rows], labels: train_y[rows]})

    with tf.Session(task.master()) as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=train, args=(session, op, i)) for i, op in enumerate(train_ops)]
        for thread in threads:
            thread.start()
        coordinator.join(threads)
        reached = session.run(accuracy, {images: test_x, labels: test_y})

    print(f"accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
