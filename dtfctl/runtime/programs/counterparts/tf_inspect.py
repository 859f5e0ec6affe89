"""`tensorflow.python.util.tf_inspect`: Python's `inspect`, with what left it."""

from __future__ import annotations

import inspect
from inspect import (
    Parameter,
    Signature,
    currentframe,
    getcallargs,
    getdoc,
    getfile,
    getfullargspec,
    getmembers,
    getmodule,
    getmro,
    getsource,
    isbuiltin,
    isclass,
    isfunction,
    isgenerator,
    ismethod,
    ismodule,
    isroutine,
    signature,
    stack,
)
from typing import Any, NamedTuple

__all__ = [
    "ArgSpec",
    "Parameter",
    "Signature",
    "currentframe",
    "getargspec",
    "getcallargs",
    "getdoc",
    "getfile",
    "getfullargspec",
    "getmembers",
    "getmodule",
    "getmro",
    "getsource",
    "isbuiltin",
    "isclass",
    "isfunction",
    "isgenerator",
    "ismethod",
    "ismodule",
    "isroutine",
    "signature",
    "stack",
]


class ArgSpec(NamedTuple):
    """A function's arguments, as `inspect.getargspec` gave them."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(obj: Any) -> ArgSpec:
    """Return the names and defaults of a function's arguments."""
    found = inspect.getfullargspec(obj)
    return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)
