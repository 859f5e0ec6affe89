"""The folder that goes with a job: what of it is sent, and as what.

>>> from dtfctl.launcher.operator.workdir import size_words
>>> size_words(3 * 2**30), size_words(1536)
('3.0 GiB', '1.5 KiB')
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.ignored import Ignored
from dtfctl.launcher.transfer import archive, trees

LARGEST = 500 * 2**20
MOST_FILES = 50_000
FIXED_TIME = 315_532_800.0
"""1980: what is sent depends on content alone."""


def find(root: Path) -> list[trees.Entry]:
    """Find what of a working folder is sent.

    Raises:
        UsageError: it is no folder, or too large.
    """
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise UsageError(f"the working folder {root} {what}", "give the folder that holds the script: --working-dir .")
    entries = list(trees.walk(root, Ignored(root).wants))
    files = [entry for entry in entries if stat.S_ISREG(entry.info.st_mode)]
    total = sum(entry.info.st_size for entry in files)
    if total > LARGEST or len(entries) > MOST_FILES:
        limit = f"at most {size_words(LARGEST)} in {MOST_FILES:,} files go with a job"
        raise UsageError(
            f"the working folder {root} has {size_words(total)} in {len(files):,} files; {limit}. "
            f"Largest: {', '.join(_largest(files))}",
            "name what is not needed in a .dtfignore file there (patterns as in .gitignore); `sync:` of the cluster "
            "file is for data",
        )
    return entries


def pack(root: Path, to: Path) -> None:
    """Write what `find` finds to the file `to`.

    Raises:
        UsageError: see `find`. TransferFailed: a file cannot be read, or changes while it is read.
    """
    archive.write(trees.send(root, find(root), FIXED_TIME), to)


def _largest(files: Sequence[trees.Entry]) -> list[str]:
    """Find the parts of the folder that make it large."""
    sizes: Counter[str] = Counter()
    for entry in files:
        first, slash, _ = entry.path.partition("/")
        sizes[first + slash] += entry.info.st_size
    return [f"{name} ({size_words(size)})" for name, size in sizes.most_common(3)]


def size_words(count: float) -> str:
    """Write a size as `1.5 KiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
