"""Constructors whose arguments are said by a table: classes that are made of functions."""

from __future__ import annotations

import inspect
from typing import Any


def signature_of(**defaults: Any) -> inspect.Signature:
    """Make the signature of a constructor: by place in this order, each with its default."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
    return inspect.Signature([inspect.Parameter("self", kind), *own])


def bound(signature: inspect.Signature, class_name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Give each argument by its name.

    Raises:
        TypeError: there are too many, or one of a name that the constructor has not.
    """
    try:
        found = signature.bind(None, *args, **kwargs)
    except TypeError as e:
        raise TypeError(f"{class_name} {e}") from None
    found.apply_defaults()
    return {name: value for name, value in found.arguments.items() if name != "self"}
