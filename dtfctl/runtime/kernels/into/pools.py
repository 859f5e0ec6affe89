"""Max pooling with windows that lie side by side, into given arrays: tap by tap, no padding, nothing made anew."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.compiled.jit import compiled, loops
from dtfctl.runtime.kernels.into.crew import by_crew
from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.nn.pooling import pool_window
from dtfctl.runtime.kernels.registry import KernelBuild

contiguous = np.ascontiguousarray


def _tiles(k: KernelBuild, x: Spec, y: Spec) -> list[tuple[slice, ...]] | None:
    """Index of the input for each tap in row-major order, if windows cover the input without overlap or border."""
    if not is_float(x) or len(x.shape) != 4 or 0 in x.shape:
        return None
    window, depth = pool_window(k, 2)
    if depth != 1 or window.channels_first or window.ksize != window.strides:
        return None
    if tuple(n * size for n, size in zip(y.shape[1:3], window.ksize)) != x.shape[1:3]:
        return None
    h, w = window.ksize
    return [(slice(None), slice(i, None, h), slice(j, None, w)) for i, j in product(range(h), range(w))]


@makes("MaxPool")
def _max_pool(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    tiles = _tiles(k, inputs[0], outputs[0])
    if tiles is None:
        return None
    lowest = np.finfo(inputs[0].dtype).min
    first, *others = tiles

    def pool(x: Any, out: Any) -> None:
        # Minus infinity becomes the least number, as in TensorFlow.
        np.maximum(x[first], lowest, out=out)
        for tile in others:
            np.maximum(out, x[tile], out=out)

    return by_crew(Into(pool), inputs, outputs)


@makes("MaxPoolGrad")
def _max_pool_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, y, grad = inputs
    tiles = _tiles(k, x, y)
    if tiles is None or grad != y or outputs[0] != x:
        return None
    loop = compiled(loops.max_pool_gradient, x.dtype, x.nbytes)
    if loop is not None:
        height, width = (n // m for n, m in zip(x.shape[1:3], y.shape[1:3]))

        def at_once(x: Any, y: Any, grad: Any, out: Any) -> None:
            loop(contiguous(x), contiguous(y), contiguous(grad), out, height, width)

        return by_crew(Into(at_once), inputs, outputs)
    mask = Spec(y.shape, np.dtype(bool))

    def gradient(x: Any, y: Any, grad: Any, out: Any, here: Any, free: Any) -> None:
        # The first element of a window that is its maximum gets the gradient.
        free.fill(True)
        for tile in tiles:
            np.equal(x[tile], y, here)
            np.logical_and(here, free, here)
            np.multiply(grad, here, out[tile])
            np.greater(free, here, free)

    return by_crew(Into(gradient, scratch=(mask, mask)), inputs, outputs)
