"""`@value`: a frozen dataclass with slots, whose methods are made when the first of them is called.

`dataclasses` writes and compiles six methods for every class it makes, used or not: a millisecond a class, which was
a third of the CPU time in which an agent starts, a hundred times over where a hundred hosts come up together. What
`@value` makes is a dataclass for `fields`, `replace`, `asdict` and type checkers; equal, hashed and shown alike.

>>> @value
... class Point:
...     x: int
...     y: int = 0
...     tags: tuple[str, ...] = field(default_factory=tuple)
>>> point = Point(1, y=2)
>>> point, point == Point(1, 2), replace(point, x=5), len({point, Point(1, 2)})
(Point(x=1, y=2, tags=()), True, Point(x=5, y=2, tags=()), 1)
>>> point.x = 3
Traceback (most recent call last):
dataclasses.FrozenInstanceError: cannot assign to field 'x'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["field", "replace", "value"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots. It has no `__post_init__` and is not derived from another one."""
    own = cls.__dict__
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__init__ = _first_call(made)
    for name, method in _METHODS.items():
        if name not in own:
            setattr(made, name, method)
    result: type[T] = made
    return result


def _first_call(cls: Any) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        cls.__init__ = _init_of(cls)
        cls.__init__(self, *args, **named)

    return __init__


def _init_of(cls: Any) -> Callable[..., None]:
    """The initialiser, as one would write it by hand."""
    names: dict[str, Any] = {"_MISSING": MISSING}
    arguments, lines = ["self"], []
    for item in fields(cls):
        name = item.name
        names[f"_set_{name}"] = cls.__dict__[name].__set__  # the slot itself: the class refuses assignments
        argument, given = name, name
        if item.default is not MISSING:
            names[f"_default_{name}"] = item.default
            argument = f"{name}=_default_{name}"
        elif item.default_factory is not MISSING:
            names[f"_make_{name}"] = item.default_factory
            argument = f"{name}=_MISSING"
            given = f"_make_{name}() if {name} is _MISSING else {name}"
        arguments.append(argument)
        lines.append(f"    _set_{name}(self, {given})")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(lines or ["    pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _reader(cls: Any) -> Callable[[Any], Any]:
    """Reads all fields of an instance; made once for each class."""
    reader = _READERS.get(cls)
    if reader is None:
        names = [item.name for item in fields(cls) if item.compare]
        reader = _READERS[cls] = attrgetter(*names) if names else lambda _: ()
    return reader


_READERS: dict[Any, Callable[[Any], Any]] = {}


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    read = _reader(self.__class__)
    return read(self) == read(other)


def _hash(self: Any) -> int:
    return hash(_reader(self.__class__)(self))


def _repr(self: Any) -> str:
    shown: list[Field[Any]] = [item for item in fields(self) if item.repr]
    text = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in shown)
    return f"{self.__class__.__qualname__}({text})"


def _refuse_to_set(self: Any, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS: dict[str, Callable[..., Any]] = {
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    # Pickled and copied by their fields, past the refusal.
    "__getstate__": lambda self: [getattr(self, item.name) for item in fields(self)],
    "__setstate__": lambda self, state: [
        self.__class__.__dict__[item.name].__set__(self, part) for item, part in zip(fields(self), state, strict=True)
    ],
}
