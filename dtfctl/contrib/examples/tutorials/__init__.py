"""`tf.examples.tutorials`."""

from __future__ import annotations

from dtfctl.contrib.examples.tutorials import mnist

__all__ = ["mnist"]
