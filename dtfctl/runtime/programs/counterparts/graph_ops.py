"""`tensorflow.python.framework.ops`: what is not a public name of it."""

from __future__ import annotations

from dtfctl.runtime.eager.enable import executing_eagerly as executing_eagerly_outside_functions
from dtfctl.runtime.framework.context import get_default_graph

__all__ = ["executing_eagerly_outside_functions", "inside_function"]


def inside_function() -> bool:
    """Tell whether ops made here go into a function's body."""
    return bool(get_default_graph().building_function)
