"""`tensorflow.python.util.tf_contextlib`."""

from __future__ import annotations

from contextlib import contextmanager

__all__ = ["contextmanager"]
