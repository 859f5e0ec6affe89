"""`tf.sets`."""

from __future__ import annotations
