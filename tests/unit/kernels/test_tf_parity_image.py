"""Image kernels at the edges where TensorFlow's own tests look; values from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

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
