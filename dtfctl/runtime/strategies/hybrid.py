"""`tf.distribute.experimental.HybridStrategy`: some variables on parameter servers, copies of others on replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.replication.values import value_container
from dtfctl.runtime.strategies.cross_device_ops import CrossDeviceOps
from dtfctl.runtime.strategies.devices import canonical
from dtfctl.runtime.strategies.mirrored import MirroredExtended
from dtfctl.runtime.strategies.parameter_server import SharedExtended
from dtfctl.runtime.strategies.strategy import Strategy
from dtfctl.runtime.strategies.variables import MirroredVariable


class HybridStrategy(Strategy):
    """Replicas on devices of several tasks that one client drives, in step; large sparse variables are on ps tasks.

    A variable on a ps is there once: replicas look up rows, and send gradients of those rows alone. Of all other
    variables every replica has a copy, and gradients are reduced over the replicas' devices.

    Args:
        devices: a replica is on each, as "/job:worker/task:0".
        parameter_devices: where the shared variables are, as "/job:ps/task:0": each where fewest elements are.
        shared: which variables are shared: patterns of their names ("embedding/*"), or `rule(name, shape)`.
        cross_device_ops: what reduces gradients; `ReductionToOneDevice()` when None.

    Raises:
        ValueError: there are no devices, or one of them is named twice.
    """

    def __init__(
        self,
        devices: Sequence[str],
        parameter_devices: Sequence[str],
        shared: Sequence[str] | Callable[[str, TensorShape], bool],
        cross_device_ops: CrossDeviceOps | None = None,
    ) -> None:
        if not parameter_devices:
            raise ValueError("Shared variables need a device: parameter_devices has none")
        if isinstance(shared, str):
            shared = [shared]
        rule = shared if callable(shared) else _by_name(tuple(shared))
        chosen, servers = [canonical(d) for d in devices], [canonical(d) for d in parameter_devices]
        super().__init__(HybridExtended(self, chosen, servers, rule, cross_device_ops))


class HybridExtended(MirroredExtended):
    """Makes shared variables as strategies with a ps do, and the others with copies."""

    def __init__(
        self,
        container: Any,
        devices: Sequence[str],
        servers: Sequence[str],
        rule: Callable[[str, TensorShape], bool],
        cross_device_ops: CrossDeviceOps | None,
    ) -> None:
        super().__init__(container, devices, cross_device_ops)
        self._rule, self._servers = rule, tuple(servers)
        self._loads = dict.fromkeys(servers, 0)
        self._shared = SharedExtended(container, devices, self._server_of)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        return self._servers

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        beside = arguments.get("colocate_with")
        if beside is not None:
            is_shared = not _has_copies(beside)
        else:
            name, shape = str(arguments.get("name") or "Variable"), _shape_of(arguments)
            is_shared = self._rule(name, shape)
            if is_shared:
                self._choose(shape)
        return (self._shared.create_variable if is_shared else super().create_variable)(next_creator, arguments)

    def _choose(self, shape: TensorShape) -> None:
        """Choose the server of the variable that is made next."""
        self._next = min(self._servers, key=lambda server: self._loads[server])
        self._loads[self._next] += (shape.num_elements() or 1) if shape.is_fully_defined() else 1

    def _server_of(self, op: Operation) -> str:
        return self._next

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        if _has_copies(var):
            return super().update(var, fn, args, kwargs, group)
        return self._shared.update(var, fn, args, kwargs, group)

    def non_slot_devices(self, var_list: Any) -> Any:
        # Where an optimizer makes what belongs to no variable: beside the first.
        first = min(var_list, key=lambda v: str(v.name))
        return super().non_slot_devices(var_list) if _has_copies(first) else (first.device,)


def _has_copies(variable: Any) -> bool:
    return bool(getattr(value_container(variable), "is_distributed_variable", False)) and (
        isinstance(value_container(variable), MirroredVariable) or len(value_container(variable).values) > 1
    )


def _by_name(patterns: Sequence[str]) -> Callable[[str, TensorShape], bool]:
    return lambda name, _shape: any(fnmatchcase(name, pattern) for pattern in patterns)


def _shape_of(arguments: Mapping[str, Any]) -> TensorShape:
    shape = arguments.get("shape")
    if shape is None:
        value = arguments.get("initial_value")
        shape = getattr(value, "shape", None)
    return TensorShape(shape)
