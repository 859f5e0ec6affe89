"""`tf.queue`."""

from __future__ import annotations
