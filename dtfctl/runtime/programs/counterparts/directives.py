"""`tensorflow.python.autograph.lang.directives`: hints to a translator of Python's loops, which is not here."""

from __future__ import annotations

from typing import Any


def set_loop_options(
    parallel_iterations: Any = None, swap_memory: Any = None, maximum_iterations: Any = None, shape_invariants: Any = ()
) -> None:
    """Do nothing: a Python loop is run by Python, step by step."""


def set_element_type(entity: Any, dtype: Any, shape: Any = None) -> None:
    """Do nothing: a Python list's elements have their own types."""
