"""`tensorflow.python.tf2`: whether programs behave as in TensorFlow 2."""

from __future__ import annotations


def enabled() -> bool:
    """Return False: programs here are TensorFlow 1's."""
    return False
