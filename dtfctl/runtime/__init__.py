"""The public front end: `import dtfctl.runtime as tf`.

The names are those of `dtfctl.runtime.api`, imported at their first use, so that a server that imports parts of this
package does not load the whole front end.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# gRPC reads this when it is imported, so it is said before any module of this package can do that. The thread that
# serves calls (services/call_server.py) then also reads them; they would otherwise cross to it from a thread of gRPC's
# own. Versions that do not know it log that.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")

if TYPE_CHECKING:
    from dtfctl.runtime.api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    if name == "contrib":
        # It is made of what is here, so it is not a part of it.
        return importlib.import_module("dtfctl.contrib")
    api = importlib.import_module("dtfctl.runtime.api")
    try:
        return getattr(api, name)
    except AttributeError:
        raise AttributeError(api.missing.explain(name)) from None


def __dir__() -> list[str]:
    api = importlib.import_module("dtfctl.runtime.api")
    return sorted(n for n in vars(api) if not n.startswith("_"))
