"""Wheels made by tests: one module, no index, no build tool."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str = "1.0", requires: tuple[str, ...] = ()) -> Path:
    """A pure wheel with a module of that name, whose VERSION is `version`."""
    folder.mkdir(parents=True, exist_ok=True)
    information = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{information}/METADATA": metadata + "".join(f"Requires-Dist: {item}\n" for item in requires),
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in files.items():
            archive.writestr(inner, text)
        rows = [f"{inner},,\n" for inner in [*files, f"{information}/RECORD"]]
        archive.writestr(f"{information}/RECORD", "".join(rows))
    return path
