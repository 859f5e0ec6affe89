"""`tf.dtypes`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.dtypes import *
from dtfctl.runtime.framework.dtypes import bool_ as bool
from dtfctl.runtime.ops.math_ops import (
    cast,
    complex,
    saturate_cast,
)
from dtfctl.runtime.ops.op_defs.string import as_string
