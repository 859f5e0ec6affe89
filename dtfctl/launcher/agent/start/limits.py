"""What a process may use of its host, and who holds it to that: the kernel's control groups, or else its keeper.

>>> cores_for(1.5, [0, 1, 2, 3], [(0, 1), (1, 2)]), cores_for(8, [0, 1], [])
((0, 3), (0, 1))
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from dtfctl.launcher.agent.contract import ClientOrder, TaskOrder
from dtfctl.launcher.agent.memory_group import MemoryGroup, group_of, is_version_2, name_of, own_group
from dtfctl.values import value

log = logging.getLogger(__name__)

PERIOD_US = 100_000
PROCS = "cgroup.procs"


@value
class CpuGroup:
    """One incarnation's share of the processors, as the kernel enforces it."""

    folder: Path
    is_version_2: bool

    def make(self, cpus: float) -> bool:
        """Whether the kernel holds the limit from now on."""
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
        """Its processes have ended."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


@value
class Held:
    """How the limits of a start are held."""

    arguments: tuple[str, str, str] = ("", "0", "")
    """GROUPS, MEMORY_BYTES and CORES of `keeper.py`."""
    words: str = ""
    """For people: `memory 200 MiB (control group), cpus 2 (cores 0,1)`."""


class Limits:
    """Of one incarnation of a unit; what it is held by follows from its name, so a new agent finds it."""

    def __init__(self, agent_folder: Path, unit: str, incarnation: int, order: TaskOrder | ClientOrder | None) -> None:
        self.memory_bytes = 0 if order is None else order.memory_bytes
        self.cpus = order.cpus if isinstance(order, ClientOrder) else 0.0
        self._folder, self._unit, self._incarnation = agent_folder, unit, incarnation

    @property
    def memory_group(self) -> MemoryGroup:
        return group_of(self._folder, self._unit, self._incarnation)

    @property
    def _cpu_group(self) -> CpuGroup:
        newer = is_version_2()
        return CpuGroup(own_group("" if newer else "cpu") / name_of(self._folder, self._unit, self._incarnation), newer)

    def hold(self, cores: Sequence[int]) -> Held:
        """Make what holds them; `cores` are those to run on where the kernel counts no time."""
        groups, words = [], []
        memory = self.memory_bytes
        if memory:
            by_kernel = self.memory_group.make(memory)
            groups += [self.memory_group.procs] if by_kernel else []
            words.append(f"memory {memory >> 20} MiB ({'control group' if by_kernel else 'watched'})")
            memory = 0 if by_kernel else memory
        chosen = ""
        if self.cpus:
            by_kernel = self._cpu_group.make(self.cpus)
            groups += [self._cpu_group.folder / PROCS] if by_kernel else []
            chosen = "" if by_kernel else ",".join(map(str, cores))
            words.append(f"cpus {self.cpus:g} ({'control group' if by_kernel else f'cores {chosen}'})")
        entered = ";".join(dict.fromkeys(map(str, groups)))
        return Held((entered, str(memory), chosen), ", ".join(words))

    def release(self) -> tuple[bool, int]:
        """Whether the kernel ended a process for its memory, and the most that was used; nothing holds it any more."""
        killed, peak = False, 0
        if self.memory_bytes and self.memory_group.exists:
            killed, peak = self.memory_group.has_killed(), self.memory_group.peak_bytes()
            self.memory_group.remove()
        if self.cpus:
            self._cpu_group.remove()
        return killed, peak


def cores_for(cpus: float, allowed: Collection[int], taken: Collection[Sequence[int]]) -> tuple[int, ...]:
    """As many of the allowed cores as `cpus` needs, those first that the fewest others are kept on."""
    uses = Counter(core for cores in taken for core in cores)
    wanted = max(1, math.ceil(cpus))
    return tuple(sorted(sorted(allowed, key=lambda core: (uses[core], core))[:wanted]))


def allowed_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
