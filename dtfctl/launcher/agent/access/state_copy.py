"""Keep, for the controller, a copy of what is wanted of the whole cluster; see `messages/state_copy.py`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.messages.state_copy import Copy, parse
from dtfctl.launcher.system.files import write_whole

FILE = "copy.json"


class StateCopyFile:
    """The host's copy, on disk; for any thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = threading.Lock()

    def content(self) -> bytes:
        """Read the copy as it was kept; empty when there is none."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def take(
        self, epoch: int, revision: int, base: int, entries: Mapping[str, str], removed: Iterable[str] = ()
    ) -> None:
        """Keep `entries`; or, with `base`, what has changed since that revision.

        Raises:
            Conflict: there is a newer copy, or the changes are to another one. NoSpace: the former copy is still whole.
        """
        with self._lock:
            try:
                known = parse(self.content())
            except ValueError:
                known = Copy()
            if (epoch, revision) < (known.epoch, known.revision):
                raise Conflict(f"copy {epoch}.{revision} comes after {known.epoch}.{known.revision}")
            if base:
                if (known.epoch, known.revision) != (epoch, base):
                    raise Conflict(f"changes to copy {epoch}.{base} came to a host with {known.revision}")
                gone = frozenset(removed)
                entries = {**{key: text for key, text in known.entries.items() if key not in gone}, **entries}
            whole = {"epoch": epoch, "revision": revision, "entries": dict(entries)}
            write_whole(self._path, json.dumps(whole).encode())
