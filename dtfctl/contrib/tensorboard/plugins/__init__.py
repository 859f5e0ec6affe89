"""`tf.contrib.tensorboard.plugins`."""

from __future__ import annotations

from dtfctl.contrib.tensorboard.plugins import projector

__all__ = ["projector"]
