"""Depthwise convolution and its gradients against their definition, one product at a time."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.support.interpreter import run_op

Array = Any


def _by_definition(x: Array, w: Array, dy: Array, stride: int, rate: int, before: tuple[int, int]) -> list[Array]:
    y, dx, dw = np.zeros_like(dy), np.zeros_like(x), np.zeros_like(w)
    multiplier = w.shape[3]
    for n, i, j, a, b, c, m in product(*map(range, (*dy.shape[:3], *w.shape))):
        h, v = i * stride + a * rate - before[0], j * stride + b * rate - before[1]
        if 0 <= h < x.shape[1] and 0 <= v < x.shape[2]:
            to = c * multiplier + m
            y[n, i, j, to] += x[n, h, v, c] * w[a, b, c, m]
            dx[n, h, v, c] += dy[n, i, j, to] * w[a, b, c, m]
            dw[a, b, c, m] += x[n, h, v, c] * dy[n, i, j, to]
    return [y, dx, dw]


@pytest.mark.parametrize("block", [1, 1 << 18])
@pytest.mark.parametrize("multiplier", [0, 1, 3])
@pytest.mark.parametrize(
    ("stride", "rate", "padding", "output", "before"),
    [
        (1, 1, "VALID", (4, 3), (0, 0)),
        (1, 1, "SAME", (6, 5), (1, 1)),
        (2, 1, "SAME", (3, 3), (0, 1)),
        (1, 2, "SAME", (6, 5), (2, 2)),
        (2, 1, [[0, 0], [2, 1], [0, 3], [0, 0]], (4, 3), (2, 0)),
    ],
)
def test_values(
    monkeypatch: pytest.MonkeyPatch,
    stride: int,
    rate: int,
    padding: Any,
    output: tuple[int, int],
    before: tuple[int, int],
    multiplier: int,
    block: int,
) -> None:
    monkeypatch.setattr("dtfctl.runtime.kernels.nn.depthwise._BLOCK_BYTES", block)
    random = np.random.default_rng(3)
    x, w = random.normal(size=(3, 6, 5, 2)), random.normal(size=(3, 3, 2, multiplier))
    dy = random.normal(size=(3, *output, 2 * multiplier))
    attrs: dict[str, Any] = {"strides": [1, stride, stride, 1], "dilations": [1, rate, rate, 1], "padding": padding}
    if not isinstance(padding, str):
        attrs |= {"padding": "EXPLICIT", "explicit_paddings": [p for pair in padding for p in pair]}
    name = "DepthwiseConv2dNative"
    got = [
        run_op(name, x, w, **attrs),
        run_op(f"{name}BackpropInput", np.array(x.shape, np.int32), w, dy, **attrs),
        run_op(f"{name}BackpropFilter", x, np.array(w.shape, np.int32), dy, **attrs),
    ]
    for have, want in zip(got, _by_definition(x, w, dy, stride, rate, before), strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


def test_an_empty_batch() -> None:
    x, w = np.zeros((0, 4, 4, 2), np.float32), np.ones((2, 2, 2, 1), np.float32)
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    assert run_op("DepthwiseConv2dNative", x, w, **attrs).shape == (0, 3, 3, 2)
    dy = np.zeros((0, 3, 3, 2), np.float32)
    sizes = np.array(w.shape, np.int32)
    assert not run_op("DepthwiseConv2dNativeBackpropFilter", x, sizes, dy, **attrs).any()
