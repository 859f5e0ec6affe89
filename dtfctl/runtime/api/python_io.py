"""`tf.python_io`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.records import *
