"""`tf.contrib.learn.datasets`: MNIST, read from files."""

from __future__ import annotations

from dtfctl.contrib.examples.tutorials.mnist import input_data as mnist

__all__ = ["mnist"]
