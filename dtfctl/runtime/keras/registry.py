"""Objects by name: what `get` of activations, losses, initializers and the rest look up, and what programs add."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

_CUSTOM: dict[str, Any] = {}


@contextlib.contextmanager
def custom_object_scope(*args: Mapping[str, Any]) -> Iterator[None]:
    """Know objects of the program's own by name inside a block."""
    saved = dict(_CUSTOM)
    for objects in args:
        _CUSTOM.update(objects)
    try:
        yield
    finally:
        _CUSTOM.clear()
        _CUSTOM.update(saved)


CustomObjectScope = custom_object_scope


_REFUSES_CODE: ContextVar[bool] = ContextVar("refuses_code", default=False)


@contextlib.contextmanager
def code_refused(refused: bool) -> Iterator[None]:
    """Refuse descriptions with code in them inside a block."""
    token = _REFUSES_CODE.set(refused)
    try:
        yield
    finally:
        _REFUSES_CODE.reset(token)


def refuses_code() -> bool:
    """Tell whether descriptions with code in them are refused here."""
    return _REFUSES_CODE.get()


def get_custom_objects() -> dict[str, Any]:
    """Return the table of the program's own objects, to be changed in place."""
    return _CUSTOM


_REGISTERED: dict[str, Any] = {}
"""Classes and functions that the program registered, by the name that descriptions have for them."""


def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[Any], Any]:
    """Let descriptions name a class or function of the program's own, as "package>name".

    Raises:
        ValueError: a class has no get_config, or another has the name.
    """

    def register(found: Any) -> Any:
        called = f"{package}>{name or found.__name__}"
        if inspect.isclass(found) and not hasattr(found, "get_config"):
            raise ValueError(f"Cannot register {found}: a class that does not have a get_config() method")
        if called in _REGISTERED:
            raise ValueError(f"{called} has already been registered to {_REGISTERED[called]}")
        _REGISTERED[called] = found
        return found

    return register


def get_registered_name(obj: Any) -> str:
    """Return the name that descriptions have for a class or function: its own, unless it is registered."""
    return next((name for name, found in _REGISTERED.items() if found is obj), obj.__name__)


def get_registered_object(name: str, custom_objects: Any = None, module_objects: Any = None) -> Any:
    """Return what a name in a description stands for, or None."""
    return {**(module_objects or {}), **_REGISTERED, **_CUSTOM, **(custom_objects or {})}.get(name)


def serialize_keras_object(instance: Any) -> Any:
    """Describe an object by its name and its configuration; a function by its name."""
    if instance is None:
        return None
    if hasattr(instance, "get_config"):
        return {"class_name": get_registered_name(type(instance)), "config": instance.get_config()}
    if hasattr(instance, "__name__"):
        return get_registered_name(instance)
    raise ValueError(f"Cannot serialize {instance!r}: it has neither get_config nor a name")


def deserialize_keras_object(
    identifier: Any,
    module_objects: Mapping[str, Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:
    """Make what a name or a {"class_name", "config"} dictionary describes.

    Raises:
        ValueError: nothing has that name.
    """
    known = {**(module_objects or {}), **_REGISTERED, **_CUSTOM, **(custom_objects or {})}
    if isinstance(identifier, Mapping):
        name, config = identifier["class_name"], dict(identifier.get("config") or {})
        cls = _found(name, known, printable_module_name)
        if not hasattr(cls, "from_config"):
            return cls(**config)
        if "custom_objects" in inspect.signature(cls.from_config).parameters:
            return cls.from_config(config, custom_objects={**_CUSTOM, **(custom_objects or {})})
        with custom_object_scope(custom_objects or {}):
            return cls.from_config(config)
    if isinstance(identifier, str):
        found = _found(identifier, known, printable_module_name)
        return found() if inspect.isclass(found) else found
    return identifier


def _found(name: str, known: Mapping[str, Any], what: str) -> Any:
    if name not in known and ">" in name:
        name = name.rpartition(">")[2]  # Keras writes the package that registered a class before it
    if name not in known:
        raise ValueError(
            f"Unknown {what}: {name}. Objects of your own are known inside tf.keras.utils.CustomObjectScope."
        )
    return known[name]


def getter(objects: Mapping[str, Any], what: str) -> Callable[[Any], Any]:
    """Make a module's `get`: from a name, a configuration, an object or None to the object."""

    def get(identifier: Any) -> Any:
        if identifier is None:
            return None
        if isinstance(identifier, (str, Mapping)):
            return deserialize_keras_object(identifier, objects, printable_module_name=what)
        if callable(identifier):
            return identifier() if inspect.isclass(identifier) else identifier
        raise ValueError(f"Could not interpret {what} identifier: {identifier!r}")

    return get
