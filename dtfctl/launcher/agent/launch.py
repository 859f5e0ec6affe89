"""What a task or a job's process is started with: command, environment, configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dtfctl.launcher.agent.contract import ClientOrder, TaskOrder
from dtfctl.launcher.certificates import TlsFiles

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


def inherited_environment() -> dict[str, str]:
    return dict(os.environ)
