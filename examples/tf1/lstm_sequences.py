"""An LSTM that reads handwritten digits row by row, in the shape of TensorFlow's sequence tutorials.

    python lstm_sequences.py                                                          in one process
    dtfctl submit lstm_sequences.py                                                   on a cluster
    python lstm_sequences.py --job_name=ps --task_index=0 \
        --ps_hosts=host0:2222 --worker_hosts=host1:2222,host2:2222               by hand: this on every task

Each of scikit-learn's 1,797 scans of 8x8 pixels is a sequence of up to 8 rows; blank rows at its end are cut off, so
that lengths differ. Reaches 93 % on held-out ones.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import json
import os

import numpy as np
from sklearn.datasets import load_digits

import dtfctl.runtime as tf

tf.disable_v2_behavior()

job = json.loads(os.environ.get("TF_CONFIG", "{}"))
hosts = {name: ",".join(addresses) for name, addresses in job.get("cluster", {}).items()}
flags = tf.app.flags
flags.DEFINE_string("job_name", job.get("task", {}).get("type", ""), "ps or worker; empty for one process")
flags.DEFINE_integer("task_index", job.get("task", {}).get("index", 0), "index of the task in its job")
flags.DEFINE_string("ps_hosts", hosts.get("ps", ""), "host:port of each ps, separated by commas")
flags.DEFINE_string("worker_hosts", hosts.get("worker", ""), "host:port of each worker, separated by commas")
flags.DEFINE_integer("steps", 500, "steps of all workers together")
flags.DEFINE_float("target", 0.93, "accuracy to reach")
FLAGS = flags.FLAGS


def load():
    """(train, test) of (sequences [n, 8, 8], lengths [n], labels [n]), padded with zeros."""
    digits = load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    rows = (digits.images[order] / 16.0).astype(np.float32)
    labels = digits.target[order].astype(np.int64)
    lengths = 8 - np.argmax(rows[:, ::-1].any(axis=2), axis=1).astype(np.int32)
    return (rows[360:], lengths[360:], labels[360:]), (rows[:360], lengths[:360], labels[:360])


def inference(sequences, lengths):
    cell = tf.nn.rnn_cell.LSTMCell(64)
    _, state = tf.nn.dynamic_rnn(cell, sequences, sequence_length=lengths, dtype=tf.float32)
    kernel = tf.get_variable("softmax_w", [64, 10])
    bias = tf.get_variable("softmax_b", [10], initializer=tf.zeros_initializer())
    return tf.matmul(state.h, kernel) + bias


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
        sequences = tf.placeholder(tf.float32, [None, 8, 8])
        lengths = tf.placeholder(tf.int32, [None])
        labels = tf.placeholder(tf.int64, [None])
        logits = inference(sequences, lengths)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
        global_step = tf.train.get_or_create_global_step()
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
        # Ends with small steps: those of several workers at once are noisy.
        rate = tf.train.polynomial_decay(0.02, global_step, FLAGS.steps, 0.001)
        optimizer = tf.train.AdamOptimizer(rate)
        train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=global_step)

    final = tf.train.FinalOpsHook(accuracy, dict(zip((sequences, lengths, labels), test)))
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss), final]
    rows = np.random.RandomState(FLAGS.task_index)
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=is_chief, hooks=hooks, config=config
    ) as sess:
        while not sess.should_stop():
            batch = rows.randint(len(train[2]), size=64)
            sess.run(train_op, {sequences: train[0][batch], lengths: train[1][batch], labels: train[2][batch]})

    print(f"accuracy {final.final_ops_values:.3f} on {len(test[2])} held-out digits")
    return 0 if final.final_ops_values >= FLAGS.target else 1


if __name__ == "__main__":
    tf.app.run()
