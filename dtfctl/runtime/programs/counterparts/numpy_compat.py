"""`tensorflow.python.util.numpy_compat`: arrays whose numbers are cast as they are, beyond a type's limits too."""

from __future__ import annotations

from typing import Any

import numpy as np


def np_array(values: Any, dtype: Any = None, copy: bool = True, order: Any = "K") -> Any:
    """Return a new array of values, cast to a type."""
    if dtype is not None and np.issubdtype(dtype, np.number):
        return np.array(values, copy=copy, order=order).astype(dtype)
    return np.array(values, dtype=dtype, copy=copy, order=order)


def np_asarray(values: Any, dtype: Any = None, order: Any = None, copy: Any = None) -> Any:
    """Return values as an array, cast to a type; the same one where nothing has to change."""
    if dtype is not None and np.issubdtype(dtype, np.number):
        return np.asarray(values, order=order).astype(dtype, copy=bool(copy))
    return np.array(values, dtype=dtype, order=order) if copy else np.asarray(values, dtype=dtype, order=order)


def np_where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return the places where a condition holds, or of two arrays' elements those it chooses."""
    if x is None and y is None:
        return np.where(np.atleast_1d(condition))
    return np.where(condition, x, y)
