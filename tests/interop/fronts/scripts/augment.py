"""Pictures changed on their way: maps, structure iterators, metrics over a second dataset."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(3)
r = np.random.RandomState(0)
imgs = (r.rand(12, 20, 18, 3) * 255).astype("u1")
labels = np.arange(12) % 3


def aug(i, l):
    i = tf.image.convert_image_dtype(i, tf.float32)
    i = tf.image.resize_image_with_crop_or_pad(i, 24, 24)
    i = tf.image.central_crop(i, 0.75)
    i = tf.image.adjust_brightness(i, 0.1)
    i = tf.image.adjust_contrast(i, 1.3)
    i = tf.image.adjust_saturation(i, 0.7)
    i = tf.image.adjust_hue(i, 0.08)
    i = tf.image.rot90(i, 1)
    i = tf.image.flip_left_right(i)
    i = tf.image.resize_images(i, [16, 16], method=tf.image.ResizeMethod.BICUBIC)
    i = tf.clip_by_value(i, 0.0, 1.0)
    i = tf.subtract(i, 0.5)
    i = tf.multiply(i, 2.0)
    return tf.image.per_image_standardization(i), l


ds = (
    tf.data.Dataset.from_tensor_slices((imgs, labels))
    .map(aug, num_parallel_calls=2)
    .apply(tf.data.experimental.shuffle_and_repeat(1, 2))
    .apply(tf.data.experimental.map_and_batch(lambda a, b: (a, tf.one_hot(b, 3)), 5, drop_remainder=True))
    .prefetch(tf.data.experimental.AUTOTUNE)
)
val = (
    tf.data.Dataset.from_tensor_slices((imgs, labels))
    .map(
        lambda i, l: (
            tf.image.resize_bilinear(tf.expand_dims(tf.to_float(i), 0), [16, 16], align_corners=True)[0] / 255.0,
            tf.one_hot(l, 3),
        )
    )
    .batch(5, drop_remainder=True)
)
it = tf.data.Iterator.from_structure(ds.output_types, ds.output_shapes)
x, y = it.get_next()
ti, vi = it.make_initializer(ds), it.make_initializer(val)
print(ds.output_types, ds.output_shapes, x)
h = x
for i, c in enumerate([4, 8]):
    h = tf.layers.max_pooling2d(
        tf.nn.relu(tf.layers.conv2d(h, c, 3, padding="same", kernel_initializer=tf.glorot_uniform_initializer(seed=i))),
        2,
        2,
    )
h = tf.reduce_mean(h, [1, 2])
logits = tf.layers.dense(h, 3, kernel_initializer=tf.glorot_uniform_initializer(seed=9))
loss = tf.losses.softmax_cross_entropy(y, logits, label_smoothing=0.1)
tr = tf.train.AdamOptimizer(1e-2).minimize(loss)
acc, up = tf.metrics.accuracy(tf.argmax(y, 1), tf.argmax(logits, 1))
with tf.Session() as s:
    s.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    for _e in range(2):
        s.run(ti)
        n = 0
        while True:
            try:
                l, _ = s.run([loss, tr])
                n += 1
                print(f"{l:.5f}", end=" ")
            except tf.errors.OutOfRangeError:
                break
        print("batches", n)
        s.run(vi)
        try:
            while True:
                s.run(up)
        except tf.errors.OutOfRangeError:
            print(f"val acc {s.run(acc):.4f}")
