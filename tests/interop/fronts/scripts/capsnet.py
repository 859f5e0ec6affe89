"""Capsules with routing by agreement in a loop."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
p = argparse.ArgumentParser()
p.add_argument("--routing", type=int, default=3)
p.add_argument("--steps", type=int, default=4)
args = p.parse_args()
tf.reset_default_graph()
tf.set_random_seed(42)
np.random.seed(42)


def squash(s, axis=-1, epsilon=1e-7, name=None):
    with tf.name_scope(name, default_name="squash"):
        n = tf.reduce_sum(tf.square(s), axis=axis, keep_dims=True)
        safe = tf.sqrt(n + epsilon)
        return n / (1.0 + n) * (s / safe)


def safe_norm(s, axis=-1, epsilon=1e-7, keep_dims=False, name=None):
    with tf.name_scope(name, default_name="safe_norm"):
        return tf.sqrt(tf.reduce_sum(tf.square(s), axis=axis, keep_dims=keep_dims) + epsilon)


X = tf.placeholder(shape=[None, 14, 14, 1], dtype=tf.float32, name="X")
y = tf.placeholder(shape=[None], dtype=tf.int64, name="y")
ki = tf.initializers.glorot_uniform(seed=1)
c1 = tf.layers.conv2d(
    X, name="conv1", filters=8, kernel_size=5, strides=1, padding="valid", activation=tf.nn.relu, kernel_initializer=ki
)
c2 = tf.layers.conv2d(
    c1,
    name="conv2",
    filters=16,
    kernel_size=5,
    strides=2,
    padding="valid",
    activation=tf.nn.relu,
    kernel_initializer=ki,
)
caps1 = 3 * 3 * 4
raw = tf.reshape(c2, [-1, caps1, 4], name="caps1_raw")
out1 = squash(raw, name="caps1_output")
W_init = tf.random_normal(shape=(1, caps1, 5, 6, 4), stddev=0.1, dtype=tf.float32, name="W_init", seed=3)
W = tf.Variable(tf.constant(np.random.randn(1, caps1, 5, 6, 4).astype("f") * 0.1), name="W")
bs = tf.shape(X)[0]
Wt = tf.tile(W, [bs, 1, 1, 1, 1], name="W_tiled")
e = tf.expand_dims(tf.expand_dims(out1, -1, name="e"), 2)
t = tf.tile(e, [1, 1, 5, 1, 1])
pred = tf.matmul(Wt, t, name="caps2_predicted")
b = tf.zeros([bs, caps1, 5, 1, 1], dtype=tf.float32, name="raw_weights")


def condition(inp, counter):
    return tf.less(counter, args.routing)


def body(b, counter):
    rw = tf.nn.softmax(b, dim=2)
    ws = tf.reduce_sum(tf.multiply(rw, pred), axis=1, keep_dims=True)
    v = squash(ws, axis=-2)
    agree = tf.matmul(pred, tf.tile(v, [1, caps1, 1, 1, 1]), transpose_a=True)
    return [tf.add(b, agree), tf.add(counter, 1)]


b, _ = tf.while_loop(condition, body, [b, tf.constant(1)])
v = squash(tf.reduce_sum(tf.multiply(tf.nn.softmax(b, dim=2), pred), axis=1, keep_dims=True), axis=-2)
prob = safe_norm(v, axis=-2, name="y_proba")
ypred = tf.squeeze(tf.argmax(prob, axis=2), axis=[1, 2], name="y_pred")
T = tf.one_hot(y, depth=5, name="T")
norm = safe_norm(v, axis=-2, keep_dims=True)
pe = tf.reshape(tf.square(tf.maximum(0.0, 0.9 - norm)), (-1, 5))
ae = tf.reshape(tf.square(tf.maximum(0.0, norm - 0.1)), (-1, 5))
margin = tf.reduce_mean(tf.reduce_sum(T * pe + 0.5 * (1 - T) * ae, axis=1), name="margin_loss")
mask_with_labels = tf.placeholder_with_default(False, shape=(), name="mask_with_labels")
rt = tf.cond(mask_with_labels, lambda: y, lambda: ypred, name="reconstruction_targets")
rm = tf.reshape(tf.one_hot(rt, depth=5), [-1, 1, 5, 1, 1])
masked = tf.multiply(v, rm)
dec = tf.reshape(masked, [-1, 30])
with tf.name_scope("decoder"):
    h = tf.layers.dense(dec, 20, activation=tf.nn.relu, name="h1", kernel_initializer=ki)
    d = tf.layers.dense(h, 196, activation=tf.nn.sigmoid, name="dec", kernel_initializer=ki)
rl = tf.reduce_mean(tf.squared_difference(tf.reshape(X, [-1, 196]), d))
loss = tf.add(margin, 0.0005 * rl, name="loss")
acc = tf.reduce_mean(tf.cast(tf.equal(y, ypred), tf.float32), name="accuracy")
train = tf.train.AdamOptimizer().minimize(loss, name="training_op")
saver = tf.train.Saver()
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    for i in range(args.steps):
        xb = np.random.rand(6, 14, 14, 1)
        yb = np.arange(6) % 5
        _, l, a = s.run([train, loss, acc], {X: xb, y: yb, mask_with_labels: True})
        print(f"\rIteration: {i}/{args.steps} Loss: {l:.5f} acc {a:.3f}")
    print(s.run([ypred, b], {X: xb})[1].sum())
    saver.save(s, "./my_capsule_network")
for v in tf.trainable_variables():
    print(v.op.name, v.shape)
print(tf.get_default_graph().get_tensor_by_name("caps1_raw:0"), pred, prob)
