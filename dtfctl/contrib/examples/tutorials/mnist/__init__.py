"""`tf.examples.tutorials.mnist`."""

from __future__ import annotations

from dtfctl.contrib.examples.tutorials.mnist import input_data

__all__ = ["input_data"]
