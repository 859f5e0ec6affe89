"""What layers hold: variables and other layers, found as attributes are set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dtfctl.runtime.keras import state
from dtfctl.runtime.ops.variables import Variable

_OWN = {
    *("_trackables", "_trainable_weights", "_non_trainable_weights", "_metrics", "_inbound_nodes", "_outbound_nodes"),
    *("_updates", "_added_losses", "_initial_weights", "_compiled"),
}
"""Attributes whose variables and layers are no part of what has them: what a model is compiled with is none, either."""


class StateHolder:
    """Base of layers: keeps in order what variables, layers and other state its attributes are, or have inside."""

    _trackables: dict[str, Any]
    _trainable_weights: list[Any]
    _non_trainable_weights: list[Any]
    # Whether attributes may be layers or lists before the constructor is called: layers' are taken up by it.
    _takes_up_attributes = True

    def __setattr__(self, name: str, value: Any) -> None:
        tracked = self.__dict__.get("_trackables")
        if tracked is not None and name not in _OWN:
            if _holds_state(value):
                tracked[name] = value
                for v in _variables_in(value):
                    own, fixed = self._trainable_weights, self._non_trainable_weights
                    if all(v is not o for o in (*own, *fixed)):
                        (own if v.trainable else fixed).append(v)
                        state.track_variable(v)
            else:
                tracked.pop(name, None)
        elif tracked is None and name not in _OWN and not self._takes_up_attributes and _holds_state(value):
            raise RuntimeError(
                f"It looks like you are setting `{name}` of a {type(self).__name__} before calling "
                "`super().__init__()`: call it first."
            )
        object.__setattr__(self, name, value)

    def _take_up_attributes(self) -> None:
        """Keep what was set before there was a place to keep it."""
        for name, value in list(self.__dict__.items()):
            if name not in _OWN:
                setattr(self, name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__.get("_trackables", {}).pop(name, None)
        object.__delattr__(self, name)

    def _trackable_children(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it, by name."""
        return dict(self._trackables)

    def _sublayers(self) -> list[Any]:
        """Return the layers that are attributes of it, or in lists and dictionaries that are."""
        found: dict[int, Any] = {}
        for value in self._trackables.values():
            for layer in _layers_in(value):
                found.setdefault(id(layer), layer)
        return list(found.values())

    def _all_layers(self) -> Iterator[Any]:
        yield self
        for layer in self._sublayers():
            yield from layer._all_layers()


def distinct(values: list[Any]) -> list[Any]:
    return list({id(v): v for v in values}.values())


def _holds_state(value: Any) -> bool:
    if isinstance(value, (StateHolder, Variable)) or hasattr(value, "_trackable_children"):
        return True
    if isinstance(value, dict):
        return any(_holds_state(v) for v in value.values()) or not value
    # An empty list may be filled later.
    return isinstance(value, (list, tuple)) and (not value or any(_holds_state(v) for v in value))


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for v in value.values():
            yield from _members(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _members(v)
    else:
        yield value


def _layers_in(value: Any) -> Iterator[StateHolder]:
    return (v for v in _members(value) if isinstance(v, StateHolder))


def _variables_in(value: Any) -> Iterator[Any]:
    return (v for v in _members(value) if isinstance(v, Variable))
