"""A convolutional network on handwritten digits, in the shape of TensorFlow's MNIST tutorial.

    python mnist_cnn.py                                                          in one process
    dtfctl submit mnist_cnn.py                                                   on a cluster
    python mnist_cnn.py --job_name=ps --task_index=0 \
        --ps_hosts=host0:2222 --worker_hosts=host1:2222,host2:2222               by hand: this on every task

The digits are scikit-learn's 1,797 scans of 8x8 pixels. Reaches 96 % on held-out ones.
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
flags.DEFINE_integer("steps", 600, "steps of all workers together")
flags.DEFINE_float("target", 0.96, "accuracy to reach")
FLAGS = flags.FLAGS


def load():
    digits = load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    images = (digits.data[order] / 16.0).astype(np.float32).reshape(-1, 8, 8, 1)
    labels = digits.target[order].astype(np.int64)
    return images[360:], labels[360:], images[:360], labels[:360]


def conv_layer(inputs, filters, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [3, 3, int(inputs.shape[3]), filters])
        bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(inputs, kernel, [1, 1, 1, 1], "SAME"), bias))


def dense_layer(inputs, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(inputs.shape[1]), units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(inputs, kernel, bias)


def inference(images, keep_prob):
    net = conv_layer(images, 16, "conv1")
    net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    net = conv_layer(net, 32, "conv2")
    net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    net = tf.reshape(net, [-1, 2 * 2 * 32])
    net = tf.nn.dropout(tf.nn.relu(dense_layer(net, 64, "fc1")), keep_prob=keep_prob)
    return dense_layer(net, 10, "fc2")


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

    train_images, train_labels, test_images, test_labels = load()
    with tf.device(device):
        images = tf.placeholder(tf.float32, [None, 8, 8, 1])
        labels = tf.placeholder(tf.int64, [None])
        keep_prob = tf.placeholder_with_default(1.0, [])
        logits = inference(images, keep_prob)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
        global_step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.005, global_step, 200, 0.7)
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)

    final = tf.train.FinalOpsHook(accuracy, {images: test_images, labels: test_labels})
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss), final]
    rows = np.random.RandomState(FLAGS.task_index)
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=is_chief, hooks=hooks, config=config
    ) as sess:
        while not sess.should_stop():
            batch = rows.randint(len(train_labels), size=64)
            sess.run(train_op, {images: train_images[batch], labels: train_labels[batch], keep_prob: 0.75})

    print(f"accuracy {final.final_ops_values:.3f} on {len(test_labels)} held-out digits")
    return 0 if final.final_ops_values >= FLAGS.target else 1


if __name__ == "__main__":
    tf.app.run()
