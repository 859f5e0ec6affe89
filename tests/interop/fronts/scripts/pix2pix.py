"""Translation of pictures under a Supervisor, with summaries."""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
Model = collections.namedtuple(
    "Model", "outputs, predict_real, predict_fake, discrim_loss, gen_loss_GAN, gen_loss_L1, train"
)


def conv(x, ch, stride):
    with tf.variable_scope("conv"):
        f = tf.get_variable(
            "filter",
            [4, 4, x.get_shape()[3], ch],
            dtype=tf.float32,
            initializer=tf.random_normal_initializer(0, 0.02, seed=1),
        )
        return tf.nn.conv2d(
            tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="CONSTANT"), f, [1, stride, stride, 1], padding="VALID"
        )


def deconv(x, ch):
    with tf.variable_scope("deconv"):
        b, h, w, c = [int(d) for d in x.get_shape()]
        f = tf.get_variable(
            "filter", [4, 4, ch, c], dtype=tf.float32, initializer=tf.random_normal_initializer(0, 0.02, seed=2)
        )
        return tf.nn.conv2d_transpose(x, f, [b, h * 2, w * 2, ch], [1, 2, 2, 1], padding="SAME")


def lrelu(x, a):
    with tf.name_scope("lrelu"):
        x = tf.identity(x)
        return (0.5 * (1 + a)) * x + (0.5 * (1 - a)) * tf.abs(x)


def batchnorm(x):
    with tf.variable_scope("batchnorm"):
        x = tf.identity(x)
        c = x.get_shape()[3]
        off = tf.get_variable("offset", [c], dtype=tf.float32, initializer=tf.zeros_initializer())
        sc = tf.get_variable(
            "scale", [c], dtype=tf.float32, initializer=tf.random_normal_initializer(1.0, 0.02, seed=4)
        )
        m, v = tf.nn.moments(x, axes=[0, 1, 2], keep_dims=False)
        return tf.nn.batch_normalization(x, m, v, off, sc, variance_epsilon=1e-5)


def generator(x, oc):
    layers = []
    with tf.variable_scope("encoder_1"):
        layers.append(conv(x, 4, 2))
    for ch in [8, 8]:
        with tf.variable_scope("encoder_%d" % (len(layers) + 1)):
            layers.append(batchnorm(conv(lrelu(layers[-1], 0.2), ch, 2)))
    n = len(layers)
    for i, (ch, drop) in enumerate([(8, 0.5), (4, 0.0)]):
        skip = n - i - 1
        with tf.variable_scope("decoder_%d" % (skip + 1)):
            inp = layers[-1] if i == 0 else tf.concat([layers[-1], layers[skip]], axis=3)
            o = batchnorm(deconv(tf.nn.relu(inp), ch))
            if drop > 0:
                o = tf.nn.dropout(o, keep_prob=1 - drop, seed=5)
            layers.append(o)
    with tf.variable_scope("decoder_1"):
        layers.append(tf.tanh(deconv(tf.nn.relu(tf.concat([layers[-1], layers[0]], axis=3)), oc)))
    return layers[-1]


def disc(a, b):
    with tf.variable_scope("layer_1"):
        h = lrelu(conv(tf.concat([a, b], axis=3), 4, 2), 0.2)
    with tf.variable_scope("layer_2"):
        h = lrelu(batchnorm(conv(h, 8, 1)), 0.2)
    with tf.variable_scope("layer_3"):
        return tf.sigmoid(conv(h, 1, 1))


def create_model(inputs, targets):
    with tf.variable_scope("generator"):
        out = generator(inputs, 3)
    with tf.name_scope("real_discriminator"), tf.variable_scope("discriminator"):
        pr = disc(inputs, targets)
    with tf.name_scope("fake_discriminator"), tf.variable_scope("discriminator", reuse=True):
        pf = disc(inputs, out)
    EPS = 1e-12
    with tf.name_scope("discriminator_loss"):
        dl = tf.reduce_mean(-(tf.log(pr + EPS) + tf.log(1 - pf + EPS)))
    with tf.name_scope("generator_loss"):
        gg = tf.reduce_mean(-tf.log(pf + EPS))
        l1 = tf.reduce_mean(tf.abs(targets - out))
        gl = gg * 1.0 + l1 * 100.0
    with tf.name_scope("discriminator_train"):
        dv = [v for v in tf.trainable_variables() if v.name.startswith("discriminator")]
        do = tf.train.AdamOptimizer(0.0002, 0.5)
        dgv = do.compute_gradients(dl, var_list=dv)
        dt = do.apply_gradients(dgv)
    with tf.name_scope("generator_train"), tf.control_dependencies([dt]):
        gv = [v for v in tf.trainable_variables() if v.name.startswith("generator")]
        go = tf.train.AdamOptimizer(0.0002, 0.5)
        ggv = go.compute_gradients(gl, var_list=gv)
        gt = go.apply_gradients(ggv)
    ema = tf.train.ExponentialMovingAverage(decay=0.99)
    up = ema.apply([dl, gg, l1])
    gs = tf.train.get_or_create_global_step()
    inc = tf.assign(gs, gs + 1)
    return Model(out, pr, pf, ema.average(dl), ema.average(gg), ema.average(l1), tf.group(up, inc, gt))


tf.set_random_seed(0)
rng = np.random.RandomState(0)
A = rng.rand(2, 16, 16, 3).astype("f")
B = rng.rand(2, 16, 16, 3).astype("f")


def preprocess(image):
    with tf.name_scope("preprocess"):
        return image * 2 - 1


def deprocess(image):
    with tf.name_scope("deprocess"):
        return (image + 1) / 2


m = create_model(preprocess(tf.constant(A)), preprocess(tf.constant(B)))
with tf.name_scope("convert_outputs"):
    conv_out = tf.image.convert_image_dtype(deprocess(m.outputs), dtype=tf.uint8, saturate=True)
with tf.name_scope("encode_images"):
    enc = tf.map_fn(tf.image.encode_png, conv_out, dtype=tf.string, name="output_pngs")
with tf.name_scope("predict_real_summary"):
    tf.summary.image("predict_real", tf.image.convert_image_dtype(m.predict_real, dtype=tf.uint8))
tf.summary.scalar("discriminator_loss", m.discrim_loss)
tf.summary.scalar("generator_loss_L1", m.gen_loss_L1)
for var in tf.trainable_variables():
    tf.summary.histogram(var.op.name + "/values", var)
with tf.name_scope("parameter_count"):
    pc = tf.reduce_sum([tf.reduce_prod(tf.shape(v)) for v in tf.trainable_variables()])
saver = tf.train.Saver(max_to_keep=1)
sv = tf.train.Supervisor(logdir="log", save_summaries_secs=0, saver=None)
with sv.managed_session() as sess:
    print("parameter_count =", sess.run(pc))
    for step in range(3):
        r = sess.run(
            {
                "train": m.train,
                "gs": tf.train.get_global_step(),
                "d": m.discrim_loss,
                "g": m.gen_loss_GAN,
                "l1": m.gen_loss_L1,
            }
        )
        print("step %d d %.4f g %.4f l1 %.4f" % (step, r["d"], r["g"], r["l1"]))
    sv.summary_writer.add_summary(sess.run(sv.summary_op), 3)
    print([len(x) > 50 for x in sess.run(enc)])
    saver.save(sess, "log/model", global_step=tf.train.get_global_step())
print([v.name for v in tf.global_variables()])
