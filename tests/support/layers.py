"""Layers on a host as if they had been sent before: sending them takes most of a first `up`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

import numpy

from dtfctl.launcher.providers.bundle import SHARED_LIBRARY, Bundle
from dtfctl.launcher.providers.host_unpack import LISTING

INSTALLED = Path(numpy.__file__).parents[1]


def lend_layers(base: Path, bundle: Bundle, without: Sequence[str] = ()) -> None:
    """Let a host's `~/.dtfctl` have all layers but dtfctl's own: what is installed here, by links, but for what begins
    as `without` says."""
    for layer in bundle.layers:
        if layer.name == "dtfctl":
            continue
        folder = base / "layers" / layer.hash
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / LISTING).write_text("[]")
        for path in INSTALLED.iterdir() if layer.name == "core" else ():
            if "dtfctl" not in path.name and path.suffix != ".pth" and not path.name.startswith(tuple(without)):
                (folder / path.name).symlink_to(path)
    _lend_libraries(base)


def _lend_libraries(base: Path) -> None:
    """Let a host find the libraries that packages have put beside site-packages (oneDNN), where their records say."""
    for package in distributions(path=[str(INSTALLED)]):
        for file in package.files or ():
            beyond = file.parts[:2] == ("..", "..") and len(file.parts) == 3
            if beyond and SHARED_LIBRARY.fullmatch(file.name) and not (base / file.name).exists():
                (base / file.name).symlink_to(str(package.locate_file(file)))
