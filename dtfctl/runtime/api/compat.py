"""`tf.compat`: `v1`, which is the front end itself, and text as bytes or str."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dtfctl.runtime.api._shared.shapes import *

v1: ModuleType
"""Set by `dtfctl.runtime`, which it is."""

bytes_or_text_types = (bytes, str)
integral_types = (int, np.integer)
real_types = (int, float, np.integer, np.floating)
complex_types = (int, float, complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Text as bytes.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Turn bytes into text.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Turn bytes into text, anything else by `str`."""
    return as_str(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Turn a path object into text, and leave anything else as it is."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def dimension_value(dimension: Any) -> Any:
    """Return a Dimension's number, or the number itself."""
    return getattr(dimension, "value", dimension)


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Tell whether graphs may use what came into TensorFlow before this day: always."""
    return True
