"""Two towers, gradients averaged, averages of variables restored."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def average_gradients(tower_grads):
    out = []
    for gv in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in gv]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        out.append((grad, gv[0][1]))
    return out


def var_wd(name, shape, stddev, wd):
    with tf.device("/cpu:0"):
        v = tf.get_variable(
            name, shape, initializer=tf.truncated_normal_initializer(stddev=stddev, seed=len(name)), dtype=tf.float32
        )
    if wd is not None:
        tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(v), wd, name="weight_loss"))
    return v


def inference(x):
    with tf.variable_scope("conv1") as scope:
        k = var_wd("weights", [3, 3, 1, 4], 5e-2, None)
        c = tf.nn.conv2d(x, k, [1, 1, 1, 1], padding="SAME")
        b = tf.get_variable("biases", [4], initializer=tf.constant_initializer(0.0))
        h = tf.nn.relu(tf.nn.bias_add(c, b), name=scope.name)
        tf.summary.scalar(h.op.name.split("/", 1)[-1] + "/sparsity", tf.nn.zero_fraction(h))
    p = tf.nn.max_pool(h, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool1")
    n = tf.nn.lrn(p, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    with tf.variable_scope("local") as scope:
        r = tf.reshape(n, [x.shape.as_list()[0], -1])
        w = var_wd("weights", [r.get_shape()[1].value, 6], 0.04, 0.004)
        l = tf.nn.relu(
            tf.matmul(r, w) + tf.get_variable("biases", [6], initializer=tf.constant_initializer(0.1)), name=scope.name
        )
    with tf.variable_scope("softmax_linear") as scope:
        return tf.add(
            tf.matmul(l, var_wd("w", [6, 3], 1 / 6.0, None)),
            tf.get_variable("biases", [3], initializer=tf.constant_initializer(0.0)),
            name=scope.name,
        )


def tower_loss(scope, x, y):
    ce = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=inference(x), name="cross_entropy_per_example"),
        name="cross_entropy",
    )
    tf.add_to_collection("losses", ce)
    losses = tf.get_collection("losses", scope)
    t = tf.add_n(losses, name="total_loss")
    for l in losses + [t]:
        tf.summary.scalar(l.op.name, l)
    return t


with tf.Graph().as_default(), tf.device("/cpu:0"):
    gs = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
    lr = tf.train.exponential_decay(0.1, gs, 3, 0.5, staircase=True)
    opt = tf.train.GradientDescentOptimizer(lr)
    r = np.random.RandomState(0)
    X = r.rand(8, 8, 8, 1).astype("f")
    Y = r.randint(0, 3, 8).astype("i4")
    tg = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i in range(2):
            with tf.device("/gpu:%d" % i), tf.name_scope("%s_%d" % ("tower", i)) as scope:
                loss = tower_loss(scope, tf.constant(X[i * 4 : i * 4 + 4]), tf.constant(Y[i * 4 : i * 4 + 4]))
                tf.get_variable_scope().reuse_variables()
                summaries = tf.get_collection(tf.GraphKeys.SUMMARIES, scope)
                tg.append(opt.compute_gradients(loss))
    grads = average_gradients(tg)
    summaries.append(tf.summary.scalar("learning_rate", lr))
    for g, v in grads:
        summaries.append(tf.summary.histogram(v.op.name + "/gradients", g))
    ag = opt.apply_gradients(grads, global_step=gs)
    ema = tf.train.ExponentialMovingAverage(0.9, gs)
    av = ema.apply(tf.trainable_variables())
    train = tf.group(ag, av)
    saver = tf.train.Saver(tf.global_variables())
    so = tf.summary.merge(summaries)
    s = tf.Session(config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=False))
    s.run(tf.global_variables_initializer())
    w = tf.summary.FileWriter("ev", s.graph)
    for step in range(5):
        _, l = s.run([train, loss])
        print("step %d, loss = %.5f" % (step, l))
        w.add_summary(s.run(so), step)
    saver.save(s, "ev/model.ckpt", global_step=step)
    w.close()
    print([v.op.name for v in tf.global_variables()])
    sv2 = tf.train.Saver(ema.variables_to_restore())
    sv2.restore(s, "ev/model.ckpt-4")
    print(s.run(tf.trainable_variables()[1]), sorted(ema.variables_to_restore())[:3])
