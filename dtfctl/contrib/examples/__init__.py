"""`tf.examples`: the loader of TensorFlow 1's tutorials."""

from __future__ import annotations

from dtfctl.contrib.examples import tutorials

__all__ = ["tutorials"]
