"""Max pooling with windows that lie side by side, into given arrays: tap by tap, no padding, nothing made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.compiled.jit import compiled, loops
from dtfctl.runtime.kernels.compiled.steps import loop_step
from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, Output, fuses
from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.nn.pooling import pool_window
from dtfctl.runtime.kernels.registry import KernelBuild

contiguous = np.ascontiguousarray
# Bytes of the input above which loops are compiled: numpy's strided passes are several times slower.
_LEAST_BYTES = 1 << 20


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


@makes("MaxPool", widened=True)
def _max_pool(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    tiles = _tiles(k, inputs[0], outputs[0])
    if tiles is None:
        return None
    # Minus infinity becomes the least number, as in TensorFlow.
    least = np.finfo(inputs[0].dtype).min
    at_once = _pooling(inputs[0], outputs[0], least)
    if at_once is not None:
        return at_once
    first, *others = tiles

    def pool(x: Any, out: Any) -> None:
        np.maximum(x[first], least, out=out)
        for tile in others:
            np.maximum(out, x[tile], out=out)

    return Into(pool, by_rows=True)


def _pooling(x: Spec, y: Spec, least: Any) -> Into | None:
    """Make a call that takes the largest of each window if above `least`, in one compiled pass; None without a loop."""
    loop = compiled(loops.max_pool, x.dtype, x.nbytes, _LEAST_BYTES)
    if loop is None:
        return None
    height, width = _window(x, y)

    def at_once(x: Any, out: Any) -> None:
        loop(contiguous(x), out, height, width, least)

    return Into(at_once, by_rows=True, step=loop_step(loops.max_pool, [x, y], [height, width, least], 1))


def _pooling_gradient(loop: Callable[..., None], x: Spec, y: Spec) -> Into | None:
    call = compiled(loop, x.dtype, x.nbytes, _LEAST_BYTES)
    if call is None:
        return None
    height, width = _window(x, y)

    def at_once(x: Any, y: Any, grad: Any, out: Any) -> None:
        call(contiguous(x), contiguous(y), contiguous(grad), out, height, width, np.ones(y.shape[3], np.bool_))

    free = Spec(y.shape[3:], np.dtype(np.bool_))
    return Into(at_once, by_rows=True, step=loop_step(loop, [x, y, y, x], [height, width, free], 1))


@makes("MaxPoolGrad", widened=True)
def _max_pool_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, y, grad = inputs
    tiles = _tiles(k, x, y)
    if tiles is None or grad != y or outputs[0] != x:
        return None
    at_once = _pooling_gradient(loops.max_pool_gradient, x, y)
    if at_once is not None:
        return at_once
    mask = Spec(y.shape, np.dtype(bool))

    def gradient(x: Any, y: Any, grad: Any, out: Any, here: Any, free: Any) -> None:
        # The first element of a window that is its maximum gets the gradient.
        free.fill(True)
        for tile in tiles:
            np.equal(x[tile], y, here)
            np.logical_and(here, free, here)
            np.multiply(grad, here, out[tile])
            np.greater(free, here, free)

    return Into(gradient, scratch=(mask, mask), by_rows=True)


@dataclass(frozen=True)
class _Rectified:
    """Pooling of what is above zero, without the rectified image.

    Attributes:
        chosen: what is known of the array that tells which of each window was the largest.
        pool: of the image: gives the pooled, and `chosen`.
        gradient: of the gradient by the pooled and `chosen`: gives that by the image.
        total: of the same: gives the sums of that by channel.
    """

    chosen: Spec
    pool: Into
    gradient: Into
    total: Into


def _rectified_max_pool(pool: KernelBuild, x: Spec | None, y: Spec | None) -> _Rectified | None:
    """Make the forms for an image and its pooled; None where they are not better than node after node."""
    if x is None or y is None or _tiles(pool, x, y) is None:
        return None
    height, width = _window(x, y)
    forms = (loops.rectified_max_pool, loops.chosen_gradient, loops.chosen_sum)
    made = [compiled(loop, x.dtype, x.nbytes, _LEAST_BYTES) for loop in forms]
    if None in made or height * width > loops.NOT_CHOSEN:
        return None
    rectify, spread, add_up = made

    def forward(x: Any, out: Any, chosen: Any) -> None:
        rectify(contiguous(x), out, chosen, height, width)  # type: ignore[misc]

    def backward(grad: Any, chosen: Any, out: Any) -> None:
        spread(contiguous(grad), chosen, out, height, width)  # type: ignore[misc]

    def total(grad: Any, chosen: Any, out: Any) -> None:
        add_up(contiguous(grad), chosen, out, np.empty_like(out))  # type: ignore[misc]

    chosen, channels = Spec(y.shape, np.dtype(np.uint8)), Spec(y.shape[3:], y.dtype)
    window = [height, width]
    return _Rectified(
        chosen,
        Into(forward, by_rows=True, step=loop_step(loops.rectified_max_pool, [x, y, chosen], window, 2)),
        Into(backward, by_rows=True, step=loop_step(loops.chosen_gradient, [y, chosen, x], window, 1)),
        Into(total, step=loop_step(loops.chosen_sum, [y, chosen, channels], [channels], 1, is_by_rows=False)),
    )


def _window(x: Spec, y: Spec) -> tuple[int, ...]:
    return tuple(n // m for n, m in zip(x.shape[1:3], y.shape[1:3]))


@fuses("MaxPool")
def _pool_rectified(node: Node, around: Around) -> Iterator[Fusion]:
    """Let a pooling, and the gradient of both, do without the rectified image, which is then never made."""
    image, pooled = around.root(node.inputs[0]), around.spec((node, 0))
    relu, made = image[0], around.spec(image)
    if relu.op != "Relu" or made is None or pooled is None:
        return
    form = _rectified_max_pool(around.build(node), made, pooled)
    if form is None:
        return
    chosen = (node, len(node.output_types))
    outputs = [((node, 0), pooled), (chosen, form.chosen)]
    lines = [Line(node, form.pool, [around.root(relu.inputs[0])], outputs, (relu,))]
    for gradient in around.taken_by(image):
        pooling = _pooling_of_gradient(gradient, node, image, around)
        if pooling is None:
            continue
        operands = [around.root(pooling.inputs[2]), chosen]
        lines.append(Line(gradient, form.gradient, operands, [((gradient, 0), made)], (pooling,)))
        for other in around.taken_by((gradient, 0)):
            total = around.spec((other, 0))
            if other.op == "BiasAddGrad" and total is not None and other.text_attr("data_format", "NHWC") == "NHWC":
                lines.append(Line(other, form.total, operands, [((other, 0), total)]))
    yield lines


def _pooling_of_gradient(node: Node, pool: Node, image: Output, around: Around) -> Node | None:
    """Find the gradient of `pool`, of `image`, that the node takes and nobody else, and gives what is rectified of."""
    if node.op != "ReluGrad" or around.root(node.inputs[1]) != image:
        return None
    pooling = around.only_made_by(node.inputs[0], "MaxPoolGrad")
    if pooling is None or [around.root(e) for e in pooling.inputs[:2]] != [image, (pool, 0)]:
        return None
    if any(pooling.attr(name) != pool.attr(name) for name in ("ksize", "strides", "padding", "data_format")):
        return None
    is_whole = around.spec(around.root(pooling.inputs[2])) == around.spec((pool, 0))
    return pooling if is_whole and around.spec((node, 0)) == around.spec(image) else None
