"""Boxes: overlaps, focal loss, hard examples, suppression and crops."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def iou(a, b):
    y1, x1, y2, x2 = tf.unstack(tf.expand_dims(a, 1), axis=-1)
    Y1, X1, Y2, X2 = tf.unstack(tf.expand_dims(b, 0), axis=-1)
    i = tf.maximum(0.0, tf.minimum(y2, Y2) - tf.maximum(y1, Y1)) * tf.maximum(
        0.0, tf.minimum(x2, X2) - tf.maximum(x1, X1)
    )
    return i / ((y2 - y1) * (x2 - x1) + (Y2 - Y1) * (X2 - X1) - i)


def smooth_l1(p, t, sigma=1.0):
    d = tf.abs(p - t)
    s = tf.stop_gradient(tf.to_float(tf.less(d, 1.0 / sigma**2)))
    return s * 0.5 * d * d + (1 - s) * (d - 0.5)


def focal(logits, labels, alpha=0.25, gamma=2.0):
    p = tf.sigmoid(logits)
    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    pt = tf.where(tf.equal(labels, 1.0), p, 1 - p)
    al = tf.where(tf.equal(labels, 1.0), alpha * tf.ones_like(p), (1 - alpha) * tf.ones_like(p))
    return al * tf.pow(1 - pt, gamma) * ce


r = np.random.RandomState(0)
img = tf.placeholder(tf.float32, [1, 32, 32, 3])
gt = tf.placeholder(tf.float32, [None, 4])
cls = tf.placeholder(tf.int32, [None])
ys, xs = np.meshgrid(np.arange(4), np.arange(4), indexing="ij")
c = np.stack([ys, xs], -1).reshape(-1, 2) * 8 + 4
anchors = np.concatenate([np.concatenate([c - s, c + s], 1) for s in (4, 7)], 0).astype("f") / 32
h = tf.layers.conv2d(
    img, 8, 3, 2, "same", activation=tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(seed=1)
)
h = tf.layers.separable_conv2d(
    h,
    12,
    3,
    (2, 2),
    "same",
    activation=tf.nn.relu6,
    depthwise_initializer=tf.glorot_uniform_initializer(seed=2),
    pointwise_initializer=tf.glorot_uniform_initializer(seed=3),
)
h = tf.layers.max_pooling2d(h, 2, 2)
box = tf.reshape(
    tf.transpose(
        tf.reshape(
            tf.layers.conv2d(h, 8, 1, name="box", kernel_initializer=tf.glorot_uniform_initializer(seed=4)), [16, 2, 4]
        ),
        [1, 0, 2],
    ),
    [-1, 4],
)
sc = tf.reshape(
    tf.transpose(
        tf.reshape(
            tf.layers.conv2d(h, 6, 1, name="cls", kernel_initializer=tf.glorot_uniform_initializer(seed=5)), [16, 2, 3]
        ),
        [1, 0, 2],
    ),
    [-1, 3],
)
m = iou(tf.constant(anchors), gt)
best = tf.argmax(m, 1)
mx = tf.reduce_max(m, 1)
pos = tf.where(tf.greater(mx, 0.3))
pos = tf.reshape(pos, [-1])
force = tf.argmax(m, 0)
pos, _ = tf.unique(tf.concat([pos, force], 0))
tgt = tf.gather(gt, tf.gather(best, pos))
lab = tf.scatter_nd(
    tf.expand_dims(pos, 1), tf.one_hot(tf.gather(cls, tf.gather(best, pos)), 3), tf.constant([32, 3], tf.int64)
)
lab = tf.minimum(lab, 1.0)
floss = tf.reduce_sum(focal(sc, lab)) / tf.maximum(1.0, tf.to_float(tf.size(pos)))
bl = tf.reduce_mean(smooth_l1(tf.gather(box, pos) + tf.gather(anchors, pos), tgt))
ohem, _ = tf.nn.top_k(tf.reduce_max(focal(sc, lab), 1), k=5)
loss = floss + bl + 0.1 * tf.reduce_mean(ohem)
tr = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss)
boxes = tf.clip_by_value(box + anchors, 0.0, 1.0)
sel = tf.image.non_max_suppression(boxes, tf.reduce_max(tf.sigmoid(sc), 1), max_output_size=5, iou_threshold=0.4)
final = tf.gather(boxes, sel)
nb, ns, nc, valid = tf.image.combined_non_max_suppression(
    tf.reshape(boxes, [1, 32, 1, 4]), tf.reshape(tf.sigmoid(sc), [1, 32, 3]), 3, 6, 0.4, 0.3
)
crops = tf.image.crop_and_resize(img, final, tf.zeros([tf.shape(final)[0]], tf.int32), [4, 4])
drawn = tf.image.draw_bounding_boxes(img, tf.expand_dims(final, 0))
ps, pidx = tf.image.non_max_suppression_padded(boxes, tf.reduce_max(tf.sigmoid(sc), 1), 6, pad_to_max_output_size=True)
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    f = {img: r.rand(1, 32, 32, 3), gt: [[0.1, 0.1, 0.4, 0.5], [0.5, 0.5, 0.9, 0.95]], cls: [0, 2]}
    for i in range(5):
        print("%d %.5f %.5f" % (i, *s.run([loss, bl, tr], f)[:2]))
    print(
        s.run(tf.size(pos), f),
        s.run(valid, f),
        s.run(nc, f),
        s.run(tf.reduce_sum(ns), f),
        s.run(crops, f).sum(),
        s.run(drawn, f).shape,
    )
    print(s.run(final, f))
    print(s.run([ps, pidx], f))
