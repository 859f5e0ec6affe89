"""The devices of a session, as placement sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dtfctl.protocol import device_pb2
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import InvalidArgumentError

# Of two devices that would do, the one of the higher number is taken.
_TYPE_ORDER = {"GPU": 210, "CPU": 70}


@dataclass(frozen=True)
class DeviceInfo:
    """A device: its full name, kind, and the number of its present life."""

    name: str
    device_type: str
    incarnation: int

    @classmethod
    def from_proto(cls, proto: device_pb2.DeviceAttributes) -> DeviceInfo:
        return cls(proto.name, proto.device_type, proto.incarnation)


@lru_cache(maxsize=65536)
def parse_device(text: str) -> DeviceSpec:
    """Parse a device specification.

    Raises:
        ValueError: it is malformed.
    """
    return DeviceSpec.from_string(text)


@lru_cache(maxsize=65536)
def task_of(device: str) -> str:
    """Return the task part, `/job:J/replica:R/task:T`, of a full device name."""
    return device[: device.index("/device:")] if "/device:" in device else device


def cpu_of(device: str) -> str:
    """Name the first CPU of the task that a device, by its full name, is of."""
    return device if "/device:CPU:" in device else f"{task_of(device)}/device:CPU:0"


class DeviceSet:
    """The devices a session may use.

    Args:
        devices: all of them, in any order.
        master_task: the task whose devices are preferred; its first CPU is where feeds and fetches pass.
        filters: partial task names ("/job:ps", "/job:worker/task:0"); when there are any, only devices they match and
            those of the master's task count.

    Raises:
        InvalidArgumentError: the master's task has no CPU, or a filter is malformed.
    """

    def __init__(self, devices: Iterable[DeviceInfo], master_task: str, filters: Sequence[str] = ()) -> None:
        found = list(devices)
        if filters:
            try:
                wanted = [parse_device(f) for f in filters]
            except ValueError as e:
                raise InvalidArgumentError(f"Bad device filter: {e}") from e
            found = [
                d
                for d in found
                if task_of(d.name) == master_task or any(w.matches(parse_device(d.name)) for w in wanted)
            ]
        self.master_task = master_task
        self.devices: tuple[DeviceInfo, ...] = tuple(
            sorted(found, key=lambda d: (-_TYPE_ORDER.get(d.device_type, 0), task_of(d.name) != master_task, d.name))
        )
        self.by_name = {d.name: d for d in self.devices}
        self._specs = [(d, parse_device(d.name)) for d in self.devices]
        self._matching: dict[DeviceSpec, tuple[DeviceInfo, ...]] = {}
        local = [d for d in self.devices if d.device_type == "CPU" and task_of(d.name) == master_task]
        if not local:
            raise InvalidArgumentError(f"The task {master_task} has no CPU device")
        self.client = min(local, key=lambda d: parse_device(d.name).device_index or 0)

    @property
    def types(self) -> tuple[str, ...]:
        """Kinds of device, preferred ones first."""
        return tuple(dict.fromkeys(d.device_type for d in self.devices))

    def matching(self, spec: DeviceSpec) -> tuple[DeviceInfo, ...]:
        """Devices a partial name fits, in order of preference."""
        known = self._matching.get(spec)
        if known is None:
            known = self._matching[spec] = tuple(d for d, full in self._specs if spec.matches(full))
        return known

    def ends(self) -> dict[str, tuple[str, int]]:
        """Return for each device the first CPU of its task, with its incarnation: where a client meets that task."""
        first: dict[str, DeviceInfo] = {}
        for device in sorted(self.devices, key=lambda d: parse_device(d.name).device_index or 0):
            if device.device_type == "CPU":
                first.setdefault(task_of(device.name), device)
        ends = {task: (device.name, device.incarnation) for task, device in first.items()}
        return {d.name: ends[task_of(d.name)] for d in self.devices}

    def incarnations(self) -> dict[str, int]:
        return {d.name: d.incarnation for d in self.devices}

    def names(self) -> list[str]:
        return sorted(self.by_name)
