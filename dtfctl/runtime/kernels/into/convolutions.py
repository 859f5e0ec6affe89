"""Convolutions and their gradients, into given arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.nn.common import window_of
from dtfctl.runtime.kernels.nn.conv import convolve, filter_gradient, input_gradient
from dtfctl.runtime.kernels.registry import KernelBuild

_FLOAT32 = np.dtype(np.float32)
contiguous = np.ascontiguousarray


def _images(*specs: Spec | None) -> bool:
    return all(s is not None and s.dtype == _FLOAT32 and len(s.shape) == 4 and 0 not in s.shape for s in specs)


@makes("Conv2D")
def _conv2d(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, w = inputs
    if not _images(x, w) or x.shape[-1] != w.shape[-2]:
        return None
    window = window_of(k, 2)
    if window.channels_first:
        return None
    g = window.geometry(x.shape[1:-1], w.shape[:-2])
    return Into(lambda x, w, out: convolve(contiguous(x), contiguous(w), g, out))


@makes("Conv2DBackpropInput")
def _conv2d_backprop_input(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    w, dy = inputs[1:]
    (dx,) = outputs
    if not _images(w, dy, dx) or dx.shape[-1] != w.shape[-2]:
        return None
    window = window_of(k, 2)
    if window.channels_first:
        return None
    g = window.geometry(dx.shape[1:-1], w.shape[:-2])
    channels = dx.shape[-1]
    return Into(lambda sizes, w, dy, out: input_gradient(contiguous(dy), contiguous(w), g, channels, out))


@makes("Conv2DBackpropFilter")
def _conv2d_backprop_filter(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x, _, dy = inputs
    (dw,) = outputs
    if not _images(x, dy, dw) or x.shape[-1] != dw.shape[-2]:
        return None
    window = window_of(k, 2)
    if window.channels_first:
        return None
    g = window.geometry(x.shape[1:-1], dw.shape[:-2])
    return Into(lambda x, sizes, dy, out: filter_gradient(contiguous(x), contiguous(dy), g, dw.shape, out))
