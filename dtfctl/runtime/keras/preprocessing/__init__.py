"""`tf.keras.preprocessing`: what is done to data before it is fed."""

from __future__ import annotations

from dtfctl.runtime.keras.preprocessing import image, sequence, text

__all__ = ["image", "sequence", "text"]
