"""`tf.experimental`."""

from __future__ import annotations

from dtfctl.runtime.data.optional import Optional

__all__ = ["Optional"]
