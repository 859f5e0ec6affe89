"""A replica on each of several devices, with a copy of every variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.protocol.config_pb2 import ConfigProto
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.replication.values import value_container
from dtfctl.runtime.services.gpu import find_gpus
from dtfctl.runtime.strategies.cross_device_ops import CrossDeviceOps
from dtfctl.runtime.strategies.devices import canonical, task_of
from dtfctl.runtime.strategies.extended import StrategyExtended
from dtfctl.runtime.strategies.variables import make_distributed
from dtfctl.runtime.train.cluster_resolver import TFConfigClusterResolver


class MirroredExtended(StrategyExtended):
    """Every variable has a copy on every device; all of them are updated by what all replicas found."""

    def __init__(self, container: Any, devices: Sequence[str], cross_device_ops: CrossDeviceOps | None = None) -> None:
        if not devices:
            raise ValueError("Must specify at least one device.")
        if len(set(devices)) != len(devices):
            raise ValueError(f"No duplicates allowed in `devices` argument: {', '.join(devices)}")
        super().__init__(container, devices, cross_device_ops)

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        beside = arguments.pop("colocate_with", None)
        devices = self._devices if beside is None else value_container(beside)._devices
        graph = context.get_default_graph()

        def copies(**given: Any) -> list[Any]:
            made: list[Any] = []
            for i, device in enumerate(devices):
                with graph.colocate_with(None, ignore_existing=True), graph.device(device):
                    if i:
                        given["initial_value"] = self._initial_value(made[0], device)
                        given["name"] = f"{made[0]._shared_name}/replica_{i}/"
                    else:
                        given = self._first(given)
                    made.append(next_creator(**given))
            return made

        return make_distributed(self._container, copies, arguments)

    def _first(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the first copy."""
        return given

    def _initial_value(self, first: Any, device: str) -> Callable[[], Any]:
        """Return what makes another copy's initial value."""

        def value() -> Any:
            with context.get_default_graph().device(device):
                return apply_op("Identity", input=first.initial_value)

        return value

    def update_config(self, config: Any) -> Any:
        copy = super().update_config(config)
        copy.isolate_session_state = len({task_of(d) for d in self._devices}) == 1
        return copy


def own_devices(task: str | None = None) -> list[str]:
    """List the devices of this process's task: its GPUs, or its CPU where it has none.

    Args:
        task: that task's name; what TF_CONFIG says when None.
    """
    if task is None:
        resolver = TFConfigClusterResolver()
        known = bool(resolver.cluster_spec()) and resolver.task_type is not None
        task = f"/job:{resolver.task_type}/replica:0/task:{resolver.task_id or 0}" if known else ""
    gpus = find_gpus("localhost", 0, ConfigProto())
    names = [f"GPU:{i}" for i in range(len(gpus))] or ["CPU:0"]
    return [canonical(f"{task}/device:{name}") for name in names]
