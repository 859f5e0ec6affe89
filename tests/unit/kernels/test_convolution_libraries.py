"""oneDNN's convolutions against the plain ones, and plans that run pooling and wide element-wise work in pieces."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.cores import granted
from dtfctl.runtime.kernels.into.parallel import ThreadPool
from dtfctl.runtime.kernels.nn import conv
from dtfctl.runtime.kernels.nn.common import Window
from dtfctl.runtime.kernels.onednn import cache, convolution, find
from dtfctl.runtime.kernels.onednn.library import multiplies_bfloat16

F, LOW = np.float32, ml_dtypes.bfloat16

CASES = [
    # x, w, strides, dilations, padding
    ((4, 14, 12, 8), (3, 3, 8, 16), (1, 1), (1, 1), "SAME"),
    ((8, 15, 15, 3), (5, 4, 3, 32), (2, 2), (1, 1), "SAME"),
    ((2, 15, 16, 16), (3, 3, 16, 16), (2, 1), (1, 1), "VALID"),
    ((2, 20, 20, 8), (3, 3, 8, 24), (1, 1), (2, 3), "SAME"),
    ((3, 9, 9, 64), (1, 1, 64, 96), (2, 2), (1, 1), "VALID"),
]


@pytest.mark.parametrize("dtype", [F, np.float64])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "strides", "dilations", "padding"),
    [
        ((2, 7, 6, 1), (3, 2, 1, 5), (1, 1), (1, 1), "SAME"),
        ((3, 8, 9, 1), (5, 4, 1, 4), (2, 3), (1, 1), "SAME"),
        ((2, 9, 9, 1), (3, 2, 1, 3), (1, 1), (2, 3), "VALID"),
        ((2, 6, 6, 1), (1, 1, 1, 3), (2, 2), (1, 1), "VALID"),
    ],
)
def test_the_gradient_by_an_image_of_one_channel(
    dtype: Any, x_shape: Any, w_shape: Any, strides: Any, dilations: Any, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "_BLOCK_BYTES", 1000)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(w_shape).astype(dtype)
    g = Window(strides, dilations, padding).geometry(x_shape[1:3], w_shape[:2])
    dy = rng.standard_normal((x_shape[0], *g.output, w_shape[3])).astype(dtype)
    # What each element of an image changes, one after the other.
    ones = np.eye(x_shape[1] * x_shape[2], dtype=dtype).reshape(-1, *x_shape[1:])
    want = np.einsum("pijo,nijo->np", conv.convolve(ones, w, g), dy).reshape(x_shape)
    out = np.full(x_shape, np.nan, dtype)
    assert conv.input_gradient(dy, w, g, 1, out) is out
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(find.find_library() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize(("x_shape", "w_shape", "strides", "dilations", "padding"), CASES)
def test_onednn_gives_the_plain_values(
    monkeypatch: pytest.MonkeyPatch, x_shape: Any, w_shape: Any, strides: Any, dilations: Any, padding: str
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(x_shape).astype(F), rng.standard_normal(w_shape).astype(F)
    g = Window(strides, dilations, padding).geometry(x_shape[1:3], w_shape[:2])
    dy = rng.standard_normal((x_shape[0], *g.output, w_shape[3])).astype(F)
    assert cache.convolution_for(x.dtype, x.shape, w.shape, g.output, g.strides, g.dilations, g.pads) is not None
    got = conv.convolve(x, w, g), conv.input_gradient(dy, w, g, x_shape[3]), conv.filter_gradient(x, dy, g, w_shape)
    monkeypatch.setattr(conv, "convolution_for", lambda *args: None)
    want = conv.convolve(x, w, g), conv.input_gradient(dy, w, g, x_shape[3]), conv.filter_gradient(x, dy, g, w_shape)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(find.find_library() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize(("x_shape", "w_shape", "strides", "dilations", "padding"), CASES)
def test_convolutions_in_parts_that_threads_claim_give_the_same(
    monkeypatch: pytest.MonkeyPatch, x_shape: Any, w_shape: Any, strides: Any, dilations: Any, padding: str
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(x_shape).astype(F), rng.standard_normal(w_shape).astype(F)
    g = Window(strides, dilations, padding).geometry(x_shape[1:3], w_shape[:2])
    y_shape = (x_shape[0], *g.output, w_shape[3])
    dy, bias = rng.standard_normal(y_shape).astype(F), rng.standard_normal(w_shape[3]).astype(F)

    def results() -> list[Any]:
        cache._made.cache_clear()
        found = cache.convolution_for(x.dtype, x.shape, w.shape, g.output, g.strides, g.dilations, g.pads)
        assert found is not None
        y, biased = (np.full(y_shape, np.nan, F) for _ in range(2))
        dx, (dw, dw2), db = (
            np.full(x_shape, np.nan, F),
            np.full((2, *w_shape), np.nan, F),
            np.full(bias.shape, np.nan, F),
        )
        for _ in range(3):
            found.forward(x, w, y)
            found.biased(x, w, bias, biased)
            found.input_gradient(dy, w, dx)
            found.filter_gradient(x, dy, dw)
            found.filter_and_bias_gradient(x, dy, dw2, db)
        return [y, biased, dx, dw, dw2, db]

    monkeypatch.setattr(convolution, "adapted", lambda library, make, claimed: make().run)
    whole = results()
    monkeypatch.setattr(convolution, "adapted", lambda library, make, claimed: claimed)
    in_parts = results()
    cache._made.cache_clear()
    for a, b in zip(whole, in_parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(
    find.find_library() is None or granted() < 2, reason="oneDNN is not installed, or there is one core only"
)
def test_a_convolution_by_one_thread_has_no_team() -> None:
    """How many threads it has was settled when what describes it was made."""
    program = """
import os
import threading
import time
import numpy as np
from dtfctl.runtime.kernels.onednn import convolution, find
def of_others():
    own = str(threading.get_native_id())
    tasks = (task for task in os.scandir("/proc/self/task") if task.name != own)
    return [open(task.path + "/schedstat").read().split()[2] for task in tasks]
library = find.find_library()
x, w, y = (np.ones(shape, np.float32) for shape in ((64, 28, 28, 16), (5, 5, 16, 32), (64, 28, 28, 32)))
made = convolution.Convolution(library, x.shape, w.shape, (28, 28), (1, 1), (1, 1), ((2, 2), (2, 2)))
library.set_threads(1)
alone = made.made(convolution.FORWARD)
before = []
while before != (before := of_others()):  # until those that have tried the library sleep
    time.sleep(0.05)
for _ in range(5):
    alone.run(x, w, y)
print(before == of_others())
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # No other thread was ever given a core.
    assert told.stdout == "True\n"


@pytest.mark.skipif(
    not multiplies_bfloat16() or find.find_library() is None, reason="needs AVX512-BF16 or AMX, and oneDNN"
)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "strides", "dilations", "padding"),
    [*CASES, ((8, 16, 16, 64), (1, 1, 64, 32), (1, 1), (1, 1), "VALID")],
)
def test_convolutions_of_bfloat16_are_sums_of_float32_rounded_once(
    x_shape: Any, w_shape: Any, strides: Any, dilations: Any, padding: str, layout: str
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(x_shape).astype(LOW), rng.standard_normal(w_shape).astype(LOW)
    g = Window(strides, dilations, padding).geometry(x_shape[1:3], w_shape[:2])
    dy = rng.standard_normal((x_shape[0], *g.output, w_shape[3])).astype(LOW)
    assert cache.convolution_for(x.dtype, x_shape, w_shape, g.output, g.strides, g.dilations, g.pads) is not None
    wide = x.astype(F), w.astype(F), dy.astype(F)
    want = (
        conv.convolve(wide[0], wide[1], g),
        conv.input_gradient(wide[2], wide[1], g, x_shape[3]),
        conv.filter_gradient(wide[0], wide[2], g, w_shape),
    )
    first = layout == "NCHW"
    order = [0, 3, 1, 2] if first else [0, 1, 2, 3]
    back = [0, 2, 3, 1] if first else [0, 1, 2, 3]

    def spread(numbers: Any) -> list[int]:
        return [1, 1, *numbers] if first else [1, *numbers, 1]

    with tf.Graph().as_default(), tf.Session() as session:
        image, above = tf.constant(x.transpose(order)), tf.constant(dy.transpose(order))
        of = {"data_format": layout, "dilations": spread(dilations)}
        y = tf.nn.conv2d(image, tf.constant(w), spread(strides), padding, **of)
        found = session.run([y, *tf.gradients(y, [image, y.op.inputs[1]], above)])
    got = found[0].transpose(back), found[1].transpose(back), found[2]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == LOW
        # Of bfloat16's eight bits the last one.
        np.testing.assert_allclose(a.astype(F), b, rtol=2**-8, atol=1e-3)


@pytest.mark.skipif(find.find_library() is None, reason="oneDNN is not installed")
def test_onednn_gives_the_plain_values_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((10, 32, 32, 16)).astype(F), rng.standard_normal((3, 3, 4, 8)).astype(F)
    g = Window((1, 1), (1, 1), "SAME").geometry((32, 32), (3, 3))
    dy = rng.standard_normal((10, 32, 32, 8)).astype(F)
    one_group = (10, 32, 32, 4), (3, 3, 4, 2)
    assert cache.convolution_for(x.dtype, *one_group, g.output, g.strides, g.dilations, g.pads) is not None

    def results() -> tuple[Any, ...]:
        return conv.convolve(x, w, g), conv.input_gradient(dy, w, g, 16), conv.filter_gradient(x, dy, g, w.shape)

    got = results()
    monkeypatch.setattr(conv, "convolution_for", lambda *args: None)
    for a, b in zip(got, results(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_a_library_that_does_not_load_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    broken = tmp_path / "libdnnl.so.3"
    broken.write_bytes(b"not a library")
    for value in (str(broken), ""):
        monkeypatch.setitem(os.environ, "DTF_ONEDNN", value)
        assert find._found.__wrapped__() is None


def test_a_pool_does_every_part_once_and_passes_errors_on() -> None:
    pool = ThreadPool(3)
    done: list[int] = []
    for _ in range(50):
        done.clear()
        pool.run([partial(done.append, n) for n in range(7)])
        assert sorted(done) == list(range(7))

    def fail() -> None:
        raise ValueError("part")

    with pytest.raises(ValueError, match="part"):
        pool.run([fail, lambda: None])
