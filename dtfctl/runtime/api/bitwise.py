"""`tf.bitwise`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.bitwise import *
