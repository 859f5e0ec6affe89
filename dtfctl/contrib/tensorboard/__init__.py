"""`tf.contrib.tensorboard`: what TensorBoard's plugins are told."""

from __future__ import annotations

from dtfctl.contrib.tensorboard import plugins

__all__ = ["plugins"]
