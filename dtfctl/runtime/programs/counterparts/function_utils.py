"""`tensorflow.python.util.function_utils`: what a function's arguments are called."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def fn_args(fn: Any) -> tuple[str, ...]:
    """Return the names of a function's arguments, without those that are bound."""
    if isinstance(fn, functools.partial):
        rest = fn_args(fn.func)[len(fn.args) :]
        return tuple(name for name in rest if name not in (fn.keywords or {}))
    found = inspect.signature(fn).parameters.values()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def has_kwargs(fn: Any) -> bool:
    """Tell whether a function takes any keyword."""
    found = inspect.signature(fn.func if isinstance(fn, functools.partial) else fn).parameters.values()
    return any(p.kind is p.VAR_KEYWORD for p in found)


def get_func_name(func: Any) -> str:
    """Return what a function is called."""
    return str(getattr(func.func if isinstance(func, functools.partial) else func, "__name__", func))
