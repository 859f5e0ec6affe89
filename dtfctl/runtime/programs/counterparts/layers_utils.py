"""`tensorflow.python.layers.utils`: what layers share."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value as _constant_value
from dtfctl.runtime.ops.cond import smart_cond as smart_cond


def constant_value(pred: Any) -> bool | None:
    """Return what is known of a predicate while the graph is built, or None."""
    if isinstance(pred, (bool, int)):
        return bool(pred)
    value = _constant_value(pred)
    return None if value is None else bool(value)
