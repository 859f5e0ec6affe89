"""TF1's ClusterSpec and Server: a cluster made by hand, one process a task."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig

Jobs = dict[str, dict[int, str]]

TARGET_VARIABLE = "DTF_TARGET"
"""Environment variable of a job's process: the session target of the task it runs beside."""


class ClusterSpec:
    """Which tasks there are and where.

    Args:
        cluster: {"ps": ["h1:2222"], "worker": {0: "h2:2222", 3: "h3:2222"}}, another ClusterSpec, or a ClusterDef.

    Raises:
        TypeError: anything else, or an address that is no string.
    """

    def __init__(self, cluster: Any) -> None:
        if isinstance(cluster, config_pb2.ClusterDef):
            self._jobs: Jobs = {job.name: dict(sorted(job.tasks.items())) for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        elif isinstance(cluster, Mapping):
            self._jobs = {str(job): _tasks(job, tasks) for job, tasks in cluster.items()}
        else:
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
                f"`ClusterDef` protocol buffer, not {type(cluster).__name__}"
            )

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    @property
    def jobs(self) -> list[str]:
        return list(self._jobs)

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Lists of addresses where indices are dense, else dicts by index."""
        out: dict[str, list[str] | dict[int, str]] = {}
        for job, tasks in self._jobs.items():
            dense = sorted(tasks) == list(range(len(tasks)))
            out[job] = [tasks[i] for i in sorted(tasks)] if dense else dict(tasks)
        return out

    def as_cluster_def(self) -> config_pb2.ClusterDef:
        proto = config_pb2.ClusterDef()
        for name in sorted(self._jobs):
            job = proto.job.add(name=name)
            for index, address in self._jobs[name].items():
                job.tasks[index] = address
        return proto

    def num_tasks(self, job_name: str) -> int:
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Raises ValueError when there is no such task."""
        job = self._job(job_name)
        if task_index not in job:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return job[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Addresses by index; None for indices that do not exist."""
        job = self._job(job_name)
        return [job.get(i) for i in range(max(job, default=-1) + 1)]

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._jobs[name]


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    items = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks) if isinstance(tasks, list) else None
    if items is None:
        raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to strings.")
    out: dict[int, str] = {}
    for index, address in items:
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"Task indices of job {job!r} must be integers, not {index!r}")
        if isinstance(address, bytes):
            address = address.decode()
        if not isinstance(address, str):
            raise TypeError(f"Task address {address!r} of job {job!r} must be a string")
        out[index] = address
    return out


class Server:
    """One task of a cluster, served by this process; TF1's `train.Server`.

    It listens where the cluster says, in plaintext as TensorFlow's does; a cluster made by `dtfctl up` uses
    certificates instead. In a job on such a cluster (`dtfctl submit`) the task that TF_CONFIG describes runs already:
    a Server of that cluster, job and index stands for it. Its `target` is the running task's, and it starts nothing.

    Args:
        server_or_cluster_def: a ServerDef, ClusterDef, ClusterSpec or dictionary.
        job_name, task_index: may be left out where the cluster has one job, or the job one task.
        protocol: only "grpc".

    Raises:
        ValueError: the task cannot be told, or is not in the cluster.
        OSError: its port is taken.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: config_pb2.ConfigProto | None = None,
        start: bool = True,
    ) -> None:
        self._server_def = _make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        self._server: TaskServer | None = None
        self._running_target = _target_of_running(self._server_def)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        if start:
            self.start()

    def start(self) -> None:
        """Serve; nothing if it does already."""
        with self._lock:
            if self._server is not None or self._running_target:
                return
            definition = self._server_def
            cluster = {job.name: dict(job.tasks) for job in definition.cluster.job}
            address = cluster[definition.job_name][definition.task_index]
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"Could not interpret {address!r} as a host-port pair")
            defaults = definition.default_session_config
            server = TaskServer(
                TaskServerConfig(
                    cluster=cluster,
                    job_name=definition.job_name,
                    task_index=definition.task_index,
                    # Later lives get greater numbers, on whatever host they are.
                    incarnation=time.time_ns(),
                    listen=f"{_bind_host(host)}:{port}",
                    socket_path=None,
                    tls=None,
                    device_count=max(defaults.device_count.get("CPU", 1), 1),
                    default_session_config=defaults,
                )
            )
            server.start()
            self._server = server

    def join(self) -> None:
        """Block until `stop`, which another thread may call; a process that only serves ends here.

        Where the server stands for a running task it returns at once: the task serves on without this process, which
        would otherwise keep its job from ending.
        """
        if self._running_target:
            return
        while not self._stopped.wait(3600.0):
            continue

    def stop(self, grace_s: float = 5.0) -> None:
        """Stop serving. Not in TF1, whose servers never end."""
        with self._lock:
            server = self._server
        if server is not None:
            server.stop(grace_s)
        self._stopped.set()

    @property
    def server_def(self) -> config_pb2.ServerDef:
        return self._server_def

    @property
    def target(self) -> str:
        """What to pass to `Session`."""
        if self._running_target:
            return self._running_target
        if self._server is None:
            raise RuntimeError("The server is not started")
        host = self._server.config.cluster[self._server_def.job_name][self._server_def.task_index].rpartition(":")[0]
        return f"grpc://{host}:{self._server.port}"

    @staticmethod
    def create_local_server(config: config_pb2.ConfigProto | None = None, start: bool = True) -> Server:
        """Start a cluster of one task, of job "localhost" as in TensorFlow 2,
        on a free port of the loopback interface."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def _make_server_def(
    given: Any,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: config_pb2.ConfigProto | None,
) -> config_pb2.ServerDef:
    out = config_pb2.ServerDef()
    if isinstance(given, config_pb2.ServerDef):
        out.CopyFrom(given)
    else:
        out.cluster.CopyFrom(ClusterSpec(given).as_cluster_def())
    jobs = {job.name: job for job in out.cluster.job}
    if job_name is not None:
        out.job_name = job_name
    elif not out.job_name:
        if len(jobs) != 1:
            raise ValueError("Must specify an explicit job_name.")
        out.job_name = next(iter(jobs))
    if out.job_name not in jobs:
        raise ValueError(f"The job {out.job_name!r} is not in the cluster: {sorted(jobs)}")
    tasks = jobs[out.job_name].tasks
    if task_index is not None:
        out.task_index = task_index
    elif not isinstance(given, config_pb2.ServerDef):
        if len(tasks) != 1:
            raise ValueError("Must specify an explicit task_index.")
        out.task_index = next(iter(tasks))
    if out.task_index not in tasks:
        raise ValueError(f"The task {out.job_name}/{out.task_index} is not in the cluster: {sorted(tasks)}")
    if protocol is not None:
        out.protocol = protocol
    out.protocol = out.protocol or "grpc"
    if out.protocol != "grpc":
        raise ValueError(f"Unsupported protocol {out.protocol!r}: only 'grpc' is")
    if config is not None:
        out.default_session_config.MergeFrom(config)
    return out


def _target_of_running(definition: config_pb2.ServerDef) -> str:
    """Return the target of the task this process was started beside, if `definition` is of that task; else ""."""
    target, config = os.environ.get(TARGET_VARIABLE, ""), os.environ.get("TF_CONFIG")
    if not target or not config:
        return ""
    told = json.loads(config)
    task = told.get("task", {})
    same = (
        ClusterSpec(told.get("cluster", {})) == ClusterSpec(definition.cluster)
        and task.get("type") == definition.job_name
        and task.get("index") == definition.task_index
    )
    return target if same else ""


def _bind_host(host: str) -> str:
    """Return where to listen to be reached as `host`: there if it is an address of this machine, else everywhere."""
    name = host.strip("[]")
    if name == "localhost":
        return "127.0.0.1"
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(name).is_loopback:
            return host
    try:
        family, _, _, _, where = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(where)
    except OSError:
        return "0.0.0.0"
    return f"[{where[0]}]" if family == socket.AF_INET6 else str(where[0])
