"""Replicas that make the same variables: the first makes them, and the others get them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def shared_creator(shared: dict[str, list[Any]], index: int) -> Callable[..., Any]:
    """Return the creator of variables of a replica.

    Args:
        shared: what the first replica has made, by name; that of each other replica takes from a list of its own.
    """
    taken: dict[str, int] = {}

    def make(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        variable = next_creator(**arguments)
        shared.setdefault(_canonical(arguments.get("name")), []).append(variable)
        return variable

    def take(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        name = _canonical(arguments.get("name"))
        position = taken.get(name, 0)
        if position >= len(shared.get(name, ())):
            raise RuntimeError(
                f"Tried to create variable {name} with mismatching name on device {index}: the first replica has made "
                f"{position} of that name"
            )
        taken[name] = position + 1
        return shared[name][position]

    return take if index else make


def _canonical(name: str | None) -> str:
    """Take from a name the numbers that make it unique."""
    if name is None:
        return "Variable"
    return re.sub(r"_\d+$", "", re.sub(r"_\d+/", "/", name))
