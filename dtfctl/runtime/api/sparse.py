"""`tf.sparse`."""

from __future__ import annotations

from dtfctl.runtime.framework.convert import (
    SparseTensor,
)
