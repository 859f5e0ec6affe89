"""Studies of `dtfctl tune`: what each tells of itself (`tune.report.shown`), the controller keeps in a file."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

MOST = 16
"""The newest are shown."""
MOST_BYTES = 1 << 22


class Studies:
    """What the files of a folder say; one that has not changed is not read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}

    def read(self) -> dict[str, dict[str, Any]]:
        """Read the newest, by their names; there may be none."""
        found: list[tuple[int, int, os.DirEntry[str]]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as files:
            for file in files:
                # One that goes meanwhile is passed by.
                with contextlib.suppress(FileNotFoundError):
                    if file.name.endswith(".json") and file.is_file(follow_symlinks=False):
                        stat = file.stat()
                        found.append((stat.st_mtime_ns, stat.st_size, file))
        found.sort(key=lambda item: item[:2], reverse=True)
        known: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}
        for changed, size, file in found[:MOST]:
            before = self._known.get(file.name)
            if before is not None and before[0] == (changed, size):
                known[file.name] = before
            # One that is replaced meanwhile is read the next time.
            elif size <= MOST_BYTES:
                with contextlib.suppress(OSError, ValueError):
                    told = json.loads(Path(file.path).read_bytes())
                    if isinstance(told, dict):
                        known[file.name] = (changed, size), {**told, "name": file.name[:-5], "time": changed / 1e9}
        self._known = known
        return {name[:-5]: study for name, (_, study) in known.items()}
