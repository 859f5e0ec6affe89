"""`tensorflow.python.util.tf_decorator`: decorated functions that say what they decorate."""

from __future__ import annotations

import functools
from typing import Any


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Any:
    """Let `decorator_func` look like `target`, and lead back to it."""
    made = functools.update_wrapper(decorator_func, target) if callable(target) else decorator_func
    if decorator_doc:
        made.__doc__ = decorator_doc
    made.__wrapped__ = target
    return made


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Any], Any]:
    """Return what decorates a function, outermost first, and the function itself."""
    decorators = []
    found = maybe_tf_decorator
    while hasattr(found, "__wrapped__"):
        decorators.append(found)
        found = found.__wrapped__
    return decorators, found
