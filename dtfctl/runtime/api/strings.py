"""`tf.strings`."""

from __future__ import annotations
