"""The convolutions made so far, by geometry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from dtfctl.runtime.kernels.onednn.convolution import Convolution
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import OneDnnError

# Multiplications below which making up a call costs more than it saves.
_LEAST_WORK = 1 << 18
_FLOAT32, _BFLOAT16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)

Sizes = tuple[int, ...]


def convolution_for(
    dtype: np.dtype[Any],
    x: Sizes,
    w: Sizes,
    output: Sizes,
    strides: Sizes,
    dilations: Sizes,
    pads: Sequence[tuple[int, int]],
) -> Convolution | None:
    """Find oneDNN's convolution of channels-last images of shape `x` with filters `w`; None: it has, or gains, nothing.

    Args:
        dtype: float32, or bfloat16 where the CPU has instructions for it.
        w: (*kernel, channels / groups, filters); more than one group is not dealt with.
    """
    if dtype not in (_FLOAT32, _BFLOAT16) or len(output) != 2 or x[-1] != w[-2] or 0 in x or 0 in w or 0 in output:
        return None
    if x[0] * prod(output) * prod(w) < _LEAST_WORK or any(before < 0 or after < 0 for before, after in pads):
        return None
    if find_library() is None:  # which may change: it is not kept
        return None
    return _made(x, w, output, strides, dilations, tuple(pads), dtype == _BFLOAT16)


@lru_cache(128)
def _made(
    x: Sizes,
    w: Sizes,
    output: Sizes,
    strides: Sizes,
    dilations: Sizes,
    pads: tuple[tuple[int, int], ...],
    is_bfloat16: bool,
) -> Convolution | None:
    library = find_library()
    if library is None:
        return None
    try:
        return Convolution(library, x, w, output, strides, dilations, pads, is_bfloat16)
    except OneDnnError:
        # No implementation for this geometry.
        return None
