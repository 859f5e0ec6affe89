"""`tf.contrib.checkpoint`: what `tf.train` has of it."""

from __future__ import annotations

from dtfctl.runtime.train.checkpoint import CheckpointManager

__all__ = ["CheckpointManager"]
