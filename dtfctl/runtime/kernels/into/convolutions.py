"""Convolutions and their gradients, into given arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses, may_use_onednn, rows_and_bias
from dtfctl.runtime.kernels.into.low_precision import BFLOAT16, gains
from dtfctl.runtime.kernels.into.products import step_of_matrices
from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.native.machine import TYPES
from dtfctl.runtime.kernels.native.matrices import Matrices
from dtfctl.runtime.kernels.native.tape import Step
from dtfctl.runtime.kernels.nn.common import Geometry, window_of
from dtfctl.runtime.kernels.nn.conv import by_onednn, convolve, filter_gradient, input_gradient, is_pointwise
from dtfctl.runtime.kernels.onednn.convolution import (
    BIASED,
    FILTER_AND_BIAS_GRADIENT,
    FILTER_GRADIENT,
    FORWARD,
    INPUT_GRADIENT,
    Convolution,
    Kind,
)
from dtfctl.runtime.kernels.onednn.convolution_steps import convolution_step
from dtfctl.runtime.kernels.onednn.library import OneDnnError
from dtfctl.runtime.kernels.registry import KernelBuild

_FLOAT32 = np.dtype(np.float32)
contiguous = np.ascontiguousarray


def _images(*specs: Spec | None) -> bool:
    first = specs[0]
    if first is None or (first.dtype != _FLOAT32 and not (first.dtype == BFLOAT16 and gains())):
        return False
    return all(s is not None and s.dtype == first.dtype and len(s.shape) == 4 and 0 not in s.shape for s in specs)


def _geometry(k: KernelBuild, image: Spec, kernel: Spec) -> Geometry | None:
    """Find the geometry of a convolution of such arrays; None where it is not computed in their type as they are."""
    window = window_of(k, 2)
    if window.channels_first:
        return None
    g = window.geometry(image.shape[1:-1], kernel.shape[:-2])
    if image.dtype == BFLOAT16 and by_onednn(image.dtype, image.shape, kernel.shape, g) is None:
        return None
    return g


@makes("Conv2D")
def _conv2d(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, w = inputs
    if not _images(x, w) or x.shape[-1] != w.shape[-2]:
        return None
    g = _geometry(k, x, w)
    if g is None:
        return None
    step = _step_of(k, g, FORWARD, inputs, outputs, (0, 1, 2))
    return Into(lambda x, w, out: convolve(contiguous(x), contiguous(w), g, out), step=step)


@makes("Conv2DBackpropInput")
def _conv2d_backprop_input(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    w, dy = inputs[1:]
    (dx,) = outputs
    if not _images(w, dy, dx) or dx.shape[-1] != w.shape[-2]:
        return None
    g = _geometry(k, dx, w)
    if g is None:
        return None
    channels = dx.shape[-1]
    step = _step_of(k, g, INPUT_GRADIENT, inputs, outputs, (2, 1, 3))
    return Into(lambda sizes, w, dy, out: input_gradient(contiguous(dy), contiguous(w), g, channels, out), step=step)


@makes("Conv2DBackpropFilter")
def _conv2d_backprop_filter(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, _, dy = inputs
    (dw,) = outputs
    if not _images(x, dy, dw) or x.shape[-1] != dw.shape[-2]:
        return None
    g = _geometry(k, x, dw)
    if g is None:
        return None
    step = _step_of(k, g, FILTER_GRADIENT, inputs, outputs, (0, 2, 3))
    return Into(lambda x, sizes, dy, out: filter_gradient(contiguous(x), contiguous(dy), g, dw.shape, out), step=step)


def _step_of(
    k: KernelBuild, g: Geometry, kind: Kind, inputs: list[Any], outputs: list[Spec], places: tuple[int, int, int]
) -> Callable[[], Step | None] | None:
    """Make what makes a convolution, or a gradient of one, a step of a tape: also where it is a product."""
    arrays = [*inputs, *outputs]
    if not is_pointwise(g) or arrays[-1].dtype != _FLOAT32:
        return _step(_convolution_of(k, inputs, outputs), kind, arrays, places)
    if any(spec is None or spec.dtype.str[1:] not in TYPES for spec in arrays):
        return None
    first = arrays[places[0]]
    ta, tb = kind is FILTER_GRADIENT, kind is INPUT_GRADIENT
    rows, inner = prod(first.shape[:-1]), first.shape[-1]
    sizes = (inner if ta else rows, rows if ta else inner, outputs[0].shape[-1])
    return step_of_matrices(Matrices(sizes, ta, tb, arrays, places[:2]), False)


def _step(
    convolution: Convolution | None, kind: Kind, arrays: Sequence[Spec | None], places: Sequence[int]
) -> Callable[[], Step | None] | None:
    """Make what makes a pass a step of a tape; see `convolution_step`."""
    if convolution is None or convolution.is_bfloat16 or convolution.library.is_forked:
        return None

    def make() -> Step | None:
        try:
            return convolution_step(convolution, kind, arrays, places)
        except (OneDnnError, OSError):
            return None

    return make


@may_use_onednn("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
def _is_onednns(k: KernelBuild, inputs: list[Any], outputs: list[Any]) -> bool:
    return _convolution_of(k, inputs, outputs) is not None


def _convolution_of(k: KernelBuild, inputs: list[Any], outputs: list[Any]) -> Convolution | None:
    """Make oneDNN's for a node of such inputs and outputs, a convolution or a gradient of one; None if it has none."""
    if k.node.op == "Conv2D":
        x, w = inputs
    elif k.node.op == "Conv2DBackpropInput":
        x, w = outputs[0], inputs[1]
    else:
        x, w = inputs[0], outputs[0]
    if not _images(x, w, *outputs) or x.shape[-1] != w.shape[-2]:
        return None
    g = _geometry(k, x, w)
    if g is None:
        return None
    found: Convolution | None = by_onednn(x.dtype, x.shape, w.shape, g)
    return found


def _convolution(node: Node, around: Around) -> Convolution | None:
    inputs = [around.spec(around.root(e)) for e in node.inputs]
    return _convolution_of(around.build(node), inputs, [around.spec((node, 0))])


@fuses("BiasAdd", "Add", "AddV2")
def _convolve_with_bias(node: Node, around: Around) -> Iterator[Fusion]:
    """Let a convolution add the bias that is all its result is for."""
    for edge, bias, _ in rows_and_bias(node, around):
        made, spec = around.only_made_by(edge, "Conv2D"), around.spec((node, 0))
        convolution = None if made is None else _convolution(made, around)
        if made is None or spec is None or convolution is None:
            continue
        operands = [*(around.root(e) for e in made.inputs), bias]
        step = _step(convolution, BIASED, [*map(around.spec, operands), spec], (0, 1, 2, 3))
        yield [Line(node, _biased(convolution, step), operands, [((node, 0), spec)], (made,))]


def _biased(convolution: Convolution, step: Callable[[], Step | None] | None) -> Into:
    def call(x: Any, w: Any, bias: Any, out: Any) -> None:
        convolution.biased(contiguous(x), contiguous(w), contiguous(bias), out)

    return Into(call, step=step)


@fuses("Conv2DBackpropFilter")
def _sum_up_bias(node: Node, around: Around) -> Iterator[Fusion]:
    """Let the gradient of a convolution's filter sum up that of its bias, which is of the same gradient."""
    image, _, gradient = (around.root(e) for e in node.inputs)
    convolution, made = _convolution(node, around), around.spec((node, 0))
    if convolution is None or made is None:
        return
    for other in around.taken_by(gradient):
        total = around.spec((other, 0))
        if other.op == "BiasAddGrad" and total is not None and other.text_attr("data_format", "NHWC") == "NHWC":
            outputs = [((node, 0), made), ((other, 0), total)]
            specs = [around.spec(image), around.spec(gradient), made, total]
            step = _step(convolution, FILTER_AND_BIAS_GRADIENT, specs, (0, 1, 2, 3))
            into = _filter_and_bias_gradient(convolution, step)
            yield [Line(node, into, [image, gradient], outputs, (other,))]


def _filter_and_bias_gradient(convolution: Convolution, step: Callable[[], Step | None] | None) -> Into:
    def call(x: Any, dy: Any, dw: Any, db: Any) -> None:
        convolution.filter_and_bias_gradient(contiguous(x), contiguous(dy), dw, db)

    return Into(call, step=step)
