"""What layers need that is itself made of layers: the module that has it provides it, layers ask for it by its role.

`keras/__init__` imports every module, so all of it is there before a layer can be made.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


class Role(Enum):
    MEAN_METRIC = auto()
    """Makes the metric that is the mean of a tensor, by its `name`."""
    HISTORY = auto()
    """Makes layers of the ops between these tensors and outputs of layers; False where there are none."""
    LAYER = auto()
    """Makes the layer of a description, with the program's own classes by name."""


_provided: dict[Role, Callable[..., Any]] = {}


def provides(role: Role) -> Callable[[_F], _F]:
    """Let what is decorated be what layers get for a role."""

    def enter(made: _F) -> _F:
        _provided[role] = made
        return made

    return enter


def provided(role: Role) -> Callable[..., Any]:
    """Return what some module provides for a role."""
    return _provided[role]
