"""`tf.contrib.training`: hyperparameters."""

from __future__ import annotations

import json
from typing import Any


class HParams:
    """Named values, given when it is made, that keep their types.

    `parse("rate=0.1,units=[3,4]")` and `override_from_dict` change them.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **values: Any) -> None:
        self._types: dict[str, tuple[type, bool]] = {}
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add one more.

        Raises:
            ValueError: the name is taken, or a list is empty.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change one.

        Raises:
            ValueError: it is of another type, a list where one value was, or the other way round.
        """
        kind, is_list = self._types[name]
        if is_list != isinstance(value, (list, tuple)):
            raise ValueError(f"Must {'pass a list' if is_list else 'not pass a list'} for parameter: {name}.")
        setattr(self, name, [_cast(name, kind, v) for v in value] if is_list else _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Forget one."""
        if name in self._types:
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Change what a text like "a=1,b=[2,3],c=text" names.

        Raises:
            ValueError: it names an unknown one, or is malformed.
        """
        for name, text in _assignments(values):
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            kind, is_list = self._types[name]
            items = [_parsed(name, kind, item.strip()) for item in (text[1:-1].split(",") if is_list else [text])]
            self.set_hparam(name, items if is_list else items[0])
        return self

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Change these."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Change what a JSON object names."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Return all of them by name."""
        return {name: getattr(self, name) for name in self._types}

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Return all of them as a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return one of them, or `default`."""
        return getattr(self, key) if key in self._types else default

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"

    __str__ = __repr__


def _cast(name: str, kind: type, value: Any) -> Any:
    if value is None or kind is type(None):
        return value
    if isinstance(value, str) != (kind is str) or (isinstance(value, bool) != (kind is bool)):
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}")
    if kind is int and value != int(value):
        raise ValueError(f"Must pass an integer for hparam '{name}', not {value!r}")
    return kind(value)


def _parsed(name: str, kind: type, text: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return text if kind in (str, type(None)) else kind(text)
    except (KeyError, ValueError):
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}'") from None


def _assignments(text: str) -> list[tuple[str, str]]:
    """ "a=1,b=[2,3]" as names and texts."""
    parts: list[str] = []
    depth = 0
    for piece in text.split(","):
        if depth:
            parts[-1] += f",{piece}"
        elif piece.strip():
            parts.append(piece)
        depth += piece.count("[") - piece.count("]")
    out = []
    for part in parts:
        name, found, value = part.partition("=")
        if not found:
            raise ValueError(f"Malformed hyperparameter value: {part}")
        out.append((name.strip(), value.strip()))
    return out
