"""What a program says of this process's devices and threads, for all sessions that say nothing themselves.

The counterpart of what TensorFlow keeps in its context: `tf.config` writes them, and a session that is opened without a
ConfigProto begins with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dtfctl.protocol import config_pb2
from dtfctl.runtime.services import gpu


@dataclass(frozen=True)
class PhysicalDevice:
    """A device of this machine, whether or not the program uses it: `/physical_device:GPU:0`, "GPU"."""

    name: str
    device_type: str


@dataclass(frozen=True)
class LogicalDevice:
    """A device that ops can be placed on: `/device:GPU:0`, "GPU"."""

    name: str
    device_type: str


@cache
def _all() -> tuple[PhysicalDevice, ...]:
    count = gpu.count_of_process()
    gpus = [PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(count)]
    return (PhysicalDevice("/physical_device:CPU:0", "CPU"), *gpus)


class DeviceSettings:
    """The settings, and the ConfigProto that they make."""

    def __init__(self) -> None:
        self.intra_op, self.inter_op = 0, 0
        self.soft_placement: bool | None = None
        self.memory_growth: dict[PhysicalDevice, bool] = {}
        self._visible: dict[str, list[PhysicalDevice]] = {}

    def physical(self, device_type: str | None = None) -> list[PhysicalDevice]:
        """List this machine's devices of a type, or all."""
        return [d for d in _all() if device_type in (None, d.device_type)]

    def visible(self, device_type: str | None = None) -> list[PhysicalDevice]:
        """List the devices that sessions use."""
        kinds = ["CPU", "GPU"] if device_type is None else [device_type]
        return [d for kind in kinds for d in self._visible.get(kind, self.physical(kind))]

    def logical(self, device_type: str | None = None) -> list[LogicalDevice]:
        """List the devices of sessions by the names that ops are placed with."""
        found: list[LogicalDevice] = []
        for kind in ("CPU", "GPU"):
            if device_type in (None, kind):
                count = len(self.visible(kind))
                found += [LogicalDevice(f"/device:{kind}:{i}", kind) for i in range(count)]
        return found

    def set_visible(self, devices: Sequence[PhysicalDevice] | PhysicalDevice, device_type: str | None = None) -> None:
        """Let sessions use these devices only, of a type or of all.

        Raises:
            ValueError: one is no device of this machine or of that type, or no CPU would be left.
        """
        chosen = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
        for device in chosen:
            if device not in _all():
                raise ValueError(f"Unrecognized device: {device!r}. tf.config.list_physical_devices() lists them")
            if device_type not in (None, device.device_type):
                raise ValueError(f"Device {device.name} is no {device_type}")
        for kind in ["CPU", "GPU"] if device_type is None else [device_type]:
            of_kind = [d for d in chosen if d.device_type == kind]
            if kind == "CPU" and not of_kind:
                raise ValueError("The CPU cannot be hidden: it runs what has no kernel elsewhere")
            self._visible[kind] = of_kind

    def config(self) -> config_pb2.ConfigProto:
        """Make what a session begins with."""
        config = config_pb2.ConfigProto(
            intra_op_parallelism_threads=self.intra_op, inter_op_parallelism_threads=self.inter_op
        )
        if self.soft_placement is not None:
            config.allow_soft_placement = self.soft_placement
        if any(self.memory_growth.values()):
            config.gpu_options.allow_growth = True
        gpus = self._visible.get("GPU")
        if gpus == []:
            config.device_count["GPU"] = 0
        elif gpus:
            config.gpu_options.visible_device_list = ",".join(d.name.rpartition(":")[2] for d in gpus)
        return config


SETTINGS = DeviceSettings()
