"""Programs that call the functions of tf.keras.backend, and of images, themselves."""

from __future__ import annotations

from typing import Any

import numpy as np


def _data(*shape: int, seed: int = 5) -> Any:
    return np.random.RandomState(seed).rand(*shape).astype("float32")


def _values(tf: Any, tensors: Any) -> Any:
    backend = tf.keras.backend
    return [[t.shape.as_list(), np.asarray(backend.get_value(t)).astype("float64").tolist()] for t in tensors]


def convolved(tf: Any, folder: str) -> Any:
    backend = tf.keras.backend
    steps, image, volume = map(backend.constant, (_data(2, 7, 3), _data(1, 5, 6, 2), _data(1, 4, 4, 4, 2)))
    flat, square, cube = (backend.constant(_data(*s, seed=2)) for s in ((3, 3, 2), (2, 3, 2, 3), (2, 2, 2, 2, 1)))
    depth, point, back = (backend.constant(_data(*s, seed=3)) for s in ((3, 2, 2, 2), (1, 1, 4, 3), (3, 3, 4, 2)))
    own, places = backend.constant(_data(5, 9, 2, seed=4)), backend.constant(_data(8, 12, 2, seed=6))
    first = backend.permute_dimensions(image, [0, 3, 1, 2])
    found = [
        backend.conv1d(steps, flat, padding="causal", dilation_rate=2),
        backend.conv1d(steps, flat, 2, "same"),
        backend.conv2d(image, square, (2, 1), "same"),
        backend.conv2d(image, square, dilation_rate=(2, 2)),
        backend.conv3d(volume, cube, padding="same"),
        backend.conv2d_transpose(image, back, (None, 10, 12, 4), (2, 2), "same"),
        backend.depthwise_conv2d(image, depth, padding="same", dilation_rate=(2, 2)),
        backend.depthwise_conv2d(image, depth, (2, 2)),
        backend.separable_conv2d(image, depth, point, (1, 1), "same"),
        backend.pool2d(image, (2, 2), (2, 2), "same"),
        backend.pool2d(first, (2, 3), data_format="channels_first", pool_mode="avg") * 2.0,
        backend.pool3d(volume, (2, 2, 2), (2, 2, 2)),
        backend.pool3d(volume, (2, 2, 2), padding="same", pool_mode="avg"),
        backend.local_conv1d(steps, own, (3,), (1,)),
        backend.local_conv2d(image, places, (2, 3), (1, 2), (4, 2)),
        backend.resize_images(image, 2, 3, "channels_last", "bilinear"),
        backend.resize_images(first, 2, 2, "channels_first"),
        backend.resize_volumes(volume, 1, 2, 1, "channels_last"),
        backend.spatial_3d_padding(volume, ((1, 0), (0, 1), (1, 1))),
    ]
    wrong = []
    for call in (
        lambda: backend.conv2d(image, square, padding="causal"),
        lambda: backend.pool2d(image, (2, 2), pool_mode="least"),
        lambda: backend.pool2d(image, (2, 2, 2)),
        lambda: backend.conv2d(image, square, data_format="NHWC"),
    ):
        try:
            call()
        except Exception as e:
            wrong.append(type(e).__name__)
    return {"values": _values(tf, found), "wrong": wrong}


def normalized(tf: Any, folder: str) -> Any:
    backend = tf.keras.backend
    image, rows = backend.constant(_data(2, 3, 4, 2)), backend.constant(_data(5, 3))
    two, three = backend.constant([0.5, 2.0]), backend.constant([1.0, -1.0, 0.5])
    four = backend.constant([1.0, 2.0, 3.0, 4.0])
    found = [
        *backend.normalize_batch_in_training(image, two, two, [0, 1, 2]),
        *backend.normalize_batch_in_training(rows, three, None, [0]),
        *backend.normalize_batch_in_training(image, four, four, [0, 1, 3], epsilon=0.01),
        backend.batch_normalization(image, two, two, two, None),
        backend.batch_normalization(image, backend.reshape(two, (1, 1, 1, 2)), two, None, two, axis=3, epsilon=0.1),
        backend.batch_normalization(rows, three, backend.abs(three), three, three),
    ]
    labels, likely = backend.constant([[1.0, 0.0], [0.0, 1.0]]), backend.constant([[0.9, 0.2], [0.4, 0.6]])
    found += [
        backend.binary_focal_crossentropy(labels, likely),
        backend.binary_focal_crossentropy(labels, likely, True, 0.4, 1.5, from_logits=True),
        backend.categorical_focal_crossentropy(labels, likely),
        backend.categorical_focal_crossentropy(labels, likely, 0.5, 1.0, from_logits=True),
        backend.in_top_k(likely, backend.constant([1, 1], dtype="int32"), 1),
        backend.random_bernoulli((4, 5), p=0.4, seed=3),
    ]
    with backend.name_scope("part") as scope:
        named = tf.identity(labels, name="labels")
    return {"values": _values(tf, found), "names": [scope, named.name]}


def stepped(tf: Any, folder: str) -> Any:
    """Steps with masks, constants, several inputs and outputs, backwards and unrolled."""
    backend = tf.keras.backend
    x, w = backend.constant(_data(2, 4, 3)), backend.constant(_data(3, 3, seed=2))
    begin = [backend.constant(_data(2, 3, seed=3)), backend.constant(_data(2, 3, seed=4))]
    mask = backend.constant([[1, 1, 0, 1], [1, 0, 0, 0]])
    lengths = tf.constant([3, 2])

    def step(inputs: Any, states: Any) -> Any:
        new = backend.tanh(backend.dot(inputs, w) + states[0] * 0.5) + (states[2] if len(states) > 2 else 0.0)
        return new, [new, states[1] + inputs]

    def pair(inputs: Any, states: Any) -> Any:
        a, b = inputs
        new = backend.tanh(backend.dot(a, w) + b + states[0])
        return (new, b * 2.0), [new, states[1] * 0.5]

    found = []
    for options in (
        {},
        {"go_backwards": True, "mask": mask},
        {"mask": mask, "zero_output_for_mask": True},
        {"unroll": True, "mask": mask},
        {"unroll": True, "go_backwards": True, "constants": [begin[1]]},
        {"constants": [begin[1]], "input_length": lengths},
        {"input_length": lengths, "go_backwards": True},
    ):
        last, outputs, states = backend.rnn(step, x, begin, **options)
        found += [last, outputs, *states]
    last, outputs, states = backend.rnn(pair, (x, x * 2.0), begin, unroll=False)
    found += [*last, *outputs, *states]
    last, outputs, states = backend.rnn(step, backend.permute_dimensions(x, (1, 0, 2)), begin, time_major=True)
    found += [last, outputs, *backend.gradients(backend.sum(outputs), [w, x])]
    return {"values": _values(tf, found)}


def aligned(tf: Any, folder: str) -> Any:
    """Labels that are not aligned with their steps."""
    backend = tf.keras.backend
    likely = backend.softmax(backend.constant(_data(3, 6, 4) * 4.0))
    labels, counts = backend.constant([[0, 1, 2], [2, 2, 0], [1, 0, 0]]), backend.constant([[3], [2], [1]])
    lengths = backend.constant([[6], [5], [4]])
    sparse = backend.ctc_label_dense_to_sparse(labels, backend.flatten(backend.cast(counts, "int32")))
    greedy, logs = backend.ctc_decode(likely, backend.flatten(lengths))
    beams, more = backend.ctc_decode(likely, backend.flatten(lengths), greedy=False, beam_width=8, top_paths=2)
    cost = backend.ctc_batch_cost(labels, likely, lengths, counts)
    found = [*greedy, logs, *beams, more, cost, sparse.indices, sparse.values, sparse.dense_shape]
    return {"values": [np.asarray(backend.get_value(t)).tolist() for t in found]}


def qualities(tf: Any, folder: str) -> Any:
    """What JPEGs lose: not the same pixels with every library, but as much."""
    one = tf.constant(_data(6, 7, 3, seed=3))
    pixels = tf.cast(one * 255.0, tf.uint8)
    smooth = tf.image.resize_images(one, [40, 48])
    lossy = [tf.image.adjust_jpeg_quality(smooth, 75), tf.image.adjust_jpeg_quality(pixels[..., :1], tf.constant(95))]
    lossy.append(tf.image.random_jpeg_quality(smooth, 60, 95, seed=4))
    changes = [tf.abs(lossy[0] - smooth), tf.cast(lossy[1] - pixels[..., :1], tf.float32), tf.abs(lossy[2] - smooth)]
    values = tf.keras.backend.batch_get_value([tf.reduce_mean(c) for c in changes])
    wrong = []
    for least, most in ((50, 101), (50, 50), (-1, 4)):
        try:
            tf.image.random_jpeg_quality(one, least, most)
        except ValueError:
            wrong.append((least, most))
    return {
        "shapes": [[t.shape.as_list(), t.dtype.name] for t in lossy],
        "lost": [bool(0 < values[0] < 0.03), bool(values[1] != 0), bool(0 < values[2] < 0.03)],
        "wrong": wrong,
    }


def similar(tf: Any, folder: str) -> Any:
    """Similarity of single images, batches and batches of batches, at one scale and several."""
    random = np.random.RandomState(3)
    one = random.rand(45, 50, 3).astype("float32")
    other = np.clip(one + 0.2 * random.rand(45, 50, 3), 0, 1).astype("float32")
    a, b = tf.constant(one), tf.placeholder(tf.float32, [None, None, 3], name="b")
    batch, many = tf.stack([a, b]), tf.stack([[a, b], [b, a]])
    pixels = tf.cast(a * 255.0, tf.uint8)
    found = [
        tf.image.ssim(a, b, 1.0),
        tf.image.ssim(batch, batch[::-1], 1.0, filter_size=7, filter_sigma=1.2),
        tf.image.ssim(many, many[::-1], 1.0, k1=0.02),
        tf.image.ssim(pixels, tf.cast(b * 255.0, tf.uint8), 255),
        tf.image.ssim_multiscale(a, b, 1.0, filter_size=2),
        tf.image.ssim_multiscale(batch, batch[::-1], 1.0, power_factors=(0.2, 0.5, 0.3)),
        tf.image.ssim_multiscale(many, many[::-1], 1.0, power_factors=(0.5, 0.5), filter_size=5),
    ]
    kinds = []
    for call in (
        lambda: tf.image.ssim(a, tf.ones([4, 4, 3]), 1.0), lambda: tf.image.ssim(a[0], a[0], 1.0),
    ):  # fmt: skip
        try:
            call()
            kinds.append("")
        except ValueError:
            kinds.append("ValueError")
    values = tf.keras.backend.get_session().run(found, {b: other})
    return {
        "values": [np.asarray(v).ravel().tolist() for v in values],
        "shapes": [list(np.shape(v)) for v in values],
        "wrong": kinds,
    }


PROGRAMS = {f.__name__: f for f in (convolved, normalized, stepped, aligned, qualities, similar)}
