"""How much memory there still is: of the host, and of the control groups that this process is in."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

UNKNOWN = 2**63 - 1
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
# The limit, what counts against it, and what of that is given back when it is wanted: of version 2, and of 1.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes() -> int:
    """Read how much memory this process can still have; `UNKNOWN` on a system that does not say."""
    return min((_of_host(), *map(_of_group, _groups(_PROC, _GROUPS))))


def _of_host() -> int:
    try:
        lines = dict(line.split(":", 1) for line in (_PROC / "meminfo").read_text().splitlines())
        return sum(int(lines[name].split()[0]) << 10 for name in ("MemAvailable", "SwapFree") if name in lines)
    except (OSError, ValueError, IndexError):
        return UNKNOWN


def _of_group(folder: Path) -> int:
    for limit_file, usage_file, spare in _FILES:
        try:
            limit = (folder / limit_file).read_text().strip()
            if limit == "max":
                return UNKNOWN
            usage = int((folder / usage_file).read_text())
            stat = dict(line.split(maxsplit=1) for line in (folder / "memory.stat").read_text().splitlines())
            return max(0, int(limit) - usage + int(stat.get(spare, 0)))
        except (OSError, ValueError):
            continue
    return UNKNOWN


@functools.cache
def _groups(proc: Path, root: Path) -> tuple[Path, ...]:
    """Find the folders of the groups that may have a limit: this process's, and all that those are in."""
    found: dict[Path, None] = {}
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return ()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            top = root / "memory" if controllers else root
            found.update(dict.fromkeys(_upwards(top, path)))
    return tuple(folder for folder in found if any((folder / names[0]).exists() for names in _FILES))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    # In a container the path may be one of the host's, and the container's own group be at the top.
    inner = top / path.strip("/")
    yield inner
    while inner != top and top in inner.parents:
        inner = inner.parent
        yield inner
