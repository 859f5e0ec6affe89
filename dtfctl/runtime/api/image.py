"""`tf.image`."""

from __future__ import annotations
