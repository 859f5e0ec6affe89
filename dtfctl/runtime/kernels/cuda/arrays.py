"""What GPU kernels share: arranging arrays for CUDA sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.kernels.registry import NUMBERS

# Types the arithmetic of CUDA sources is compiled for; nodes of other types run on the CPU.
CUDA_FLOATS = (dtypes.float32, dtypes.float64)
CUDA_NUMBERS = (*CUDA_FLOATS, dtypes.int32, dtypes.int64)
# Types whose elements CUDA sources only move.
MOVABLE = (*NUMBERS, dtypes.bool_)


def contiguous(xp: Any, x: Any) -> Any:
    return xp.ascontiguousarray(x)


def sorted_rows(xp: Any, indices: Any) -> tuple[Any, Any]:
    """(order as int64, indices in that order): equal indices stand together, in the order they had."""
    flat = indices.reshape(-1)
    order = xp.argsort(flat, kind="stable").astype(np.int64)
    return order, contiguous(xp, flat[order])
