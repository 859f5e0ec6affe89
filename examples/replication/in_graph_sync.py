"""In-graph replication, synchronous: one client, one graph with a tower on each worker, gradients averaged.

    dtfctl submit --replication in-graph examples/replication/in_graph_sync.py

Each tower computes the gradients of its part of the batch. Without a cluster two towers run in one process.
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
    workers = cluster.num_tasks("worker") if cluster else 2
    images, labels = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
    optimizer = tf.train.AdamOptimizer(0.005)
    with tf.device("/job:ps/task:0" if cluster else None):
        global_step = tf.train.get_or_create_global_step()
        parts = list(zip(tf.split(images, workers), tf.split(labels, workers)))
    towers = []
    for i in range(workers):
        place = tf.train.replica_device_setter(
            cluster=cluster, worker_device=f"/job:worker/task:{i}" if cluster else ""
        )
        with tf.device(place), tf.name_scope(f"tower{i}"), tf.variable_scope("", reuse=tf.AUTO_REUSE):
            logits = network(parts[i][0])
            towers.append(optimizer.compute_gradients(loss_of(logits, parts[i][1])))
    average = []
    for pairs in zip(*towers):
        variable = pairs[0][1]
        with tf.device(variable.device):
            average.append((tf.add_n([gradient for gradient, _ in pairs]) / workers, variable))
    train_op = optimizer.apply_gradients(average, global_step=global_step)
    with tf.variable_scope("", reuse=True):
        accuracy = accuracy_of(network(images), labels)

    draw = np.random.default_rng(0)
    with tf.train.MonitoredTrainingSession(master=task.master()) as session:
        for _ in range(STEPS):
            rows = draw.integers(len(train_y), size=BATCH * workers)
            session.run(train_op, {images: train_x[rows], labels: train_y[rows]})
        reached = session.run(accuracy, {images: test_x, labels: test_y})

    print(f"accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
