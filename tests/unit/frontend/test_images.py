"""Images whose sizes are not known when the graph is built, or are tensors: cut, padded, turned, resized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

IMAGE = np.arange(5 * 6 * 3, dtype=np.float32).reshape(5, 6, 3)
SHAPES = [(5, 6, 3), (None, None, 3), (None, None, None), None]


def _tensor(value: Any) -> Any:
    return tf.placeholder_with_default(value, [])


CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "crop": (lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 3, 4), IMAGE[1:4, 2:6]),
    "crop by tensors": (lambda x: tf.image.crop_to_bounding_box(x, _tensor(1), 2, _tensor(3), 4), IMAGE[1:4, 2:6]),
    "pad": (lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 7, 9), np.pad(IMAGE, [(1, 1), (2, 1), (0, 0)])),
    "pad by tensors": (
        lambda x: tf.image.pad_to_bounding_box(x, _tensor(1), 2, 7, _tensor(9)),
        np.pad(IMAGE, [(1, 1), (2, 1), (0, 0)]),
    ),
    "crop or pad": (
        lambda x: tf.image.resize_image_with_crop_or_pad(x, 4, 9),
        np.pad(IMAGE[:4], [(0, 0), (1, 2), (0, 0)]),
    ),
    "pad or crop by tensors": (
        lambda x: tf.image.resize_image_with_crop_or_pad(x, _tensor(8), _tensor(3)),
        np.pad(IMAGE[:, 1:4], [(1, 2), (0, 0), (0, 0)]),
    ),
    "middle": (lambda x: tf.image.central_crop(x, 0.5), IMAGE[1:4, 1:5]),
    "middle by a tensor": (lambda x: tf.image.central_crop(x, _tensor(0.33)), IMAGE[1:4, 2:4]),
    "all": (lambda x: tf.image.central_crop(x, 1.0), IMAGE),
    "turned": (lambda x: tf.image.rot90(x, 3), np.rot90(IMAGE, 3)),
    "turned by a tensor": (lambda x: tf.image.rot90(x, _tensor(3)), np.rot90(IMAGE, 3)),
    "turned by a tensor, around": (lambda x: tf.image.rot90(x, _tensor(6)), np.rot90(IMAGE, 2)),
    "mirrored": (tf.image.flip_left_right, IMAGE[:, ::-1]),
    "gray to colors": (lambda x: tf.image.grayscale_to_rgb(x[..., :1]), np.repeat(IMAGE[..., :1], 3, 2)),
    "standard": (tf.image.per_image_standardization, (IMAGE - IMAGE.mean()) / IMAGE.std()),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_images_of_any_known_shape(case: str, shape: Any) -> None:
    function, expected = CASES[case]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, shape)
        made = function(x)
        found = session.run(made, {x: IMAGE})
        assert made.shape.is_compatible_with(expected.shape)
        assert shape != (None, None, 3) or made.shape[-1].value == 3
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_sizes_that_are_asked_for_are_static() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, None, 3])
        assert tf.image.crop_to_bounding_box(x, _tensor(1), 0, 3, 4).shape.as_list() == [None, 3, 4, 3]
        assert tf.image.resize_image_with_crop_or_pad(x, 3, 4).shape.as_list() == [None, 3, 4, 3]
        assert tf.image.resize_image_with_pad(x, 3, 4).shape.as_list() == [None, 3, 4, 3]
        known = tf.placeholder(tf.float32, [2, 5, 6, 3])
        assert tf.image.resize_images(known, [7, 4], preserve_aspect_ratio=True).shape.as_list() == [2, 3, 4, 3]


def test_what_does_not_fit_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        known, unknown = tf.constant(IMAGE), tf.placeholder(tf.float32, [None, None, 3])
        for refused in (
            lambda: tf.image.crop_to_bounding_box(known, 3, 2, 3, 3),
            lambda: tf.image.crop_to_bounding_box(unknown, -1, 2, 3, 3),
            lambda: tf.image.pad_to_bounding_box(known, 1, 2, 3, 3),
            lambda: tf.image.resize_image_with_crop_or_pad(unknown, 0, 9),
            lambda: tf.image.central_crop(unknown, 0.0),
        ):
            with pytest.raises(ValueError, match="must be"):
                refused()
        for made, said in (
            (tf.image.crop_to_bounding_box(unknown, 3, 2, 3, 3), "height must be >= target"),
            (tf.image.pad_to_bounding_box(unknown, 1, 2, 3, 9), "height must be <= target"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                session.run(made, {unknown: IMAGE})


def test_images_of_a_batch_turn_as_with_tensorflow() -> None:
    """TensorFlow 2.21's: what it draws for a batch is rounded, so that an image turns above 1/2."""
    x = np.stack([IMAGE, IMAGE + 100, IMAGE + 200, IMAGE + 300])
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        drawn = session.run(tf.random_uniform([4], seed=5))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        found = session.run(tf.image.random_flip_left_right(tf.constant(x), seed=5))
    turned = [bool((image[:, ::-1] == before).all()) for image, before in zip(found, x)]
    assert turned == [bool(n > 0.5) for n in drawn]


def test_images_within_a_size_keep_their_proportions() -> None:
    """TensorFlow 2.21's: the sum by place of what `resize_image_with_pad` gives."""
    with tf.Graph().as_default(), tf.Session() as session:
        for shape in ((5, 6, 3), (None, None, 3)):
            x = tf.placeholder(tf.float32, shape)
            found = session.run(tf.image.resize_image_with_pad(x, 7, 9), {x: IMAGE / 90})
            assert found.shape == (7, 9, 3)
            assert float(np.sum(found * np.arange(found.size).reshape(found.shape))) == pytest.approx(10595.84, abs=0.1)


def test_boxes_are_padded_and_chosen_by_overlaps() -> None:
    boxes, scores = [[0.0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0.5, 1, 2]], [0.9, 0.8, 0.7]
    overlaps = [[1.0, 0.9, 0.2], [0.9, 1.0, 0.2], [0.2, 0.2, 1.0]]
    with tf.Graph().as_default(), tf.Session() as session:
        padded, valid = tf.image.non_max_suppression_padded(boxes, scores, 4, pad_to_max_output_size=True)
        chosen = tf.image.non_max_suppression_overlaps(overlaps, scores, 3)
        found = session.run([padded, valid, chosen])
        with pytest.raises(ValueError, match="map_fn"):
            tf.image.non_max_suppression_padded(boxes, scores, 4, sorted_input=True)
    assert [v.tolist() for v in found] == [[0, 2, 0, 0], 2, [0, 2]]
