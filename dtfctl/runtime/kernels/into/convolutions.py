"""Convolutions and their gradients, into given arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.nn.common import Geometry, window_of
from dtfctl.runtime.kernels.nn.conv import by_onednn, convolve, filter_gradient, input_gradient, is_pointwise
from dtfctl.runtime.kernels.onednn.convolution import Convolution
from dtfctl.runtime.kernels.registry import KernelBuild

_FLOAT32 = np.dtype(np.float32)
contiguous = np.ascontiguousarray


def _images(*specs: Spec | None) -> bool:
    return all(s is not None and s.dtype == _FLOAT32 and len(s.shape) == 4 and 0 not in s.shape for s in specs)


def _geometry(k: KernelBuild, image: Spec, kernel: Spec) -> Geometry | None:
    window = window_of(k, 2)
    return None if window.channels_first else window.geometry(image.shape[1:-1], kernel.shape[:-2])


@makes("Conv2D")
def _conv2d(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, w = inputs
    if not _images(x, w) or x.shape[-1] != w.shape[-2]:
        return None
    g = _geometry(k, x, w)
    return None if g is None else Into(lambda x, w, out: convolve(contiguous(x), contiguous(w), g, out))


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
    return Into(lambda sizes, w, dy, out: input_gradient(contiguous(dy), contiguous(w), g, channels, out))


@makes("Conv2DBackpropFilter")
def _conv2d_backprop_filter(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, _, dy = inputs
    (dw,) = outputs
    if not _images(x, dy, dw) or x.shape[-1] != dw.shape[-2]:
        return None
    g = _geometry(k, x, dw)
    if g is None:
        return None
    return Into(lambda x, sizes, dy, out: filter_gradient(contiguous(x), contiguous(dy), g, dw.shape, out))


def convolution_of(k: KernelBuild, inputs: list[Any], outputs: list[Any]) -> Convolution | None:
    """oneDNN's for a node of such inputs and outputs, a convolution or a gradient of one; None if it has none."""
    if k.node.op == "Conv2D":
        x, w = inputs
    elif k.node.op == "Conv2DBackpropInput":
        x, w = outputs[0], inputs[1]
    else:
        x, w = inputs[0], outputs[0]
    if not _images(x, w, *outputs) or x.shape[-1] != w.shape[-2]:
        return None
    g = _geometry(k, x, w)
    if g is None or is_pointwise(g):
        return None
    found: Convolution | None = by_onednn(x.dtype, x.shape, w.shape, g)
    return found


def biased(convolution: Convolution) -> Into:
    """Make the call of a convolution that also adds a bias, at once."""
    return Into(lambda x, w, bias, out: convolution.biased(contiguous(x), contiguous(w), contiguous(bias), out))


def filter_and_bias_gradient(convolution: Convolution) -> Into:
    """Make one call for the gradients of a convolution's filter and of the bias added to it."""
    return Into(lambda x, dy, dw, db: convolution.filter_and_bias_gradient(contiguous(x), contiguous(dy), dw, db))
