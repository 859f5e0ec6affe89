"""Modules that are still on their way to this host: who imports one waits for it, or is told why it does not come.

`up` first sends what tasks need to start, then, while they run, what only some programs use (scipy) and what makes
programs faster (numba, oneDNN). A runtime's `layers.json` says which folder has which modules; see
`launcher/providers/host_layers.py`. For that which makes faster nobody waits.

Every Python of a runtime imports this when it starts, so it imports little.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

WAIT_S = 300.0
POLL_S = 0.1
NOT_WAITED_FOR = frozenset({"fast"})
LAYERS_FILE = "layers.json"
VARIABLE = "DTF_LAYERS"
"""Names that file for a Python that is not of a runtime."""


class LaterModules:
    """Finds what no other finder has found."""

    def __init__(self, layers: Sequence[dict[str, Any]], folder: str) -> None:
        self._later = [layer for layer in layers if not layer["first"]]
        self._folder = folder
        self._here: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for layer in self._later:
            if name in layer["modules"] and self.arrived(layer["name"], name):
                from importlib.machinery import PathFinder

                return PathFinder.find_spec(name, [self._folder_of(layer)], target)
        return None

    def arrived(self, wanted: str, module: str = "") -> bool:
        """Tell whether a layer is there; where `module` is asked for, it is waited for unless nobody waits for it.

        Raises:
            ImportError: it does not come.
        """
        if wanted in self._here:
            return True
        for layer in self._later:
            if layer["name"] != wanted:
                continue
            folder = self._folder_of(layer)
            if not os.path.isdir(folder):
                if not module or wanted in NOT_WAITED_FOR:
                    return False
                self._wait(folder, module)
            if folder not in sys.path:
                sys.path.append(folder)
            if sys.path_importer_cache.get(folder, folder) is None:  # it was looked for before it was there
                del sys.path_importer_cache[folder]
        self._here.add(wanted)
        return True

    def _folder_of(self, layer: dict[str, Any]) -> str:
        return os.path.join(self._folder, layer["hash"])

    def _wait(self, folder: str, module: str) -> None:
        import logging
        import time

        log, begun = logging.getLogger(__name__), time.monotonic()
        log.warning("%s is still on its way to this host: waiting for it", module)
        while not os.path.isdir(folder):
            if os.path.exists(f"{folder}.why"):
                with open(f"{folder}.why", encoding="utf-8") as file:
                    raise ImportError(f"{module} did not get to this host: {file.read()}", name=module)
            if time.monotonic() - begun > WAIT_S:
                raise ImportError(
                    f"{module} has not got to this host within {WAIT_S:.0f} s; `dtfctl up` sends it again", name=module
                )
            time.sleep(POLL_S)
        log.warning("%s has come after %.1f s", module, time.monotonic() - begun)


_FINDERS: list[LaterModules] = []


def layers_file() -> str:
    return os.environ.get(VARIABLE) or os.path.join(sys.prefix, LAYERS_FILE)


def _read() -> tuple[list[dict[str, Any]], str]:
    """Read the layers of this Python's runtime, and the folder in which they are; none where it is not of one."""
    import json

    file = os.path.abspath(layers_file())
    try:
        with open(file, encoding="utf-8") as text:
            # BASE/runtime/HASH/layers.json
            return json.load(text), os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(file))), "layers")
    except FileNotFoundError:
        return [], ""


def folders() -> list[str]:
    """Return where the layers of this Python's runtime are, or will be; empty where it is not of one."""
    layers, folder = _read()
    return [os.path.join(folder, layer["hash"]) for layer in layers]


def install() -> None:
    """Let imports of this process wait, where it runs from what `up` has sent."""
    if not _FINDERS:
        layers, folder = _read()
        if layers:
            _FINDERS.append(LaterModules(layers, folder))
            sys.meta_path.append(_FINDERS[0])


def arrived(layer: str) -> bool:
    """Tell whether a layer is there; True as well where there are none, as for what is installed with pip."""
    return all(finder.arrived(layer) for finder in _FINDERS)
