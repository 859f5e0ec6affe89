"""What a process may use of its host, and who holds it to that: the kernel's control groups, or else its keeper.

>>> cores_for(1.5, [0, 1, 2, 3], [(0, 1), (1, 2)]), cores_for(8, [0, 1], [])
((0, 3), (0, 1))
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from dtfctl.launcher.agent.start.control_groups import Controller, Groups, remove_place
from dtfctl.launcher.messages.orders import ClientOrder, TaskOrder
from dtfctl.values import value


@value
class Held:
    """How the limits of a start are held."""

    arguments: tuple[str, str, str] = ("", "0", "")
    """GROUPS, MEMORY_BYTES and CORES of `keeper.py`."""
    words: str = ""
    """The limits for people: `memory 200 MiB (control group), cpus 2 (cores 0,1)`."""


class Limits:
    """The limits of one incarnation of a unit; what holds them follows from its name, so a new agent finds it."""

    def __init__(self, agent_folder: Path, unit: str, incarnation: int, order: TaskOrder | ClientOrder | None) -> None:
        self.memory_bytes = 0 if order is None else order.memory_bytes
        self.cpus = order.cpus if isinstance(order, ClientOrder) else 0.0
        self._groups = Groups(agent_folder, unit, incarnation)

    def hold(self, cores: Sequence[int]) -> Held:
        """Make what holds them; `cores` are those to run on where the kernel counts no time."""
        entered, words = [], []
        memory, cpus = self.memory_bytes, self.cpus
        asked: dict[Controller, float] = {"memory": memory, "cpu": cpus}
        memory_group, cpu_group = self._groups.prepare([name for name, limit in asked.items() if limit])
        if memory:
            by_kernel = memory_group.make(memory)
            entered += [memory_group.procs] if by_kernel else []
            words.append(f"memory {memory >> 20} MiB ({'control group' if by_kernel else 'watched'})")
            memory = 0 if by_kernel else memory
        chosen = ""
        if cpus:
            by_kernel = cpu_group.make(cpus)
            entered += [cpu_group.procs] if by_kernel else []
            chosen = "" if by_kernel else ",".join(map(str, cores))
            words.append(f"cpus {cpus:g} ({'control group' if by_kernel else f'cores {chosen}'})")
        return Held((";".join(dict.fromkeys(map(str, entered))), str(memory), chosen), ", ".join(words))

    def release(self) -> tuple[bool, int]:
        """Let go of the limits; return whether the kernel ended a process for its memory, and the most bytes used."""
        killed, peak = False, 0
        memory_group, cpu_group = self._groups.find()
        if self.memory_bytes and memory_group.exists:
            killed, peak = memory_group.has_killed(), memory_group.peak_bytes()
            memory_group.remove()
        if self.cpus:
            cpu_group.remove()
        if self.memory_bytes or self.cpus:
            remove_place(memory_group)
        return killed, peak


def cores_for(cpus: float, allowed: Collection[int], taken: Collection[Sequence[int]]) -> tuple[int, ...]:
    """Choose as many of the allowed cores as `cpus` needs, those first that the fewest others are kept on."""
    uses = Counter(core for cores in taken for core in cores)
    wanted = max(1, math.ceil(cpus))
    return tuple(sorted(sorted(allowed, key=lambda core: (uses[core], core))[:wanted]))


def allowed_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
