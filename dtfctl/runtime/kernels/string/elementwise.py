"""Applying a Python function to every element of a string tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.pieces import array_of, each


def map_strings(function: Callable[[bytes], bytes], values: Any) -> Any:
    """Apply a function to each string; the result is a string tensor of the same shape."""
    return object_array([function(v) for v in each(values)], values.shape)


def map_to(function: Callable[[bytes], Any], values: Any, dtype: Any) -> Any:
    """Apply a function to each string; the result is a tensor of another type of the same shape."""
    return array_of([function(v) for v in each(values)], dtype, values.shape)


def only(value: Any) -> Any:
    """Unpack the item of a one-element tensor."""
    return value.reshape(-1)[0]
