"""`tensorflow.python.util.deprecation`: decorators that leave functions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def deprecated(date: Any, instructions: str, warn_once: bool = True) -> Callable[[F], F]:
    """Return a decorator that leaves a function as it is."""
    return lambda function: function


def deprecated_args(
    date: Any, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[[F], F]:
    """Return a decorator that leaves a function as it is."""
    return lambda function: function


def deprecated_arg_values(date: Any, instructions: str, warn_once: bool = True, **kwargs: Any) -> Callable[[F], F]:
    """Return a decorator that leaves a function as it is."""
    return lambda function: function


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """Return which of an argument's two names was given.

    Raises:
        ValueError: both were.
    """
    if old_value is not None and new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return new_value if old_value is None else old_value
