"""`tf.io`."""

from __future__ import annotations

from dtfctl.runtime.platform import gfile
