"""CollectiveInitializeCommunicator, CollectiveAssignGroupV2: which devices compute together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


class CommunicatorResource(Resource):
    """A group whose members know their ranks, and the number of its next computation."""

    type_name = "CollectiveResource"

    def __init__(self, group_key: int, rank: int, group_size: int, hint: str, timeout_s: float) -> None:
        self.group_key = group_key
        self.rank = rank
        self.group_size = group_size
        self.hint = hint
        self.timeout_s = timeout_s
        self.instances = itertools.count()

    def describe(self) -> str:
        return f"member {self.rank} of group {self.group_key}"


@register_kernel("CollectiveInitializeCommunicator")
def initialize_communicator(k: KernelBuild) -> Kernel:
    hint, timeout_s = k.text_attr("communication_hint"), float(k.attr("timeout_seconds"))

    def kernel(group_key: Any, rank: Any, group_size: Any) -> Any:
        for name, value in (("group_key", group_key), ("rank", rank), ("group_size", group_size)):
            if np.ndim(value):
                raise InvalidArgumentError(f"Unexpected dimensions on input {name}")
        if not 0 <= rank < group_size:
            raise InvalidArgumentError(f"rank must be in [0, group_size), got {rank} of {group_size}")
        made = CommunicatorResource(int(group_key), int(rank), int(group_size), hint, timeout_s)
        name = f"{k.node.name}/{int(group_key)}"
        k.resources.replace(k.resources.default_container, name, made)
        return object_scalar(ResourceHandle(k.device.name, k.resources.default_container, name, made.type_name))

    return kernel


@register_kernel("CollectiveAssignGroupV2", alike=True)
def assign_group(k: KernelBuild) -> Kernel:
    def kernel(assignment: Any, device_index: Any, base_key: Any) -> tuple[Any, Any]:
        if assignment.ndim != 2:
            raise InvalidArgumentError("group_assignment must be a matrix")
        found = np.argwhere(assignment == device_index)
        if len(found) != 1:
            raise InvalidArgumentError(
                f"device_index {int(device_index)} is not found in group_assignment, or is there more than once"
            )
        return np.int32(assignment.shape[1]), np.int32(base_key + found[0, 0])

    return kernel
