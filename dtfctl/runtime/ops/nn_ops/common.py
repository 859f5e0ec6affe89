"""What the functions of `tf.nn` share: calls with mixed arguments, and arguments of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def reduce_over(op: str, x: Any, axes: Any, keep_dims: bool = False, name: str | None = None) -> Tensor:
    """Apply a reduction op over `axes`."""
    index = axes if isinstance(axes, Tensor) else np.asarray(list(axes) if isinstance(axes, range) else axes, np.int32)
    return apply_op(op, input=x, reduction_indices=index, keep_dims=keep_dims, name=name)


def shape_of(x: Tensor) -> Tensor:
    """Apply a Shape op."""
    return apply_op("Shape", input=x)


def window(value: Any, count: int, data_format: str, name: str) -> list[int]:
    """Make the per-dimension attribute of a window from one number, one a spatial dimension, or all."""
    values = [1] if value is None else [int(v) for v in np.ravel(value)]
    first = data_format.startswith("NC")
    if len(values) == count + 2:
        return values
    if len(values) == 1:
        values = values * count
    if len(values) != count:
        raise ValueError(f"{name} should be of length 1, {count} or {count + 2}. Received: {value}")
    return [1, 1, *values] if first else [1, *values, 1]


def padding_attrs(padding: Any) -> dict[str, Any]:
    """Make the padding attributes of a window op: a scheme, or explicit sizes."""
    if isinstance(padding, (list, tuple)):
        return {"padding": "EXPLICIT", "explicit_paddings": [int(p) for pair in padding for p in pair]}
    return {"padding": padding}
