"""What cannot fit is refused before anything is allocated, with TensorFlow's codes."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.kernels import admission, free_memory
from tests.support.interpreter import run_op

HUGE = 2**42
MOST = 2**31 - 1


def i64(value: Any) -> np.ndarray:
    return np.array(value, np.int64)


def i32(value: Any) -> np.ndarray:
    return np.array(value, np.int32)


def f32(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


IMAGE = np.zeros((1, 2, 2, 1), np.float32)
COLUMN = np.zeros((200_000, 1), np.float32)
REFUSED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Fill", [i64([HUGE]), f32(1)], {}),
    ("Fill", [i64([HUGE]), np.array(b"x", object)], {}),
    (
        "Empty",
        [
            i32([MOST, MOST]),
        ],
        {"dtype": dtypes.float32},
    ),
    ("BroadcastTo", [f32(1), i64([HUGE])], {}),
    ("Range", [i64(0), i64(HUGE), i64(1)], {}),
    ("LinSpace", [f32(0), f32(1), i64(HUGE)], {}),
    ("Tile", [f32([1]), i64([HUGE])], {}),
    ("OneHot", [i64([1] * 1000), i32(MOST), np.array(1j), np.array(0j)], {}),
    ("Pad", [f32([1]), i64([[HUGE, 0]])], {}),
    ("PadV2", [f32([1]), i64([[0, HUGE]]), f32(0)], {}),
    ("RandomUniform", [i64([HUGE])], {"dtype": dtypes.float32}),
    ("StatelessRandomNormal", [i64([HUGE]), i64([1, 2])], {"dtype": dtypes.float32}),
    ("RandomGamma", [i64([HUGE]), f32(1)], {}),
    ("ResizeBilinear", [IMAGE, i32([2**30, 2**30])], {}),
    ("ResizeNearestNeighbor", [IMAGE, i32([2**30, 2**30])], {}),
    ("CropAndResize", [IMAGE, f32([[0, 0, 1, 1]]), i32([0]), i32([2**30, 2**30])], {}),
    ("ScatterNd", [i64([[0]]), f32([1]), i64([HUGE])], {}),
    ("SparseToDense", [i64([[0]]), i64([HUGE]), f32([1]), f32(0)], {}),
    ("UnsortedSegmentSum", [f32([1]), i64([0]), i64(HUGE)], {}),
    ("Bincount", [i32([1] * 2), i32(MOST), np.zeros(0, np.float64)], {}),
    (
        "Conv2DBackpropInput",
        [i32([MOST, 8, 8, 1]), np.zeros((1, 1, 1, 1), np.float32), IMAGE],
        {"strides": [1] * 4, "padding": "SAME"},
    ),
    ("TensorArrayV3", [i32(MOST)], {"dtype": dtypes.float32}),
    ("TensorListReserve", [i32(-1), i32(MOST)], {"element_dtype": dtypes.float32}),
    ("AsString", [np.zeros(1_000_000, np.int64)], {"width": MOST}),
    *((op, [COLUMN, COLUMN.T], {}) for op in ("AddV2", "Mul", "Maximum", "Pow", "SquaredDifference", "Less", "Equal")),
    ("Equal", [COLUMN, COLUMN.T], {"incompatible_shape_error": False}),
    ("SelectV2", [COLUMN > 0, COLUMN.T, f32(1)], {}),
    (
        "StringFormat",
        [[np.broadcast_to(np.int8(0), 60_000_000)]],
        {"template": "{}", "placeholder": "{}", "summarize": -1},
    ),
    ("RaggedRange", [i64([0]), i64([HUGE]), i64([1])], {}),
    (
        "StringNGrams",
        [np.array([b"a", b"b"], object), i64([0, 2])],
        {
            "separator": "",
            "ngram_widths": [MOST],
            "left_pad": "x",
            "right_pad": "y",
            "pad_width": -1,
            "preserve_short_sequences": False,
        },
    ),
]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host with 8 GB, whichever this is."""
    (tmp_path / "meminfo").write_text("MemAvailable:  8000000 kB\nSwapFree:  0 kB\n")
    monkeypatch.setattr(free_memory, "_PROC", tmp_path)


@pytest.mark.parametrize(("op", "inputs", "attrs"), REFUSED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_cannot_fit_is_refused(little_memory: None, op: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ResourceExhaustedError, match="OOM when allocating tensor with shape"):
        run_op(op, *inputs, **attrs)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024


def test_what_nothing_can_count_is_a_wrong_argument() -> None:
    for shape in ([2**40, 2**40], [2**62, 4]):
        with pytest.raises(InvalidArgumentError, match="Encountered overflow when multiplying"):
            run_op("Fill", i64(shape), f32(1))
    for name in ("width", "precision"):
        with pytest.raises(InvalidArgumentError, match=f"Attr {name} has value 2147483648 out of range for an int32"):
            run_op("AsString", f32([1]), **{name: 2**31})


def test_wrong_inputs_are_the_kernels_to_refuse() -> None:
    with pytest.raises(InvalidArgumentError, match=">= 0"):
        run_op("Fill", i64([-1]), f32(1))
    assert run_op("Fill", i64([0, HUGE]), f32(1)).shape == (0, HUGE)
    with pytest.raises(InvalidArgumentError, match="start <= limit"):
        run_op("Range", i64(HUGE), i64(1), i64(1))


def test_what_a_broadcast_does_not_enlarge_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "free_bytes", lambda: 0)
    large = np.zeros((200, 200_000), np.float32)
    assert run_op("AddV2", large, f32(1)).shape == large.shape
    assert run_op("Less", large, large[:1]).shape == large.shape


@pytest.mark.parametrize("size", [9, 2**40 + 1])
def test_a_window_far_larger_than_the_input_takes_what_there_is(size: int) -> None:
    x = np.random.default_rng(3).normal(size=(2, 4, 3, 2)).astype(np.float32)
    attrs: dict[str, Any] = {"ksize": [1, size, size, 1], "strides": [1] * 4, "padding": "SAME"}
    most, mean = x.max(axis=(1, 2), keepdims=True), x.mean(axis=(1, 2), keepdims=True)
    largest = run_op("MaxPool", x, **attrs)
    np.testing.assert_array_equal(largest, np.broadcast_to(most, x.shape))
    np.testing.assert_allclose(run_op("AvgPool", x, **attrs), np.broadcast_to(mean, x.shape), rtol=1e-5, atol=1e-6)
    ones = np.ones_like(x)
    np.testing.assert_array_equal(run_op("MaxPoolGrad", x, largest, ones, **attrs), (x == most) * f32(12))
    np.testing.assert_allclose(run_op("AvgPoolGrad", i32(x.shape), ones, **attrs), ones, rtol=1e-5)
    empty = run_op("MaxPool", x[:, :0], **attrs)
    assert empty.shape == (2, 0, 3, 2)


def test_no_poisson_draw_is_waited_for_that_cannot_come() -> None:
    with pytest.raises(InvalidArgumentError, match=r"rate 4.29497e\+09 is beyond the type of the result"):
        run_op("RandomPoissonV2", i64([2]), f32([1, 2**32]), dtype=dtypes.float16)


def test_geometry_past_32_bits_is_computed_right_or_refused() -> None:
    """A dilation of 2**32 + 1 had counted as 1 in the library for convolutions."""
    x, w = np.ones((4, 32, 32, 16), np.float32), np.ones((3, 3, 16, 32), np.float32)
    program = (
        "import numpy as np\nfrom tests.support.interpreter import run_op\n"
        "x, w = np.ones((4, 32, 32, 16), np.float32), np.ones((3, 3, 16, 32), np.float32)\n"
        "try:\n"
        "    run_op('Conv2D', x, w, strides=[1] * 4, padding='SAME', dilations=[1, 2**32 + 1, 2**32 + 1, 1])\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("ValueError", "MemoryError", "InvalidArgumentError", "ResourceExhaustedError")
    one = run_op("Conv2D", x, w, strides=[1, 2**32 + 1, 2**32 + 1, 1], padding="SAME")
    assert one.shape == (4, 1, 1, 32)
