"""Training: optimizers, their slots and powers under scopes, averages, losses, clipping, schedules."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.linspace(-1.0, 1.0, 24).reshape(6, 4).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2], np.int32)
T = np.linspace(0.5, -0.5, 6).reshape(6, 1).astype(np.float32)


def linear_sgd(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    t = tf.placeholder(tf.float32, [None, 1], name="t")
    w = tf.Variable(tf.zeros([4, 1]), name="weights")
    b = tf.Variable(tf.zeros([1]), name="bias")
    y = tf.add(tf.matmul(x, w), b, name="predictions")
    loss = tf.reduce_mean(tf.square(y - t), name="loss")
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [([step, loss], {x: X, t: T})] * 4 + [([w, b, y], {x: X})]


def softmax_adam(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.int32, [None])
    w = tf.Variable(tf.truncated_normal([4, 3], stddev=0.1))
    b = tf.Variable(tf.constant(0.1, shape=[3]))
    logits = tf.nn.relu(tf.matmul(x, w) + b)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    correct = tf.equal(tf.argmax(logits, 1), tf.cast(y, tf.int64))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [([train, loss, accuracy], {x: X, y: Y})] * 4 + [([w, b], {})]


def scoped_adam(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4])
    with tf.variable_scope("model"):
        w = tf.get_variable("w", [4, 1], initializer=tf.random_normal_initializer(stddev=0.3))
        y = tf.matmul(x, w)
        loss = tf.reduce_sum(y * y)
        with tf.variable_scope("train"):
            first = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.name_scope("outer"):
        second = tf.train.AdamOptimizer(0.1, name="Second").minimize(loss)
    with tf.variable_scope("other"):
        third = tf.train.AdamOptimizer(0.1).minimize(loss)
    return [([step, loss], {x: X}) for step in (first, second, third)] * 2 + [(w, {})]


def scoped_slots(tf: Any) -> Any:
    with tf.name_scope("inputs"):
        x = tf.placeholder(tf.float32, [None, 4], name="x")
    with tf.name_scope("layer"):
        w = tf.Variable(tf.ones([4, 2]), name="w")
        b = tf.Variable(tf.zeros([2]), name="b")
        y = tf.nn.tanh(tf.matmul(x, w) + b)
    loss = tf.reduce_mean(tf.square(y - 0.5))
    runs = []
    with tf.variable_scope("optimizers"):
        for optimizer in (
            tf.train.MomentumOptimizer(0.1, 0.9),
            tf.train.RMSPropOptimizer(0.01, momentum=0.5),
            tf.train.RMSPropOptimizer(0.01, centered=True, name="Centered"),
            tf.train.AdagradOptimizer(0.1),
            tf.train.AdadeltaOptimizer(0.1),
            tf.train.FtrlOptimizer(0.1),
        ):
            runs.append(([optimizer.minimize(loss), loss], {x: X}))
    return [*runs, ([w, b], {})]


def proximal(tf: Any) -> Any:
    w = tf.Variable([1.0, -2.0, 3.0], name="w")
    loss = tf.reduce_sum(tf.abs(w) * tf.constant([1.0, 2.0, 3.0]))
    one = tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)
    two = tf.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01).minimize(loss)
    three = tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()).minimize(
        loss, tf.train.get_global_step()
    )
    return [([one, loss], {}), ([two, loss], {}), ([three, loss], {}), (w, {})]


def averages(tf: Any) -> Any:
    with tf.variable_scope("net"):
        w = tf.get_variable("w", initializer=[1.0, 2.0])
        b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
    step = tf.Variable(0, trainable=False, name="step")
    loss = tf.reduce_sum(tf.square(w + b - 3.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    ema = tf.train.ExponentialMovingAverage(0.9, step)
    with tf.control_dependencies([train]), tf.name_scope("averaging"):
        averaged = ema.apply([w, b])
    total = ema.apply([loss])
    names = tf.constant(sorted(ema.variables_to_restore()))
    return [
        (names, {}),
        ([averaged], {}),
        (total, {}),
        ([averaged], {}),
        ([ema.average(w), ema.average(b), ema.average(loss)], {}),
    ]


def clipped(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [6, 4], name="x")
    rate = tf.placeholder_with_default(0.1, [], name="rate")
    w = tf.get_variable("w", [4, 3], initializer=tf.random_uniform_initializer(-1, 1))
    loss = tf.nn.l2_loss(tf.matmul(x, w))
    variables = tf.trainable_variables()
    grads, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(rate).apply_gradients(zip(grads, variables), global_step=step)
    other = tf.train.GradientDescentOptimizer(0.1)
    pairs = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in other.compute_gradients(loss)]
    more = other.apply_gradients(pairs, name="apply_clipped")
    return [([train, loss, norm], {x: X})] * 2 + [([more, step], {x: X}), ([w, step], {})]


def schedules(tf: Any) -> Any:
    step = tf.Variable(0, trainable=False, name="global_step")
    rates = [
        tf.train.exponential_decay(0.1, step, 3, 0.9, staircase=True),
        tf.train.piecewise_constant(step, [1, 3], [1.0, 0.5, 0.1]),
        tf.train.polynomial_decay(0.1, step, 5),
        tf.train.cosine_decay(0.1, step, 5),
        tf.train.inverse_time_decay(0.1, step, 5, 0.5),
        tf.train.natural_exp_decay(0.1, step, 5, 0.5),
    ]
    w = tf.Variable([1.0], name="w")
    train = tf.train.GradientDescentOptimizer(rates[0]).minimize(w * w, global_step=step)
    return [(rates, {}), (train, {}), (train, {}), (rates, {}), (w, {})]


def losses(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")
    w = tf.get_variable(
        "w", [4, 3], initializer=tf.constant_initializer(0.1), regularizer=lambda v: 0.01 * tf.nn.l2_loss(v)
    )
    logits = tf.matmul(x, w)
    hot = tf.one_hot(y, 3)
    each = [
        tf.losses.sparse_softmax_cross_entropy(y, logits),
        tf.losses.softmax_cross_entropy(hot, logits),
        tf.losses.mean_squared_error(hot, logits),
        tf.losses.absolute_difference(hot, logits, weights=0.5),
        tf.losses.sigmoid_cross_entropy(hot, logits),
        tf.losses.log_loss(hot, tf.nn.sigmoid(logits)),
        tf.losses.huber_loss(hot, logits),
        tf.losses.hinge_loss(hot, logits),
        tf.losses.cosine_distance(tf.nn.l2_normalize(hot, 1), tf.nn.l2_normalize(logits, 1), axis=1),
    ]
    total = tf.losses.get_total_loss()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(total)
    return [([*each, total], {x: X, y: Y}), (train, {x: X, y: Y}), (w, {})]


def metrics(tf: Any) -> Any:
    y = tf.placeholder(tf.int64, [None], name="y")
    p = tf.placeholder(tf.int64, [None], name="p")
    accuracy, update = tf.metrics.accuracy(y, p)
    with tf.name_scope("eval"):
        mean, mean_update = tf.metrics.mean(tf.cast(p, tf.float32))
    _, recall = tf.metrics.recall(y, p, name="my_recall")
    _, precision = tf.metrics.precision(y, p)
    feed = {y: [1, 0, 1, 1], p: [1, 1, 0, 1]}
    return [([update, mean_update, recall, precision], feed), ([accuracy, mean], {})]


def two_networks(tf: Any) -> Any:
    """A generator and a discriminator, trained in turns, each with its own variables."""
    z = tf.placeholder(tf.float32, [None, 2], name="z")
    x = tf.placeholder(tf.float32, [None, 4], name="x")

    def discriminate(v: Any, reuse: bool = False) -> Any:
        with tf.variable_scope("discriminator", reuse=reuse):
            h = tf.layers.dense(v, 5, activation=tf.nn.leaky_relu)
            return tf.layers.dense(h, 1, name="logit")

    with tf.variable_scope("generator"):
        g = tf.layers.dense(tf.layers.dense(z, 3, tf.nn.relu), 4, tf.tanh)
    real, fake = discriminate(x), discriminate(g, reuse=True)
    ones, zeros = tf.ones_like(real), tf.zeros_like(fake)
    cross = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf.reduce_mean(cross(labels=ones, logits=real) + cross(labels=zeros, logits=fake))
    g_loss = tf.reduce_mean(cross(labels=tf.ones_like(fake), logits=fake))
    variables = tf.trainable_variables()
    d_vars = [v for v in variables if v.name.startswith("discriminator")]
    g_vars = [v for v in variables if v.name.startswith("generator")]
    d_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(g_loss, var_list=g_vars)
    feed = {z: X[:, :2], x: X}
    return [([d_step, d_loss], feed), ([g_step, g_loss], feed)] * 2 + [(g, feed)]


def summaries(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    with tf.name_scope("layer"):
        w = tf.Variable(tf.ones([4, 2]), name="w")
        tf.summary.histogram("weights", w)
        tf.summary.histogram(w.name, w)
        tf.summary.scalar("mean", tf.reduce_mean(w))
    y = tf.matmul(x, w)
    tf.summary.scalar("loss", tf.reduce_mean(y))
    tf.summary.scalar("loss", tf.reduce_sum(y))
    for v in tf.trainable_variables():
        tf.summary.histogram(v.op.name, v)
    tf.summary.image("pictures", tf.reshape(y, [1, 6, 2, 1]))
    tf.summary.text("text", tf.constant("hello"))
    merged = tf.summary.merge_all()
    some = tf.summary.merge([tf.summary.scalar("a", 1.0)])
    return [([merged, some], {x: X})]
