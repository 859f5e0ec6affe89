"""Operands as tensors of one type."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor


def typed_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands, the first as a tensor: the one that has a type gives it to the other."""
    if isinstance(x, Tensor) or not _has_dtype(y):
        return convert_to_tensor(x, name="x"), y
    y = convert_to_tensor(y, name="y")
    return convert_to_tensor(x, y.dtype.base_dtype, name="x"), y


def _has_dtype(value: Any) -> bool:
    return isinstance(value, Tensor) or (hasattr(value, "dtype") and not isinstance(value, (np.ndarray, np.generic)))
