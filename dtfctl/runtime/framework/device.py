"""A device of this process: where kernels run and named state lives."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

import numpy

from dtfctl.protocol import device_pb2
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.resource_manager import ResourceManager


def _new_incarnation() -> int:
    return secrets.randbits(63) | 1


@dataclass(eq=False)
class Device:
    """One CPU or GPU (several virtual CPU devices may share the processor).

    Attributes:
        name: full device name.
        memory_limit: bytes, as reported to clients.
        incarnation: random, new at every start of the process; names this life of the device.
        resources: state shared by all sessions that do not ask for isolation.
        array_module: numpy, or cupy for a GPU; kernels compute through it.
        physical_index: CUDA's number of a GPU, which visible_device_list may make another than the device's index.
    """

    name: str
    memory_limit: int = 256 << 20
    description: str = ""
    incarnation: int = field(default_factory=_new_incarnation)
    resources: ResourceManager = field(default_factory=ResourceManager)
    array_module: ModuleType = numpy
    physical_index: int = 0

    @cached_property
    def spec(self) -> DeviceSpec:
        return DeviceSpec.from_string(self.name)

    @cached_property
    def device_type(self) -> str:
        return str(self.spec.device_type)

    def to_proto(self) -> device_pb2.DeviceAttributes:
        return device_pb2.DeviceAttributes(
            name=self.name,
            device_type=self.device_type,
            memory_limit=self.memory_limit,
            incarnation=self.incarnation,
            physical_device_desc=self.description,
            xla_global_id=-1,
        )
