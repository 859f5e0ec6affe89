"""A network of the tutorials: records read by queues, distorted images, losses averaged, a monitored session."""

import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
TOWER_NAME = "tower"
NUM_CLASSES = 4
SIZE = 8


def read_cifar10(filename_queue):
    class CIFAR10Record:
        pass

    result = CIFAR10Record()
    result.height, result.width, result.depth = 10, 10, 3
    image_bytes = result.height * result.width * result.depth
    reader = tf.FixedLengthRecordReader(record_bytes=1 + image_bytes)
    result.key, value = reader.read(filename_queue)
    record_bytes = tf.decode_raw(value, tf.uint8)
    result.label = tf.cast(tf.strided_slice(record_bytes, [0], [1]), tf.int32)
    depth_major = tf.reshape(
        tf.strided_slice(record_bytes, [1], [1 + image_bytes]), [result.depth, result.height, result.width]
    )
    result.uint8image = tf.transpose(depth_major, [1, 2, 0])
    return result


def inputs(filenames, batch_size):
    for f in filenames:
        if not tf.gfile.Exists(f):
            raise ValueError("Failed to find file: " + f)
    with tf.name_scope("input"):
        filename_queue = tf.train.string_input_producer(filenames, shuffle=False)
        read_input = read_cifar10(filename_queue)
        reshaped_image = tf.cast(read_input.uint8image, tf.float32)
        resized_image = tf.image.resize_image_with_crop_or_pad(reshaped_image, SIZE, SIZE)
        flipped = tf.image.flip_left_right(resized_image)
        float_image = tf.image.per_image_standardization(flipped)
        float_image.set_shape([SIZE, SIZE, 3])
        read_input.label.set_shape([1])
        images, labels = tf.train.batch([float_image, read_input.label], batch_size, num_threads=1, capacity=60)
        tf.summary.image("images", images)
        return images, tf.reshape(labels, [batch_size])


def _activation_summary(x):
    tensor_name = re.sub("%s_[0-9]*/" % TOWER_NAME, "", x.op.name)
    tf.summary.histogram(tensor_name + "/activations", x)
    tf.summary.scalar(tensor_name + "/sparsity", tf.nn.zero_fraction(x))


def _variable_with_weight_decay(name, shape, stddev, wd, seed):
    with tf.device("/cpu:0"):
        var = tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=stddev, seed=seed))
    if wd is not None:
        weight_decay = tf.multiply(tf.nn.l2_loss(var), wd, name="weight_loss")
        tf.add_to_collection("losses", weight_decay)
    return var


def inference(images):
    with tf.variable_scope("conv1") as scope:
        kernel = _variable_with_weight_decay("weights", [3, 3, 3, 6], 5e-2, None, 1)
        conv = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding="SAME")
        biases = tf.get_variable("biases", [6], initializer=tf.constant_initializer(0.0))
        conv1 = tf.nn.relu(tf.nn.bias_add(conv, biases), name=scope.name)
        _activation_summary(conv1)
    pool1 = tf.nn.max_pool(conv1, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool1")
    norm1 = tf.nn.lrn(pool1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    with tf.variable_scope("local3") as scope:
        reshape = tf.keras.layers.Flatten()(norm1)
        weights = _variable_with_weight_decay("weights", [reshape.get_shape()[1].value, 10], 0.04, 0.004, 2)
        biases = tf.get_variable("biases", [10], initializer=tf.constant_initializer(0.1))
        local3 = tf.nn.relu(tf.matmul(reshape, weights) + biases, name=scope.name)
        _activation_summary(local3)
    with tf.variable_scope("softmax_linear") as scope:
        weights = _variable_with_weight_decay("weights", [10, NUM_CLASSES], 1 / 10.0, None, 3)
        biases = tf.get_variable("biases", [NUM_CLASSES], initializer=tf.constant_initializer(0.0))
        softmax_linear = tf.add(tf.matmul(local3, weights), biases, name=scope.name)
        _activation_summary(softmax_linear)
    return softmax_linear


def loss_of(logits, labels):
    labels = tf.cast(labels, tf.int64)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, name="cross_entropy_per_example"
    )
    tf.add_to_collection("losses", tf.reduce_mean(cross_entropy, name="cross_entropy"))
    return tf.add_n(tf.get_collection("losses"), name="total_loss")


def _add_loss_summaries(total_loss):
    loss_averages = tf.train.ExponentialMovingAverage(0.9, name="avg")
    losses = tf.get_collection("losses")
    loss_averages_op = loss_averages.apply(losses + [total_loss])
    for l in losses + [total_loss]:
        tf.summary.scalar(l.op.name + " (raw)", l)
        tf.summary.scalar(l.op.name, loss_averages.average(l))
    return loss_averages_op


def train(total_loss, global_step):
    lr = tf.train.exponential_decay(0.1, global_step, 4, 0.5, staircase=True)
    tf.summary.scalar("learning_rate", lr)
    loss_averages_op = _add_loss_summaries(total_loss)
    with tf.control_dependencies([loss_averages_op]):
        opt = tf.train.GradientDescentOptimizer(lr)
        grads = opt.compute_gradients(total_loss)
    apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
    for var in tf.trainable_variables():
        tf.summary.histogram(var.op.name, var)
    for grad, var in grads:
        if grad is not None:
            tf.summary.histogram(var.op.name + "/gradients", grad)
    variable_averages = tf.train.ExponentialMovingAverage(0.999, global_step)
    with tf.control_dependencies([apply_gradient_op]):
        variables_averages_op = variable_averages.apply(tf.trainable_variables())
    return variables_averages_op


class _LoggerHook(tf.train.SessionRunHook):
    def __init__(self, loss):
        self.loss = loss

    def begin(self):
        self._step = -1

    def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        print("step %d, loss = %.4f" % (self._step, run_values.results))

    def end(self, session):
        print("end", session.run(tf.train.get_global_step()))


rng = np.random.RandomState(3)
os.makedirs("data")
for i in range(2):
    rng.randint(0, 256, [20, 301]).astype(np.uint8).tofile("data/data_batch_%d.bin" % i)
    data = np.fromfile("data/data_batch_%d.bin" % i, np.uint8).reshape(20, 301)
    data[:, 0] %= NUM_CLASSES
    data.tofile("data/data_batch_%d.bin" % i)
with tf.Graph().as_default():
    global_step = tf.train.get_or_create_global_step()
    with tf.device("/cpu:0"):
        images, labels = inputs([os.path.join("data", "data_batch_%d.bin" % i) for i in range(2)], 8)
    logits = inference(images)
    loss = loss_of(logits, labels)
    train_op = train(loss, global_step)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir="train",
        hooks=[tf.train.StopAtStepHook(last_step=10), tf.train.NanTensorHook(loss), _LoggerHook(loss)],
        save_summaries_steps=5,
        save_checkpoint_steps=5,
        log_step_count_steps=None,
        config=tf.ConfigProto(log_device_placement=False),
    ) as mon_sess:
        while not mon_sess.should_stop():
            mon_sess.run(train_op)
    print([v.op.name for v in tf.global_variables()])
with tf.Graph().as_default() as g:
    images, labels = inputs(["data/data_batch_1.bin"], 10)
    logits = inference(images)
    top_k_op = tf.nn.in_top_k(logits, labels, 1)
    variable_averages = tf.train.ExponentialMovingAverage(0.999)
    variables_to_restore = variable_averages.variables_to_restore()
    print(sorted(variables_to_restore))
    saver = tf.train.Saver(variables_to_restore)
    summary_writer = tf.summary.FileWriter("eval", g)
    with tf.Session() as sess:
        ckpt = tf.train.get_checkpoint_state("train")
        saver.restore(sess, ckpt.model_checkpoint_path)
        step = ckpt.model_checkpoint_path.split("/")[-1].split("-")[-1]
        coord = tf.train.Coordinator()
        threads = []
        for qr in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            threads.extend(qr.create_threads(sess, coord=coord, daemon=True, start=True))
        count = 0
        for _ in range(2):
            count += np.sum(sess.run([top_k_op]))
        print("precision @ 1 =", count / 20.0, "step", step)
        summary = tf.Summary()
        summary.value.add(tag="Precision @ 1", simple_value=count / 20.0)
        summary_writer.add_summary(summary, int(step))
        summary_writer.close()
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10)
