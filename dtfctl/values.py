"""`@value`: a frozen dataclass with slots, which becomes a dataclass when somebody asks.

`dataclasses` takes 8 ms to import and nearly one to make a class, whose six methods it writes and compiles, used or
not. That was a third of the CPU time in which an agent starts, a hundred times over where a hundred hosts come up
together. What `@value` makes is a dataclass for `fields`, `replace`, `asdict` and type checkers; equal, hashed and
shown alike. Its initialiser is written when it is first called, and its `__dataclass_fields__` when somebody looks.

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

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

__all__ = ["default_of", "field", "names_of", "replace", "value"]

T = TypeVar("T")


_MISSING: Any = object()


class _Given:
    """What is said of a field beside its type."""

    __slots__ = ("compare", "default", "make", "repr")

    def __init__(self, default: Any, make: Any, repr: bool, compare: bool) -> None:
        self.default, self.make, self.repr, self.compare = default, make, repr, compare


def field(*, default: Any = _MISSING, default_factory: Any = _MISSING, repr: bool = True, compare: bool = True) -> Any:
    """Describe a field as `dataclasses.field` does: its default is made anew for every instance;
    not shown or compared."""
    return _Given(default, default_factory, repr, compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots. It has no `__post_init__` and is not derived from another one."""
    own = cls.__dict__
    names = tuple(name for name, hint in own.get("__annotations__", {}).items() if not str(hint).startswith("ClassVar"))
    defaults = {name: own[name] for name in names if name in own}
    if any(type(default).__module__ == "dataclasses" for default in defaults.values()):
        raise TypeError(f"{cls.__name__}: a field of a value is made by `dtfctl.values.field`")
    body = {name: item for name, item in own.items() if name not in defaults and name not in _OF_EVERY_CLASS}
    for name, method in _METHODS.items():
        body.setdefault(name, method)
    body["__slots__"] = body["__match_args__"] = names
    body["__dataclass_fields__"] = _FIELDS
    metaclass: Any = type(cls)
    made: Any = metaclass(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    made.__init__ = _first_call(made)
    _NAMES[made], _DEFAULTS[made] = names, defaults
    result: type[T] = made
    return result


_OF_EVERY_CLASS = ("__dict__", "__weakref__")
_NAMES: dict[Any, tuple[str, ...]] = {}
_DEFAULTS: dict[Any, dict[str, Any]] = {}


def names_of(cls: Any) -> tuple[str, ...] | None:
    """Return the names of a class's fields, be it made by `@value` or by `dataclasses`; None where it has none."""
    names = _NAMES.get(cls)
    if names is not None or "dataclasses" not in sys.modules:
        return names
    import dataclasses

    return tuple(item.name for item in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


def default_of(cls: Any, name: str, missing: Any) -> Any:
    """Tell what a field of a class with `names_of` has where nothing is said; `missing` where something must be."""
    if cls in _NAMES:
        default = _DEFAULTS[cls].get(name, missing)
        if not isinstance(default, _Given):
            return default
        made, plain, nothing = default.make, default.default, _MISSING
    else:
        import dataclasses

        (known,) = (item for item in dataclasses.fields(cls) if item.name == name)
        made, plain, nothing = known.default_factory, known.default, dataclasses.MISSING
    return made() if made is not nothing else missing if plain is nothing else plain


if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(instance, /, **changes):
        """Return another one, with other values of some fields."""
        names = names_of(instance.__class__)
        if names is None:
            raise TypeError(f"a {type(instance).__name__} has no fields")
        return instance.__class__(**{**{name: getattr(instance, name) for name in names}, **changes})


class _Fields:
    """`__dataclass_fields__`, made when it is first asked for: as `dataclasses` makes it for a class like this one."""

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        def plain(given: Any) -> Any:
            if not isinstance(given, _Given):
                return given
            known: dict[str, Any] = {"default": given.default, "default_factory": given.make}
            known = {name: item for name, item in known.items() if item is not _MISSING}
            return dataclasses.field(**known, repr=given.repr, compare=given.compare)

        defaults = {name: plain(given) for name, given in _DEFAULTS[owner].items()}
        body = {"__module__": owner.__module__, "__annotations__": owner.__annotations__, **defaults}
        like: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(owner.__name__, (), body))
        made = like.__dataclass_fields__
        owner.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


_FIELDS = _Fields()


def _first_call(cls: Any) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        cls.__init__ = _init_of(cls)
        cls.__init__(self, *args, **named)

    return __init__


def _init_of(cls: Any) -> Callable[..., None]:
    """Make the initialiser, as one would write it by hand."""
    known: dict[str, Any] = {"_MISSING": _MISSING}
    arguments, lines = ["self"], []
    defaults = _DEFAULTS[cls]
    for name in _NAMES[cls]:
        known[f"_set_{name}"] = cls.__dict__[name].__set__  # the slot itself: the class refuses assignments
        argument, given = name, name
        if name in defaults:
            default = defaults[name]
            if isinstance(default, _Given) and default.make is _MISSING:
                default = default.default
            if isinstance(default, _Given):
                known[f"_make_{name}"] = default.make
                argument = f"{name}=_MISSING"
                given = f"_make_{name}() if {name} is _MISSING else {name}"
            elif default is not _MISSING:
                known[f"_default_{name}"] = default
                argument = f"{name}=_default_{name}"
        arguments.append(argument)
        lines.append(f"    _set_{name}(self, {given})")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(lines or ["    pass"]), known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _reader(cls: Any) -> Callable[[Any], Any]:
    """Reads all fields of an instance; made once for each class."""
    reader = _READERS.get(cls)
    if reader is None:
        names = _names_with(cls, "compare")
        reader = _READERS[cls] = attrgetter(*names) if names else lambda _: ()
    return reader


_READERS: dict[Any, Callable[[Any], Any]] = {}


def _names_with(cls: Any, what: str) -> list[str]:
    """Return the fields that are shown, or compared."""
    said = _DEFAULTS[cls]
    return [name for name in _NAMES[cls] if not isinstance(said.get(name), _Given) or getattr(said[name], what)]


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    read = _reader(self.__class__)
    return read(self) == read(other)


def _hash(self: Any) -> int:
    return hash(_reader(self.__class__)(self))


def _repr(self: Any) -> str:
    text = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names_with(self.__class__, "repr"))
    return f"{self.__class__.__qualname__}({text})"


def _refuse_to_set(self: Any, name: str, _value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """Pickled and copied by their fields."""
    return [getattr(self, name) for name in _NAMES[self.__class__]]


def _set_state(self: Any, state: list[Any]) -> None:
    """Past the refusal."""
    for name, part in zip(_NAMES[self.__class__], state, strict=True):
        self.__class__.__dict__[name].__set__(self, part)


_METHODS: dict[str, Callable[..., Any]] = {
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
