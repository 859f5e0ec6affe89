"""What a task or a job's process is started with: command, environment, configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dtfctl.launcher import codec
from dtfctl.launcher.agent.contract import ClientOrder, HostOrders, TaskOrder
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.files import private_folder, write_whole

if TYPE_CHECKING:
    from dtfctl.launcher.agent.line import TaskLine

NOT_INHERITED = ("OPENBLAS_CORETYPE", "GRPC_VERBOSITY", "GRPC_ENABLE_FORK_SUPPORT")
"""Settings of the launcher's own processes, or of a build of numpy that would slow the kernels down."""


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """The file whose path is a task's only argument; `dtfctl/task.py` reads it."""

    cluster: Mapping[str, Mapping[int, str]]
    """Job name to index to `host:port`."""
    job: str
    index: int
    incarnation: int
    listen: str
    socket_path: Path
    """Unix socket for clients on this host."""
    control_path: Path
    """Unix datagram socket on which the agent tells about peers."""
    agent_path: Path
    """Unix datagram socket that takes the beats."""
    tls: TlsFiles | None
    state_folder: Path
    beat_s: float
    grace_s: float


def base_environment(inherited: Mapping[str, str], cores: int, tasks_on_host: int) -> dict[str, str]:
    env = {key: value for key, value in inherited.items() if key not in NOT_INHERITED}
    threads = str(max(1, cores // max(1, tasks_on_host)))
    env.setdefault("OPENBLAS_NUM_THREADS", threads)
    env.setdefault("OMP_NUM_THREADS", threads)
    env["PYTHONUNBUFFERED"] = "1"
    return env


def task_environment(base: Mapping[str, str], order: TaskOrder, gpus: tuple[int, ...] | None) -> dict[str, str]:
    """`gpus`: indices given to the task, or None where no task of the cluster asks for any."""
    env = {**base, "DTF_JOB_NAME": order.job, "DTF_TASK_INDEX": str(order.index)}
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    env.update(order.env)
    return env


def client_environment(
    base: Mapping[str, str],
    order: ClientOrder,
    addresses: Mapping[str, str],
    target: Path,
    progress: Path,
    cluster: str,
) -> dict[str, str]:
    """The variables of a job's process; the user's own come last and win."""
    table: dict[str, list[str]] = {}
    for name in sorted(addresses, key=_task_order):
        table.setdefault(name.partition("/")[0], []).append(addresses[name])
    return {
        **base,
        "DTF_CLUSTER": json.dumps(table),
        "DTF_CLUSTER_NAME": cluster,
        "DTF_JOB_ID": order.job_id,
        "DTF_JOB_NAME": order.job,
        "DTF_TASK_INDEX": str(order.index),
        "DTF_IS_CHIEF": "1" if order.chief else "0",
        "DTF_TARGET": f"unix:{target}",
        "DTF_PROGRESS_FILE": str(progress),
        "TF_CONFIG": json.dumps({"cluster": table, "task": {"type": order.job, "index": order.index}}),
        **order.env,
    }


def _task_order(name: str) -> tuple[str, int]:
    job, _, index = name.partition("/")
    return job, int(index)


@dataclass(frozen=True, slots=True)
class Context:
    """What every start on this host shares, and the folder of this one."""

    agent_folder: Path
    run_folder: Path
    line: TaskLine
    orders: HostOrders
    addresses: Mapping[str, str]
    cores: int


@dataclass(frozen=True, slots=True)
class Start:
    """What a keeper is to run."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


def task_start(context: Context, order: TaskOrder, incarnation: int, gpus: tuple[int, ...]) -> Start:
    """Write the task's configuration file; how to run it.

    Raises:
        NoSpace, OSError: the file cannot be written.
    """
    table: dict[str, dict[int, str]] = {}
    for name, address in context.addresses.items():
        job, _, index = name.partition("/")
        table.setdefault(job, {})[int(index)] = address
    file_name = order.name.replace("/", "-")
    orders, line = context.orders, context.line
    config = TaskConfig(
        cluster=table,
        job=order.job,
        index=order.index,
        incarnation=incarnation,
        listen=context.addresses[order.name],
        socket_path=line.client_path(order.name),
        control_path=line.control_path(order.name),
        agent_path=line.beats_path,
        tls=TlsFiles.of(Path(orders.tls_folder), f"task-{file_name}") if orders.tls_folder else None,
        state_folder=private_folder(context.agent_folder / "tasks" / file_name),
        beat_s=orders.health.beat_s,
        grace_s=order.grace_s,
    )
    for stale in (config.socket_path, config.control_path):
        stale.unlink(missing_ok=True)
    path = context.run_folder / "config.json"
    write_whole(path, codec.encode(config).encode())
    some_gpus = any(task.gpus for task in orders.tasks)
    base = base_environment(os.environ, context.cores, len(orders.tasks))
    env = task_environment(base, order, gpus if some_gpus else None)
    return Start((*orders.task_command, str(path)), env, context.run_folder)


def client_start(context: Context, order: ClientOrder) -> Start:
    """How to run a job's process beside its task."""
    progress = progress_path(context.agent_folder, order)
    private_folder(progress.parent)
    base = base_environment(os.environ, context.cores, len(context.orders.tasks))
    target = context.line.client_path(f"{order.job}/{order.index}")
    env = client_environment(base, order, context.addresses, target, progress, context.orders.cluster)
    cwd = Path(order.cwd)
    return Start(order.command, env, cwd if cwd.is_dir() else context.agent_folder)


def progress_path(agent_folder: Path, order: ClientOrder) -> Path:
    """Where a process of a job reports how far it is; the same file after a restart."""
    return agent_folder / "progress" / order.job_id / f"{order.job}-{order.index}.jsonl"
