"""`tf.data.experimental`: the names TF1 programs take from it."""

from __future__ import annotations

AUTOTUNE = -1
"""As a number of parallel calls or a buffer's size: let the runtime choose."""

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2
