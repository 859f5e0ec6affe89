"""The public front end: `import dtfctl.runtime as tf`.

The names are those of `dtfctl.runtime.api`, imported at their first use, so that a server that imports parts of this
package does not load the whole front end.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

# gRPC reads this when it is imported, so it is said before any module of this package can do that. The thread that
# serves calls (services/call_server.py) then also reads them; they would otherwise cross to it from a thread of gRPC's
# own. Versions that do not know it log that.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")

from dtfctl.runtime.framework.op_library import use_op_library

if TYPE_CHECKING:
    from dtfctl.runtime.api import *  # noqa: F403

use_op_library("dtfctl.runtime.ops", computer="dtfctl.runtime.compiler.constants")

# Imported by the program that asks for it: made of what `dtfctl.runtime.api` offers, or large.
ABOVE = {
    "contrib": "dtfctl.contrib",
    "distributions": "dtfctl.runtime.distributions",
    "estimator": "dtfctl.runtime.estimator",
    "examples": "dtfctl.contrib.examples",
    "feature_column": "dtfctl.runtime.feature_column",
    "keras": "dtfctl.runtime.keras",
    "keras.estimator": "dtfctl.runtime.estimator.of_keras",
    "test": "dtfctl.runtime.api.test",
}


def _api() -> ModuleType:
    api = importlib.import_module("dtfctl.runtime.api")
    api.compat.v1 = sys.modules[__name__]
    return api


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    api = _api()
    if name in ABOVE:
        module = importlib.import_module(ABOVE[name])
        _offer_what_is_above(module, name)
        _say_what_is_missing(module, name)
        return module
    try:
        return getattr(api, name)
    except AttributeError:
        raise AttributeError(api.missing.explain(name)) from None


def _offer_what_is_above(module: ModuleType, path: str) -> None:
    """Let a namespace have those that are made of it and stand in rooms above its own."""
    paths = {full.removeprefix(f"{path}."): where for full, where in ABOVE.items() if full.startswith(f"{path}.")}
    if not paths or "__getattr__" in vars(module):
        return

    def above(name: str) -> Any:
        if name in paths:
            return importlib.import_module(paths[name])
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = above  # type: ignore[method-assign]


def _say_what_is_missing(module: ModuleType, path: str) -> None:
    """Let a namespace, and those it offers, answer for names that they do not have."""
    from dtfctl.runtime.api import missing

    missing.say_what_is_missing(module, path)
    for part in vars(module).get("__all__", ()) if path.startswith("keras") else ():
        found = getattr(module, part)
        if isinstance(found, ModuleType):
            _say_what_is_missing(found, f"{path}.{part}")


def __dir__() -> list[str]:
    api = _api()
    return sorted({*(n for n in vars(api) if not n.startswith("_")), *(n for n in ABOVE if "." not in n)})
