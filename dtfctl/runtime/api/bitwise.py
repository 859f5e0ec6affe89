"""`tf.bitwise`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.bitwise import *
