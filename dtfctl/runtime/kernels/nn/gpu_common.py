"""How the CUDA sources of nn kernels take images and windows."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.kernels.cuda.arrays import contiguous
from dtfctl.runtime.kernels.nn.common import Geometry, Window


def channels_last(xp: Any, x: Any, window: Window) -> Any:
    return contiguous(xp, xp.moveaxis(x, 1, -1) if window.channels_first else x)


def from_channels_last(xp: Any, x: Any, window: Window) -> Any:
    return contiguous(xp, xp.moveaxis(x, -1, 1)) if window.channels_first else x


def plane_arguments(shape: tuple[int, ...], g: Geometry, multiplier: int | None = None) -> tuple[int, ...]:
    """n, h, w, c, [m], oh, ow, kh, kw, sh, sw as the sources take them."""
    extra = () if multiplier is None else (multiplier,)
    return (*shape, *extra, *g.output, *g.kernel, *g.strides)


def offsets(g: Geometry) -> tuple[int, int]:
    return g.pads[0][0], g.pads[1][0]
