"""How many GPUs each host has left for the processes of jobs: who has to wait, and for whom.

Which of them a process gets is the agent's choice (`agent/units/resources.py`), by the same rules: those of its slot
before others of the host that belong to nobody's slot.

>>> room = GpuRoom([TaskStatus("worker", i, "running", host="a") for i in range(3)], {"worker": 0}, {"a": 2})
>>> room.take("one", ["worker/0"], 1), room.take("two", ["worker/1"], 1)
(None, None)
>>> room.lacks(["worker/2"], 1)
'waits for 1 GPU on a: it has 2, taken by one, two'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dtfctl.launcher.model import TaskStatus

NAMES_SHOWN = 5


class GpuRoom:
    """The GPUs of all hosts, as one turn of the queue gives them out."""

    def __init__(self, tasks: Sequence[TaskStatus], of_group: Mapping[str, int], there: Mapping[str, int]) -> None:
        """`of_group`: the GPUs of each task of a group; `there`: those of each host that has told."""
        self._there = dict(there)
        self._host = {task.name: task.host for task in tasks}
        self._slot = Counter({task.name: of_group.get(task.job, 0) for task in tasks})
        """What is left of each task's own."""
        self._free = Counter(there)
        """What is left of each host's that are no task's."""
        for task in tasks:
            self._free[task.host] -= self._slot[task.name]
        self._most = self._free.copy(), self._slot.copy()
        self._users: dict[str, list[str]] = {}

    def take(self, job: str, slots: Iterable[str], each: int, *, own_only: bool = False) -> None:
        """Give each of a job's processes its GPUs, or note that it is to have them before those behind it.

        Args:
            own_only: of its slot, not of the host.
        """
        for slot in slots:
            host = self._host.get(slot, "")
            own = min(each, max(0, self._slot[slot]))
            self._slot[slot] -= own
            if not own_only:
                self._free[host] -= each - own
            if each:
                self._users.setdefault(host, []).append(job)

    def lacks(self, slots: Sequence[str], each: int, *, own_only: bool = False) -> str:
        """Say why processes beside these tasks have to wait for their GPUs; empty where they need not.

        They need not where no waiting would help: what they ask for is more than there is. The start then says so.
        """
        short = self._short(slots, each, self._free, self._slot, own_only=own_only)
        never = self._short(slots, each, *self._most, own_only=own_only)
        for host, count in short.items():
            if host in self._there and host not in never:
                names = ", ".join(list(dict.fromkeys(self._users.get(host, ())))[:NAMES_SHOWN])
                needed = "1 GPU" if count == 1 else f"{count} GPUs"
                return f"waits for {needed} on {host}: it has {self._there[host]}, taken by {names}"
        return ""

    def _short(
        self, slots: Sequence[str], each: int, free: Mapping[str, int], own: Mapping[str, int], *, own_only: bool
    ) -> dict[str, int]:
        """Count, of each host that has too few, the GPUs that its processes would get from nowhere."""
        wanted: Counter[str] = Counter()
        for slot in slots:
            wanted[self._host.get(slot, "")] += max(0, each - max(0, own.get(slot, 0)))
        left = {host: 0 if own_only else max(0, free.get(host, 0)) for host in wanted}
        return {host: count - left[host] for host, count in wanted.items() if count > left[host]}
