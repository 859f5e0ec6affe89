"""Averages read by a custom getter and swapped in for evaluation, with metrics."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(3)


def model(x, reuse=None, getter=None):
    with tf.variable_scope(
        "model",
        reuse=reuse,
        custom_getter=getter,
        initializer=tf.variance_scaling_initializer(seed=4),
        regularizer=tf.keras.regularizers.l2(1e-3),
    ):
        h = tf.layers.dense(x, 6, tf.nn.selu, name="fc1")
        h = tf.layers.dropout(h, 0.3, training=False)
        return tf.layers.dense(h, 2, name="fc2")


x = tf.placeholder(tf.float32, [None, 5])
y = tf.placeholder(tf.int32, [None])
logits = model(x)
ema = tf.train.ExponentialMovingAverage(0.8, zero_debias=True)
reg = tf.losses.get_regularization_loss()
tf.losses.sparse_softmax_cross_entropy(y, logits)
total = tf.losses.get_total_loss()
opt = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001)
with tf.control_dependencies([opt.minimize(total)]):
    train = ema.apply(tf.trainable_variables("model"))


def g(getter, name, *a, **k):
    return ema.average(getter(name, *a, **k))


el = model(x, True, g)
p = tf.nn.softmax(el)
shadow = [ema.average(v) for v in tf.trainable_variables("model")]
backup = [
    tf.Variable(tf.zeros(v.shape), trainable=False, name="bk_" + v.op.name.replace("/", "_"))
    for v in tf.trainable_variables("model")
]
with tf.control_dependencies([tf.assign(b, v) for b, v in zip(backup, tf.trainable_variables("model"))]):
    swap = tf.group(*[tf.assign(v, s) for v, s in zip(tf.trainable_variables("model"), shadow)])
restore = tf.group(*[tf.assign(v, b) for v, b in zip(tf.trainable_variables("model"), backup)])
auc, up = tf.metrics.auc(y, p[:, 1], num_thresholds=20)
prec, pu = tf.metrics.precision_at_thresholds(y, p[:, 1], [0.3, 0.6])
st, stu = tf.metrics.mean_cosine_distance(tf.nn.l2_normalize(p, 1), tf.nn.l2_normalize(p * p, 1), 1)
cm = tf.confusion_matrix(y, tf.argmax(p, 1), 2)
with tf.Session() as s:
    s.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    r = np.random.RandomState(1)
    X = r.randn(24, 5)
    Y = (X[:, 0] + X[:, 1] > 0).astype(int)
    for i in range(6):
        l, rg, _ = s.run([total, reg, train], {x: X, y: Y})
        print("%d %.5f %.6f" % (i, l, rg))
    a = s.run(p, {x: X})
    b = s.run(tf.nn.softmax(logits), {x: X})
    s.run(swap)
    c = s.run(logits, {x: X})
    s.run(restore)
    print(
        np.allclose(np.exp(c) / np.exp(c).sum(1, keepdims=True), a, atol=1e-5),
        np.allclose(s.run(tf.nn.softmax(logits), {x: X}), b),
        a[0],
    )
    s.run([up, pu, stu], {x: X, y: Y})
    print(s.run([auc, prec, st]), s.run(cm, {x: X, y: Y}).tolist())
    tf.train.Saver().save(s, "ema/m")
    print(sorted(ema.variables_to_restore().keys()))
print([v.name for v in tf.global_variables()])
print([v.name for v in tf.local_variables()])
