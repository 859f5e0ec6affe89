"""`tf.math.special`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.special import *
