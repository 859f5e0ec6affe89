"""Strings among the arguments of kernels."""

from __future__ import annotations

from typing import Any


def texts_of(value: Any) -> list[str]:
    """Decode every string of an array, in order."""
    return [item.decode() for item in value.reshape(-1).tolist()]


def text_of(value: Any, errors: str = "strict") -> str:
    """Decode the string of an array of one; `errors` as of bytes.decode."""
    text: bytes = value.reshape(-1)[0]
    return text.decode(errors=errors)
