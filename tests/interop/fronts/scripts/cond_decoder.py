"""Averages moved in branches, cases, arrays, gradients overridden, partial runs."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
from tensorflow.python.ops import cond as control_flow_ops, math_ops

is_train = tf.placeholder_with_default(False, [], name="is_training")
x = tf.placeholder(tf.float32, [None, 6], name="x")


def batch_norm(x, n, phase, scope="bn"):
    with tf.variable_scope(scope):
        beta = tf.Variable(tf.constant(0.0, shape=[n]), name="beta", trainable=True)
        gamma = tf.Variable(tf.constant(1.0, shape=[n]), name="gamma", trainable=True)
        m, v = tf.nn.moments(x, [0], name="moments")
        ema = tf.train.ExponentialMovingAverage(decay=0.5)

        def upd():
            op = ema.apply([m, v])
            with tf.control_dependencies([op]):
                return tf.identity(m), tf.identity(v)

        mean, var = tf.cond(phase, upd, lambda: (ema.average(m), ema.average(v)))
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)


h = batch_norm(x, 6, is_train)
k = tf.Variable(np.linspace(-1, 1, 18).reshape(6, 3).astype("f"), name="k")
y = tf.nn.relu(tf.matmul(h, k))
mode = tf.placeholder(tf.int32, [], "mode")
z = tf.case(
    {tf.equal(mode, 0): lambda: tf.reduce_sum(y), tf.equal(mode, 1): lambda: tf.reduce_max(y)},
    default=lambda: tf.constant(-1.0),
    exclusive=True,
)
sw = tf.switch_case(mode, [lambda: y * 2.0, lambda: y - 1.0], default=lambda: -y)
ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False, infer_shape=False)


def body(i, s, ta):
    ta = ta.write(i, s)
    s = control_flow_ops.cond(math_ops.equal(i % 2, 0), lambda: s * 0.5 + y, lambda: s - y * 0.1)
    return i + 1, s, ta


n, s_, ta = tf.while_loop(
    lambda i, s, ta: tf.logical_and(i < 6, tf.reduce_sum(tf.abs(s)) < 50.0), body, [0, y, ta], name="decode"
)
hist = ta.stack()
fn = tf.py_func(lambda a: (a * 2).astype(np.float32), [y], tf.float32, name="pf")
fn.set_shape(y.get_shape())
loss = tf.reduce_mean(tf.square(s_)) + tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()]) * 1e-3
g = tf.gradients(loss, tf.trainable_variables())
tr = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
pr = tf.Print(loss, [loss], "loss: ", first_n=1)
gated = tf.group(tf.assert_non_negative(loss), tf.assert_rank(y, 2))


@tf.RegisterGradient("ClipGrad17")
def _clip(op, grad):
    return tf.clip_by_value(grad, -0.01, 0.01)


with tf.get_default_graph().gradient_override_map({"Identity": "ClipGrad17"}):
    idy = tf.identity(y)
gi = tf.gradients(tf.reduce_sum(idy * 5.0), y)[0]
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    r = np.random.RandomState(0)
    for i in range(4):
        d = r.randn(7, 6)
        l, _, nn, _ = s.run([loss, tr, n, gated], {x: d, is_train: True})
        print("%d loss %.5f n %d" % (i, l, nn))
    f = {x: d, mode: 0}
    print(s.run([z, sw], f)[0], s.run(z, {x: d, mode: 1}), s.run(z, {x: d, mode: 7}), s.run(sw, {x: d, mode: 1}).sum())
    print(
        s.run(hist, {x: d}).shape,
        s.run(fn, {x: d}).sum(),
        s.run(gi, {x: d}).max(),
        [float(abs(q).sum()) for q in s.run(g, {x: d, is_train: True})],
    )
    h1 = s.partial_run_setup([y, loss], [x, is_train])
    print(s.partial_run(h1, y, {x: d, is_train: False}).sum(), s.partial_run(h1, loss))
print([v.name for v in tf.global_variables()])
print(hist, n)
