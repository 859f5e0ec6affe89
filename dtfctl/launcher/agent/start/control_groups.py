"""Control groups of the kernel, which hold limits of memory and processors, where this user may make some.

Version 1 has a hierarchy for each controller, and a group is made below this process's own in it. In version 2's only
one a group that holds processes has none below it that limit (`no internal processes`), and who has logged in is in one
that does. So the groups of an agent lie in a folder of their own, `dtfctl-HASH`, in the nearest group above that can
give it the controllers: never above one that is limited itself, as who is in that one would get out of its limit.

Where there is no such place (no root, nothing delegated), the keeper holds the limits: see `keeper.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from dtfctl.values import value

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
PROCS = "cgroup.procs"
ENABLED = "cgroup.subtree_control"
PERIOD_US = 100_000
Controller: TypeAlias = Literal["memory", "cpu"]


@value
class MemoryGroup:
    """A group with a limit of memory."""

    folder: Path
    is_version_2: bool

    @property
    def procs(self) -> Path:
        """A process enters by writing its pid there."""
        return self.folder / PROCS

    @property
    def exists(self) -> bool:
        return self.folder.is_dir()

    def make(self, limit_bytes: int) -> bool:
        """Make the group; return whether the kernel holds the limit from now on."""
        limit = "memory.max" if self.is_version_2 else "memory.limit_in_bytes"
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / limit).write_text(str(limit_bytes))
        except OSError as error:
            log.info("no control group for a memory limit (%s); the keeper watches instead", error)
            self.remove()
            return False
        if self.is_version_2:
            with contextlib.suppress(OSError):  # Linux 4.19
                (self.folder / "memory.oom.group").write_text("1")  # all of it ends, not what is largest
        return True

    def has_killed(self) -> bool:
        """Tell whether the kernel ended a process because the group was full."""
        name = "memory.events" if self.is_version_2 else "memory.oom_control"
        try:
            lines = (self.folder / name).read_text().splitlines()
        except OSError:
            return False
        counts = dict(line.split(maxsplit=1) for line in lines if " " in line)
        return int(counts.get("oom_kill", "0")) > 0

    def peak_bytes(self) -> int:
        """Read the most bytes it ever used; 0 where the kernel does not tell."""
        name = "memory.peak" if self.is_version_2 else "memory.max_usage_in_bytes"
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return 0

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        with contextlib.suppress(OSError):  # never made, or a process is still on its way out: then it stays, empty
            self.folder.rmdir()


@value
class CpuGroup:
    """A group with a share of the processors."""

    folder: Path
    is_version_2: bool

    @property
    def procs(self) -> Path:
        """A process enters by writing its pid there."""
        return self.folder / PROCS

    def make(self, cpus: float) -> bool:
        """Make the group; return whether the kernel holds the limit from now on."""
        quota = max(1000, round(cpus * PERIOD_US))
        made = False
        try:
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir()
                made = True
            if self.is_version_2:
                (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            else:
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
        except OSError as error:
            log.info("no control group for a limit of processors (%s); the process is kept on some of them", error)
            if made:
                self.remove()
            return False
        return True

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Groups:
    """The groups of one incarnation of a unit (`worker/1`), named after whose they are: so a new agent finds them."""

    def __init__(self, agent_folder: Path, unit: str, incarnation: int) -> None:
        self._whose = f"dtfctl-{zlib.crc32(f'{socket.gethostname()} {agent_folder}'.encode()):08x}"
        self._unit = f"{unit.replace('/', '-').replace(':', '-')}-{incarnation}"
        self._is_version_2 = is_version_2()

    def prepare(self, wanted: Collection[Controller]) -> tuple[MemoryGroup, CpuGroup]:
        """Name both groups of a start, not made yet; one of which there is none cannot be made."""
        if not self._is_version_2:
            return self.find()
        place = _make_place(self._whose, wanted) or own_group("") / self._whose
        return self._in(place)

    def find(self) -> tuple[MemoryGroup, CpuGroup]:
        """Find the groups as `prepare` has named them before, maybe for another agent, in another session."""
        if not self._is_version_2:
            name = f"{self._whose}-{self._unit}"
            return MemoryGroup(own_group("memory") / name, False), CpuGroup(own_group("cpu") / name, False)
        places = [above / self._whose for above in _above(own_group(""))]
        return self._in(next((place for place in places if (place / self._unit).is_dir()), places[0]))

    def _in(self, place: Path) -> tuple[MemoryGroup, CpuGroup]:
        return MemoryGroup(place / self._unit, True), CpuGroup(place / self._unit, True)


def remove_place(group: MemoryGroup | CpuGroup) -> None:
    """Remove the agent's folder with its last group."""
    if group.is_version_2:
        with contextlib.suppress(OSError):
            group.folder.parent.rmdir()


def _make_place(name: str, wanted: Collection[Controller]) -> Path | None:
    """Make a group for an agent's groups that gives them the wanted controllers, else the first of them."""
    for controllers in dict.fromkeys((tuple(wanted), tuple(wanted)[:1], tuple(wanted)[1:])):
        for may_change in (False, True):
            for above in _candidates() if controllers else ():
                place = above / name
                try:
                    _enable(above, controllers, may_change)
                    place.mkdir(exist_ok=True)
                    _enable(place, controllers, True)
                except OSError as error:
                    log.debug("no groups in %s: %s", above, error)
                    with contextlib.suppress(OSError):
                        place.rmdir()
                    continue
                return place
    return None


def _enable(group: Path, controllers: Collection[Controller], may_change: bool) -> None:
    """Let the groups in `group` have controllers.

    Raises:
        OSError: the kernel does not let it, or it is not to be asked.
    """
    has = (group / ENABLED).read_text().split()
    lacks = [name for name in controllers if name not in has]
    if lacks and not may_change:
        raise PermissionError(f"it does not give {' '.join(lacks)}")
    if lacks:
        (group / ENABLED).write_text(" ".join(f"+{name}" for name in lacks))


def _candidates() -> Iterator[Path]:
    """Yield groups in which there may be some for processes of this one, the nearest first."""
    for group in _above(own_group("")):
        if not os.access(group / PROCS, os.W_OK):  # of any group above both: else nobody gets from one to the other
            return
        yield group
        if _is_limited(group):
            return


def _is_limited(group: Path) -> bool:
    for name in ("memory.max", "cpu.max"):
        with contextlib.suppress(OSError):
            if not (group / name).read_text().startswith("max"):
                return True
    return False


def _above(group: Path) -> Iterator[Path]:
    """Yield a group and all that it is in."""
    yield group
    while group != ROOT:
        group = group.parent
        yield group


def is_version_2() -> bool:
    """Tell whether this host has the one hierarchy of version 2."""
    return (ROOT / "cgroup.controllers").exists()


def own_group(controller: str) -> Path:
    """Find this process's group in the hierarchy of a controller; "" for version 2's only one."""
    base = ROOT / controller if controller else ROOT
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if (controller in names.split(",")) if controller else not names:
            return base / path.lstrip("/")
    return base
