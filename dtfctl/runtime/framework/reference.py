"""Keys for things that compare by what they hold, or build ops when they are compared."""

from __future__ import annotations

from typing import Any


class Reference:
    """Stands for one object in dictionaries and sets: two references are equal if it is the same object.

    What `Tensor.ref()` and `Variable.ref()` give; the names are TensorFlow's.
    """

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def deref(self) -> Any:
        """Give the object itself."""
        return self._wrapped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._wrapped!r}>"
