"""Ports and GPUs of this host's tasks: who has which, and what the next one gets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from dtfctl.launcher.agent.start.limits import allowed_cores, cores_for
from dtfctl.launcher.agent.units import ports
from dtfctl.launcher.agent.units.lifecycle import Record, cannot_start
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages.orders import ClientOrder, TaskOrder
from dtfctl.launcher.system.host_facts import gpu_count, gpu_list
from dtfctl.values import replace

if TYPE_CHECKING:
    from dtfctl.launcher.agent.units.job_unit import JobUnit
    from dtfctl.launcher.agent.units.task_unit import TaskUnit


def first_ports(tasks: Collection[TaskUnit]) -> list[tuple[TaskUnit, Record]]:
    """Give new tasks' records a port, or fail them for want of one.

    Tasks get their ports before any of them starts, because each must know the addresses of all.
    """
    taken = {task.record.port for task in tasks}
    changed = []
    for task in tasks:
        order = task.order
        if order is None or task.record.port or task.record.state != "pending":
            continue
        try:
            port = ports.choose(order.first_port, order.last_port, taken)
        except LauncherError as error:
            if order.run:
                changed.append((task, cannot_start(task.record, error.message)))
            continue
        taken.add(port)
        changed.append((task, replace(task.record, port=port)))
    return changed


def of_task(order: TaskOrder, record: Record, others: Collection[Unit]) -> Record:
    """Record a task's start, with the port it had if that is still free, and GPUs nobody uses; or that it failed."""
    try:
        port = ports.choose(order.first_port, order.last_port, {o.record.port for o in others}, record.port)
        return replace(record, port=port, gpus=_choose_gpus(order.gpus, others))
    except LauncherError as error:
        return cannot_start(record, error.message)


def for_generation(order: ClientOrder, record: Record, units: Iterable[Unit]) -> Record:
    """Record a job's process with the ports of its order's generation, as soon as the former has ended."""
    if not order.ports or record.is_alive or record.ports_of == order.generation:
        return record
    taken = {port for other in units for port in (other.record.port, *other.record.ports)}
    found: list[int] = []
    try:
        for _ in range(order.ports):
            found.append(ports.fresh(order.first_port, order.last_port, taken | set(found)))
    except LauncherError as error:
        return replace(cannot_start(record, error.message), restart_handled=order.generation)
    return replace(record, ports=tuple(found), ports_of=order.generation)


def of_job_process(order: ClientOrder, record: Record, tasks: Collection[Unit], jobs: Collection[Unit]) -> Record:
    """Record a start: the cores it is kept on, and its GPUs, those of its slot before others that nobody has.

    `jobs`: the other processes of jobs on this host.
    """
    others = [*tasks, *jobs]
    if order.cpus:
        taken = [other.record.cores for other in others if other.record.is_alive]
        record = replace(record, cores=cores_for(order.cpus, allowed_cores(), taken))
    if order.gpu_count is None:
        return record
    mine = _gpus_for(order, tasks, jobs)
    if len(mine) < order.gpu_count:
        where = "its slot has" if order.gpus == "host" else "this host has"
        why = f"needs {_gpus(order.gpu_count)}, {where} {len(mine)} for it"
        return replace(cannot_start(record, why), restart_handled=order.generation)
    return replace(record, gpus=tuple(mine[: order.gpu_count]))


def waits_for_gpus(order: ClientOrder, tasks: Collection[Unit], jobs: Collection[JobUnit]) -> str:
    """Say which other jobs have the GPUs that a process is to get; empty where it has them, or would never get them."""
    needed = (order.gpu_count or 0) - len(_gpus_for(order, tasks, jobs))
    if needed <= 0 or len(_gpus_for(order, tasks, ())) < (order.gpu_count or 0):
        return ""
    names = dict.fromkeys(other.job_id for other in jobs if other.record.is_alive and other.record.gpus)
    return f"waits for {_gpus(needed)}, taken by {', '.join(names)}"


def gpus_of(process: JobUnit, tasks: Collection[TaskUnit]) -> set[int] | None:
    """List the host's numbers of the GPUs that a job's process works with; None: it may be any of them."""
    order = process.order
    if order is None:
        return None
    if order.gpu_count is not None and order.gpus != "host":
        mine = process.record.gpus
    elif order.gpus != "none" and any(task.order is not None and task.order.gpus for task in tasks):
        slot = next((task.record.gpus for task in tasks if task.name == order.slot), ())
        mine = process.record.gpus or slot
    else:
        return None
    names = [name for name in gpu_list(mine).split(",") if name]
    return {int(name) for name in names} if all(name.isdigit() for name in names) else None


def _gpus_for(order: ClientOrder, tasks: Collection[Unit], jobs: Collection[Unit]) -> list[int]:
    """List what a job's process may have: what is left of its slot's GPUs, then of those that are nobody's."""
    if not order.gpu_count:
        return []
    slot = next((other.record.gpus for other in tasks if other.name == order.slot), ())
    busy = {gpu for other in jobs if other.record.is_alive for gpu in other.record.gpus}
    mine = [gpu for gpu in slot if gpu not in busy]
    if order.gpus == "host":
        return mine
    # A task that is down comes back to its own, and one that was not started yet has still to choose.
    kept = [task for task in tasks if task.record.is_alive or (task.order is not None and task.order.run)]
    used = busy.union(*(task.record.gpus for task in kept))
    owed = sum(task.order.gpus for task in kept if isinstance(task.order, TaskOrder) and not task.record.gpus)
    free = [gpu for gpu in range(gpu_count()) if gpu not in used]
    return mine + free[: max(0, len(free) - owed)]


def _choose_gpus(count: int, others: Collection[Unit]) -> tuple[int, ...]:
    if count == 0:
        return ()
    used = {gpu for other in others if other.record.is_alive for gpu in other.record.gpus}
    free = [gpu for gpu in range(gpu_count()) if gpu not in used]
    if len(free) < count:
        raise LauncherError(f"needs {_gpus(count)}, this host has {len(free)} free")
    return tuple(free[:count])


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
