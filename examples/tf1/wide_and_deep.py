"""A wide and deep network over sparse ids, in the shape of TensorFlow's census tutorial.

    python wide_and_deep.py                                                          in one process
    dtfctl submit wide_and_deep.py                                                   on a cluster
    python wide_and_deep.py --job_name=ps --task_index=0 \
        --ps_hosts=host0:2222 --worker_hosts=host1:2222,host2:2222               by hand: this on every task

The data are scikit-learn's 569 breast cancer samples of 30 measurements, cut into ten buckets each. The wide part has
one weight for each bucket and each (hashed) pair of buckets of neighbouring measurements, trained by FTRL; the deep
part an embedding of the buckets and two hidden layers, trained by Adagrad. Reaches 92 % on held-out samples.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import json
import os

import numpy as np
from sklearn.datasets import load_breast_cancer

import dtfctl.runtime as tf

tf.disable_v2_behavior()

job = json.loads(os.environ.get("TF_CONFIG", "{}"))
hosts = {name: ",".join(addresses) for name, addresses in job.get("cluster", {}).items()}
flags = tf.app.flags
flags.DEFINE_string("job_name", job.get("task", {}).get("type", ""), "ps or worker; empty for one process")
flags.DEFINE_integer("task_index", job.get("task", {}).get("index", 0), "index of the task in its job")
flags.DEFINE_string("ps_hosts", hosts.get("ps", ""), "host:port of each ps, separated by commas")
flags.DEFINE_string("worker_hosts", hosts.get("worker", ""), "host:port of each worker, separated by commas")
flags.DEFINE_integer("steps", 400, "steps of all workers together")
flags.DEFINE_float("target", 0.92, "accuracy to reach")
FLAGS = flags.FLAGS


BUCKETS = 10
CROSSES = 2000


def load():
    """(train, test) of (bucket ids [n, 30], crossed ids [n, 29], labels [n, 1])."""
    data = load_breast_cancer()
    order = np.random.RandomState(0).permutation(len(data.target))
    values, labels = data.data[order], data.target[order].astype(np.float32).reshape(-1, 1)
    edges = np.percentile(values[114:], np.linspace(0, 100, BUCKETS + 1)[1:-1], axis=0)
    buckets = np.stack([np.searchsorted(edges[:, i], values[:, i]) for i in range(values.shape[1])], axis=1)
    ids = buckets + BUCKETS * np.arange(values.shape[1])
    crosses = (ids[:, :-1] * 1000003 + ids[:, 1:]) % CROSSES
    return (ids[114:], crosses[114:], labels[114:]), (ids[:114], crosses[:114], labels[:114])


def sparse(ids):
    """What to feed for a SparseTensor of the rows of ids."""
    rows, columns = np.indices(ids.shape)
    places = np.stack([rows.ravel(), columns.ravel()], axis=1).astype(np.int64)
    return tf.SparseTensorValue(places, ids.ravel().astype(np.int64), ids.shape)


def wide(ids, crosses, features):
    with tf.variable_scope("wide"):
        weights = tf.get_variable("weights", [features * BUCKETS, 1], initializer=tf.zeros_initializer())
        crossed = tf.get_variable("crossed", [CROSSES, 1], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        linear = tf.nn.embedding_lookup_sparse(weights, ids, None, combiner="sum")
        return linear + tf.nn.embedding_lookup_sparse(crossed, crosses, None, combiner="sum") + bias


def deep(ids, features):
    with tf.variable_scope("deep"):
        table = tf.get_variable("embedding", [features * BUCKETS, 16], partitioner=tf.fixed_size_partitioner(2))
        net = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sqrtn", partition_strategy="div")
        for i, units in enumerate((32, 16)):
            kernel = tf.get_variable(f"kernel{i}", [int(net.shape[1]), units])
            bias = tf.get_variable(f"bias{i}", [units], initializer=tf.zeros_initializer())
            net = tf.nn.relu(tf.matmul(net, kernel) + bias)
        return tf.matmul(net, tf.get_variable("logits", [16, 1]))


def main(_):
    server, is_chief, config = None, True, None
    device = tf.train.replica_device_setter()
    if FLAGS.job_name:
        cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
        server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
        if FLAGS.job_name == "ps":
            server.join()
        is_chief = FLAGS.task_index == 0
        # Workers that have not started yet, or have ended, are no concern of this one.
        config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{FLAGS.task_index}"])
        device = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{FLAGS.task_index}")

    train, test = load()
    with tf.device(device):
        ids = tf.sparse_placeholder(tf.int64)
        crosses = tf.sparse_placeholder(tf.int64)
        labels = tf.placeholder(tf.float32, [None, 1])
        features = train[0].shape[1]
        logits = wide(ids, crosses, features) + deep(ids, features)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.cast(logits > 0, tf.float32), labels), tf.float32))
        global_step = tf.train.get_or_create_global_step()
        train_wide = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001).minimize(
            loss, var_list=tf.trainable_variables("wide")
        )
        train_deep = tf.train.AdagradOptimizer(0.05).minimize(loss, var_list=tf.trainable_variables("deep"))
        with tf.control_dependencies([train_wide, train_deep]):
            train_op = tf.assign_add(global_step, 1)

    def feed(data):
        return {ids: sparse(data[0]), crosses: sparse(data[1]), labels: data[2]}

    final = tf.train.FinalOpsHook(accuracy, feed(test))
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss), final]
    rows = np.random.RandomState(FLAGS.task_index)
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=is_chief, hooks=hooks, config=config
    ) as sess:
        while not sess.should_stop():
            batch = rows.randint(len(train[2]), size=64)
            sess.run(train_op, feed([part[batch] for part in train]))

    print(f"accuracy {final.final_ops_values:.3f} on {len(test[2])} held-out samples")
    return 0 if final.final_ops_values >= FLAGS.target else 1


if __name__ == "__main__":
    tf.app.run()
