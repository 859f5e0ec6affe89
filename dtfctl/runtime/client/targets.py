"""From a session's target to a backend: this process, a server of this process, or a task behind gRPC."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.backend import Backend, LocalBackend
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name, task_name
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.services.gpu import find_gpus
from dtfctl.runtime.services.local_masters import find_local_master
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.worker import Worker

_LOCAL_JOB = "localhost"
_direct: weakref.WeakSet[Master] = weakref.WeakSet()
_direct_lock = threading.Lock()


def open_backend(target: str, config: config_pb2.ConfigProto) -> Backend:
    """Open the backend of a target; nothing is sent yet.

    Raises:
        NotFoundError: no such scheme. InvalidArgumentError: a malformed address.
    """
    if not target or target == "local":
        return LocalBackend(_new_direct_master(config), config)
    address, job = parse_target(target), job_of_target(target)
    if not config.rpc_options.use_rpc_for_inprocess_master:
        master = find_local_master(address)
        if master is not None and not job:
            return LocalBackend(master, config)
    from dtfctl.runtime.client.grpc_backend import GrpcBackend

    return GrpcBackend(address, config, job)


def parse_target(target: str) -> str:
    """Read the address gRPC is to connect to: "host:port" or "unix:/path", without what follows "?".

    Raises:
        NotFoundError: no such scheme. InvalidArgumentError: a malformed address.
    """
    target = target.partition("?")[0]
    if target.startswith("unix:"):
        if len(target) == len("unix:"):
            raise InvalidArgumentError(f'Could not interpret "{target}" as a socket path.')
        return target
    if not target.startswith("grpc://"):
        raise NotFoundError(
            f'No session factory registered for the given session options: {{target: "{target}"}} Registered factories '
            'are {"" (in-process), grpc://host:port, unix:/path}.'
        )
    address = target[len("grpc://") :]
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise InvalidArgumentError(f'Could not interpret "{address}" as a host-port pair.')
    return address


def job_of_target(target: str) -> str:
    """Read which job's state and tasks its sessions are to see, as services/job_scope.py reads it; "" for none.

    >>> job_of_target("unix:/run/worker-0.sock?job=train-1")
    'job=train-1'
    """
    return target.partition("?")[2]


def reset_target(target: str, containers: Sequence[str], config: config_pb2.ConfigProto) -> None:
    """Close all sessions of a target's master and clear containers."""
    if not target or target == "local":
        with _direct_lock:
            masters = list(_direct)
        for master in masters:
            if containers:
                master.reset(containers)
            else:
                master.close(CancelledError("Session was reset"))
                for device in master.worker.devices:
                    device.resources.clear()
        return
    address = parse_target(target)
    job = job_of_target(target)
    found = find_local_master(address)
    if found is not None and not job:
        found.reset(containers, config.device_filters)
        return
    from dtfctl.runtime.client.grpc_backend import reset

    reset(address, containers, config, job)


def _new_direct_master(config: config_pb2.ConfigProto) -> Master:
    """Make a master and worker of its own for one session, as TensorFlow's direct sessions have their own devices."""
    count = max(config.device_count.get("CPU", 1), 1)
    devices = [
        Device(device_name(_LOCAL_JOB, 0, "CPU", i), resources=ResourceManager(_LOCAL_JOB)) for i in range(count)
    ]
    devices += find_gpus(_LOCAL_JOB, 0, config)
    worker = Worker(task_name(_LOCAL_JOB, 0), devices)
    master = Master(worker, direct=True)
    with _direct_lock:
        _direct.add(master)
    return master
