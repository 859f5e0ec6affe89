"""A task's memory limit as the kernel enforces it: a control group, where this user may make one.

Where not (no root, nothing delegated), the keeper watches the task's memory instead and ends it when it looks and finds
too much; see `keeper.py`. Both versions of control groups are known; version 2 needs a delegated group that holds no
process itself.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import zlib
from pathlib import Path

from dtfctl.values import value

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
PROCS = "cgroup.procs"


@value
class MemoryGroup:
    """One incarnation's group. Its name follows from whose it is, so that a new agent finds it."""

    folder: Path
    limit_file: str
    peak_file: str
    kills_file: str

    @property
    def procs(self) -> Path:
        """A process enters by writing its pid there."""
        return self.folder / PROCS

    @property
    def exists(self) -> bool:
        return self.folder.is_dir()

    def make(self, limit_bytes: int) -> bool:
        """Whether the kernel holds the limit from now on."""
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / self.limit_file).write_text(str(limit_bytes))
        except OSError as error:
            log.info("no control group for a memory limit (%s); the keeper watches instead", error)
            self.remove()
            return False
        return True

    def has_killed(self) -> bool:
        """Whether the kernel ended a process because the group was full."""
        try:
            lines = (self.folder / self.kills_file).read_text().splitlines()
        except OSError:
            return False
        counts = dict(line.split(maxsplit=1) for line in lines if " " in line)
        return int(counts.get("oom_kill", "0")) > 0

    def peak_bytes(self) -> int:
        """The most it ever used; 0 where the kernel does not tell."""
        try:
            return int((self.folder / self.peak_file).read_text())
        except (OSError, ValueError):
            return 0

    def remove(self) -> None:
        """Its processes have ended."""
        with contextlib.suppress(OSError):  # never made, or a process is still on its way out: then it stays, empty
            self.folder.rmdir()


def group_of(agent_folder: Path, unit: str, incarnation: int) -> MemoryGroup:
    """The group of an incarnation of `unit` (`worker/1`), whether or not it was made."""
    name = name_of(agent_folder, unit, incarnation)
    if is_version_2():
        return MemoryGroup(own_group("") / name, "memory.max", "memory.peak", "memory.events")
    parent = own_group("memory")
    return MemoryGroup(parent / name, "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")


def name_of(agent_folder: Path, unit: str, incarnation: int) -> str:
    """What an incarnation's groups are called."""
    whose = zlib.crc32(f"{socket.gethostname()} {agent_folder}".encode())
    return f"dtfctl-{whose:08x}-{unit.replace('/', '-').replace(':', '-')}-{incarnation}"


def is_version_2() -> bool:
    """Whether this host has the one hierarchy of version 2."""
    return (ROOT / "cgroup.controllers").exists()


def own_group(controller: str) -> Path:
    """This process's group in the hierarchy of a controller; "" for version 2's only one."""
    base = ROOT / controller if controller else ROOT
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if (controller in names.split(",")) if controller else not names:
            return base / path.lstrip("/")
    return base
