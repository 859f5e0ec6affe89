"""Ops from other packages: found through entry points, or named in DTF_OPS, and imported once per process.

A package offers its ops by an entry point of the group "dtfctl.ops" that names a module; importing the module registers
them. DTF_OPS="my_ops,other.module" does the same for modules of packages without entry points. Every process that meets
the op needs the package: the one that builds the graph and the tasks that run it.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading

ENTRY_POINT_GROUP = "dtfctl.ops"
MODULES_VARIABLE = "DTF_OPS"

log = logging.getLogger("dtfctl.ops")
_lock = threading.RLock()
_done: set[str] = set()


def load_plugins() -> None:
    """Import every plugin, the first time this is called. One that cannot be imported is logged and left out."""
    with _lock:
        load_named_modules()
        if ENTRY_POINT_GROUP in _done:
            return
        _done.add(ENTRY_POINT_GROUP)
        # Imported here: it takes 10 ms, and most processes never meet an op they do not know.
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                point.load()
            except Exception:
                log.exception("The ops of entry point '%s' (%s) could not be imported", point.name, point.value)


def load_named_modules() -> None:
    """Import the modules that DTF_OPS names, the first time this is called, in the same way."""
    with _lock:
        if MODULES_VARIABLE in _done:
            return
        _done.add(MODULES_VARIABLE)
        for module in filter(None, (m.strip() for m in os.environ.get(MODULES_VARIABLE, "").split(","))):
            try:
                importlib.import_module(module)
            except Exception:
                log.exception("The ops of module '%s', named in %s, could not be imported", module, MODULES_VARIABLE)
