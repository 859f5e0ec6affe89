"""Layers on a host as if they had been sent before: sending them takes most of a first `up`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy

from dtfctl.launcher.providers.bundle import Bundle
from dtfctl.launcher.providers.host_layers import LISTING

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
