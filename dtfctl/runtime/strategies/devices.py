"""Names of devices as strategies use them: whole, and compared as such."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.replication.values import DistributedValues


def canonical(device: str, default: str = "") -> str:
    """Complete a device's name, "/cpu:1" to "/replica:0/task:0/device:CPU:1"; its task is that of `default`."""
    own, other = DeviceSpec.from_string(device or ""), DeviceSpec.from_string(default or "")
    job = own.job if own.job is not None else other.job
    same_job = own.job is None or own.job == other.job
    task = own.task if own.task is not None else (other.task if same_job else None)
    return DeviceSpec(
        job=job,
        replica=own.replica or 0,
        task=task or 0,
        device_type=own.device_type or "CPU",
        device_index=own.device_index or 0,
    ).to_string()


def task_of(device: str) -> str:
    """Return the task's part of a device's name."""
    spec = DeviceSpec.from_string(device)
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


def host_of(device: str) -> str:
    """Return the first CPU of a device's task."""
    return f"{task_of(device)}/device:CPU:0"


def is_gpu(device: str) -> bool:
    """Tell whether a device's name is a GPU's."""
    return DeviceSpec.from_string(device).device_type == "GPU"


def devices_of(destinations: Any) -> tuple[str, ...]:
    """List the devices that are meant by names, values, or variables.

    Raises:
        ValueError: none is meant.
    """
    if isinstance(destinations, str):
        return (canonical(destinations),)
    if isinstance(destinations, (list, tuple)):
        found = tuple(canonical(d) for d in destinations)
        if not found:
            raise ValueError("destinations can not be empty")
        return found
    if isinstance(destinations, DistributedValues) or getattr(destinations, "is_distributed_variable", False):
        return tuple(canonical(_device(v)) for v in destinations.values)
    return (canonical(_device(destinations)),)


def _device(value: Any) -> str:
    return str((value.values if isinstance(value, IndexedSlices) else value).device)
