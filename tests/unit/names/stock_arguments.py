"""Arguments of functions, constructors and methods as text, which `test_stock_arguments` compares with TensorFlow's.

tools/list_tensorflow_names.py writes TensorFlow's, stock_arguments.json: by name, `"a, b=None, *, c=1"`, without self.
"""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

ARGUMENTS = Path(__file__).with_name("stock_arguments.json")
SPECIAL = ("__call__",)
KINDS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
Unwrap = Callable[[Any], Any]


def default_text(value: Any) -> str:
    """Write a default as a Python expression: types of data by name, objects by their class's."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__.removesuffix('V2')}.{value.name}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(default_text, value))},)" if value else "()"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(int(value) if isinstance(value, float) and value.is_integer() else value)
    if type(value).__name__ == "DType":
        return str(value.name)
    return str(getattr(value, "__name__", type(value).__name__)).lstrip("_")


def text(found: Any, unwrap: Unwrap, skipped: int = 0) -> str | None:
    """The arguments that a function takes; None where Python cannot say."""
    try:
        parameters = list(inspect.signature(unwrap(found)).parameters.values())[skipped:]
    except (TypeError, ValueError):
        return None
    words: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(w.startswith("*") for w in words):
            words.append("*")
        default = "" if parameter.default is parameter.empty else f"={default_text(parameter.default)}"
        words.append(f"{KINDS.get(parameter.kind, '')}{parameter.name}{default}")
    return ", ".join(words)


def text_of_class(cls: Any, unwrap: Unwrap) -> str | None:
    """The arguments of a class, which named tuples take in __new__."""
    if cls.__init__ is not object.__init__:
        return text(cls.__init__, unwrap, 1)
    return text(cls.__new__, unwrap, 1) if cls.__new__ is not object.__new__ else ""


def text_of_method(cls: Any, word: str, unwrap: Unwrap) -> str | None:
    """The arguments of a method, without the object or class that it is of; None where it is not a method."""
    static, found = inspect.getattr_static(cls, word), getattr(cls, word, None)
    if isinstance(static, classmethod):
        return text(found, unwrap, int(not inspect.ismethod(unwrap(found))))
    if isinstance(static, staticmethod):
        return text(found, unwrap)
    return text(found, unwrap, 1) if inspect.isroutine(static) else None


def arguments(tf: Any, names: Iterable[str], unwrap: Unwrap) -> dict[str, str]:
    """Arguments by the name of a function, of a class, or of a class and a method, in that class first of its bases."""
    things: list[tuple[str, Any]] = []
    for name in names:
        found = tf
        for word in name.split("."):
            found = getattr(found, word, None)
        if callable(found) and not isinstance(found, ModuleType) and not hasattr(found, "DESCRIPTOR"):
            things.append((name, found))
    texts: dict[str, str | None] = {}
    seen: set[int] = set()
    for name, found in sorted(things, key=lambda thing: (len(getattr(thing[1], "__mro__", ())), thing[0])):
        if not inspect.isclass(found):
            texts[name] = text(found, unwrap)
            continue
        texts[name] = text_of_class(found, unwrap)
        for word in dir(found):
            static = inspect.getattr_static(found, word)
            module = getattr(static, "__module__", None) or ""
            others = (word.startswith("_") and word not in SPECIAL) or module.startswith(("unittest", "enum"))
            if not others and not hasattr(tuple, word) and id(static) not in seen:
                texts[f"{name}.{word}"] = text_of_method(found, word, unwrap)
                seen.add(id(static))
    return {name: said for name, said in texts.items() if said is not None}


def write(tf: Any, names: Iterable[str]) -> None:
    """Write TensorFlow's."""
    from tensorflow.python.util import tf_decorator

    # Keras has names and arguments of later versions there: tests/interop runs its programs.
    named = [name for name in names if not name.startswith(("keras", "layers.experimental", "tpu"))]
    found = arguments(tf, named, lambda f: tf_decorator.unwrap(f)[1])
    ARGUMENTS.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
