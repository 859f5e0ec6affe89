"""Arguments given once for many calls: `with arg_scope([conv2d], padding="SAME"):`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Scope = dict[Any, dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])

_CURRENT: ContextVar[Scope | None] = ContextVar("arg_scope", default=None)


def _key(function: Any) -> Any:
    """Return what stands for a function in scopes: itself as it was before it was decorated."""
    return getattr(function, "_arg_scope_key", function)


def current_arg_scope() -> Scope:
    """Return the arguments in force, by function."""
    return _CURRENT.get() or {}


def has_arg_scope(function: Any) -> bool:
    """Tell whether a function takes arguments from scopes."""
    return hasattr(function, "_arg_scope_key")


def add_arg_scope(function: F) -> F:
    """Let a function take the arguments that its caller leaves out from the scopes around the call."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = current_arg_scope().get(function)
        return function(*args, **{**given, **kwargs}) if given else function(*args, **kwargs)

    called._arg_scope_key = function  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def arg_scoped_arguments(function: Any) -> tuple[str, ...]:
    """Return the names of the arguments that scopes may give: those with a default."""
    count = len(_key(function).__defaults__ or ())
    code = _key(function).__code__
    return tuple(code.co_varnames[code.co_argcount - count : code.co_argcount])


@contextmanager
def arg_scope(list_ops_or_scope: Sequence[Any] | Mapping[Any, Any], **kwargs: Any) -> Iterator[Scope]:
    """Give these arguments to calls of these functions within the block, or take a scope up again.

    Args:
        list_ops_or_scope: functions made with `add_arg_scope`; or what another `arg_scope` gave, without arguments.

    Raises:
        TypeError: it is neither.
        ValueError: a scope is taken up with arguments, or a function does not take any from scopes.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        scope = {k: dict(v) for k, v in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = {k: dict(v) for k, v in current_arg_scope().items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                name = getattr(function, "__name__", function)
                raise ValueError(f"{name} is not decorated with @add_arg_scope")
            scope[_key(function)] = {**scope.get(_key(function), {}), **kwargs}
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    token = _CURRENT.set(scope)
    try:
        yield scope
    finally:
        _CURRENT.reset(token)
