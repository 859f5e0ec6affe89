"""Image kernels at the edges where TensorFlow's own tests look; values from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import graph_of_op, run_op

IMAGE = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
ZERO = {"uniform_noise": False, "noise": "zero"}


def glimpse(op: str, offset: tuple[float, float], **attrs: object) -> list[list[float]]:
    out = run_op(op, IMAGE, np.array([3, 3], np.int32), np.array([offset], np.float32), **{**ZERO, **attrs})
    return out[0, :, :, 0].tolist()


def test_the_second_glimpse_starts_at_an_unnormalized_point() -> None:
    assert glimpse("ExtractGlimpseV2", (0, 0), centered=False, normalized=False) == [[0, 1, 2], [5, 6, 7], [10, 11, 12]]
    assert glimpse("ExtractGlimpseV2", (0, 0), centered=True, normalized=False) == [
        [12, 13, 14],
        [17, 18, 19],
        [22, 23, 24],
    ]
    assert glimpse("ExtractGlimpseV2", (0, 0), centered=True, normalized=True) == [
        [6, 7, 8],
        [11, 12, 13],
        [16, 17, 18],
    ]


def test_the_first_glimpse_lies_around_the_point() -> None:
    assert glimpse("ExtractGlimpse", (0, 0), centered=True, normalized=False) == [[6, 7, 8], [11, 12, 13], [16, 17, 18]]
    assert glimpse("ExtractGlimpse", (0, 0), centered=False, normalized=False) == [[0, 0, 0], [0, 0, 1], [0, 5, 6]]


def test_noise_stays_within_the_image() -> None:
    for attrs in ({"uniform_noise": True, "noise": "uniform"}, {"uniform_noise": False, "noise": "gaussian"}):
        values = np.array(glimpse("ExtractGlimpse", (100, 100), centered=False, normalized=False, **attrs))
        assert values.min() >= 0 and values.max() <= 24 and values.std() > 0
    with pytest.raises(InvalidArgumentError, match="at the same time"):
        glimpse("ExtractGlimpse", (0, 0), uniform_noise=True)


def test_a_glimpse_of_an_empty_image() -> None:
    image, size = np.zeros((0, 4, 4, 0), np.float32), np.array([2, 2], np.int32)
    assert run_op("ExtractGlimpse", image, size, np.zeros((0, 2), np.float32)).shape == (0, 2, 2, 0)


BOXES = np.array([[[0.1, 0.2, 0.9, 0.8], [0.0, 0.0, 0.2, 0.3]]], np.float32)
SIZE = np.array([60, 80, 3], np.int32)


def parts(op: str, steps: int, *inputs: object, **attrs: object) -> list[tuple[int, int, int, int]]:
    """Top, left, height and width of the part that each of some steps takes; begin, size and box agree."""
    interpreter, fetches, feeds = graph_of_op(op, *inputs, **attrs)
    out = []
    for _ in range(steps):
        begin, size, box = interpreter.run(fetches, feeds)
        assert begin.dtype == size.dtype == np.asarray(inputs[0]).dtype
        assert begin[2] == 0 and size[2] == -1
        edges = np.array([*begin[:2], *(begin + size)[:2]], np.float32)
        np.testing.assert_array_equal(box, (edges / np.array([60, 80, 60, 80], np.float32)).reshape(1, 1, 4))
        out.append((*begin[:2].tolist(), *size[:2].tolist()))
    return out


def test_random_parts_follow_their_seeds() -> None:
    op, half = "SampleDistortedBoundingBoxV2", np.float32(0.5)
    assert parts(op, 3, SIZE, BOXES, half, seed=3, seed2=7) == [(3, 3, 50, 59), (2, 7, 32, 41), (9, 28, 42, 39)]
    ranges = {"area_range": [0.3, 0.9], "aspect_ratio_range": [0.5, 2.0]}
    assert parts(op, 3, SIZE, BOXES, half, seed=1, seed2=2, **ranges) == [
        (6, 6, 51, 57),
        (9, 13, 48, 53),
        (6, 13, 46, 56),
    ]
    op, box = "SampleDistortedBoundingBox", BOXES[:, :1]
    assert parts(op, 2, SIZE, box, seed=3, seed2=9, min_object_covered=0.7) == [(0, 23, 55, 51), (16, 12, 40, 49)]


def test_the_whole_image_where_no_part_was_found() -> None:
    op, half = "SampleDistortedBoundingBoxV2", np.float32(0.5)
    assert parts(op, 3, SIZE, BOXES, half, seed=5, max_attempts=1) == [
        (0, 0, 60, 80),
        (10, 15, 38, 46),
        (3, 32, 46, 45),
    ]


def test_random_parts_of_an_image_without_objects() -> None:
    op, none, half = "StatelessSampleDistortedBoundingBox", np.zeros((1, 0, 4), np.float32), np.float32(0.5)
    size, attrs = SIZE.astype(np.int64), {"use_image_if_no_bounding_boxes": True}
    assert parts(op, 1, size, none, half, np.array([1, 2], np.int32), **attrs) == [(0, 1, 54, 67)]
    assert parts(op, 1, size, none, half, np.array([7, 9], np.int64), **attrs) == [(1, 8, 51, 63)]
    with pytest.raises(InvalidArgumentError, match="One must enable use_image_if_no_bounding_boxes"):
        parts(op, 1, size, none, half, np.array([1, 2], np.int32))


@pytest.mark.parametrize(
    ("attrs", "boxes", "message"),
    [
        ({"aspect_ratio_range": [0.0, 1.0]}, BOXES, r"Aspect ratio range must be non-negative: \[0, 1\]"),
        ({"aspect_ratio_range": [1.0]}, BOXES, "Aspect ratio range field must specify 2 dimensions"),
        ({"area_range": [-0.5, 1.0]}, BOXES, r"Area range must be non-negative: \[-0.5, 1\]"),
        ({"area_range": [0.5, 1.5]}, BOXES, r"Area range must be less then or equal to 1.0: \[0.5, 1.5\]"),
        ({"max_attempts": 0}, BOXES, "Max attempts must be non-negative: 0"),
        ({"min_object_covered": -1.0}, BOXES, "Min object covered must be non-negative: -1"),
        ({}, BOXES + 1, r"All bounding box coordinates must be in \[0.0, 1.0\]: 1.1"),
        ({}, BOXES[0], r"input boxes must be 3-dimensional \[batch, num_boxes, coords\]: \[2,4\]"),
        ({}, BOXES[..., :3], r"bounding boxes must have shape \[4\] or \[\*, 4\], got \[1,2,3\]"),
    ],
)
def test_what_random_parts_refuse(attrs: dict[str, object], boxes: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parts("SampleDistortedBoundingBox", 1, SIZE, boxes, **attrs)


@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic", "ResizeArea", "ResizeNearestNeighbor"])
def test_images_that_cannot_be_are_refused_before_anything_is_made(op: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Encountered overflow"):
        run_op(op, np.ones((3, 3, 1, 4), np.float32), np.array([1879048192, 1879048192], np.int32))


def test_a_resizing_convolution_refuses_them_too() -> None:
    with pytest.raises(InvalidArgumentError, match="Encountered overflow"):
        run_op(
            "FusedResizeAndPadConv2D",
            np.ones((3, 3, 1, 4), np.float32),
            np.array([1879048192, 1879048192], np.int32),
            np.zeros((4, 2), np.int32),
            np.ones((1, 3, 4, 1), np.float32),
            mode="REFLECT",
            strides=[1, 1, 1, 1],
            padding="SAME",
        )
