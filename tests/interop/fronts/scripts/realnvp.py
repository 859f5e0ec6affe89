"""A normalizing flow and its inverse, with schedules and summaries."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(0)


def nn(x, reuse, name, h=16):
    with tf.variable_scope(name, reuse=reuse):
        o = tf.layers.dense(x, h, tf.nn.relu, kernel_initializer=tf.variance_scaling_initializer(seed=1))
        s = tf.layers.dense(o, x.shape[1].value, tf.tanh, name="s", kernel_initializer=tf.zeros_initializer())
        t = tf.layers.dense(
            o, x.shape[1].value, name="t", kernel_initializer=tf.random_normal_initializer(0, 0.05, seed=2)
        )
        return s, t


def flow(x, reuse=None, inverse=False):
    ld = 0.0
    rng = range(4) if not inverse else reversed(range(4))
    for i in rng:
        a, b = tf.split(x, 2, axis=1) if i % 2 == 0 else tf.split(x, 2, axis=1)[::-1]
        s, t = nn(a, reuse, "coupling_%d" % i)
        b = b * tf.exp(s) + t if not inverse else (b - t) * tf.exp(-s)
        ld += tf.reduce_sum(s, 1)
        x = tf.concat([a, b] if i % 2 == 0 else [b, a], 1)
    return x, ld


x = tf.placeholder(tf.float32, [None, 4])
z, ld = flow(x)
prior = tf.distributions.Normal(loc=tf.zeros(4), scale=tf.ones(4))
nll = -tf.reduce_mean(tf.reduce_sum(prior.log_prob(z), 1) + ld)
step = tf.Variable(0, trainable=False, name="global_step")
lr = tf.train.exponential_decay(0.01, step, 2, 0.9, staircase=True)
opt = tf.train.AdamOptimizer(lr)
g, v = zip(*opt.compute_gradients(nll))
g, n = tf.clip_by_global_norm(g, 1.0)
tr = opt.apply_gradients(zip(g, v), global_step=step)
xr, _ = flow(z, True, True)
tf.summary.scalar("nll", nll)
tf.summary.scalar("lr", lr)
tf.summary.histogram("z", z)
ms = tf.summary.merge_all()
with tf.Session() as s:
    w = tf.summary.FileWriter("logs", s.graph)
    s.run(tf.global_variables_initializer())
    r = np.random.RandomState(0)
    for i in range(6):
        d = r.randn(32, 4) * [1, 2, 0.5, 1] + [0, 1, 0, 2]
        l, gn, _, m = s.run([nll, n, tr, ms], {x: d})
        w.add_summary(m, i)
        print("%d nll %.4f norm %.4f" % (i, l, gn))
    print("recon", np.abs(s.run(xr, {x: d}) - d).max() < 1e-4, s.run(lr))
    w.close()
    tf.train.Saver().save(s, "nvp/ckpt", step)
print([v.op.name for v in tf.global_variables()])
