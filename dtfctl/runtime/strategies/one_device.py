"""`tf.distribute.OneDeviceStrategy`: one replica on a device that is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.contexts import Mode
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp
from dtfctl.runtime.strategies.devices import canonical
from dtfctl.runtime.strategies.extended import StrategyExtended
from dtfctl.runtime.strategies.strategy import Strategy


class OneDeviceStrategy(Strategy):
    """One replica on one device: variables and what is called in `run` are placed there.

    Args:
        device: its name, such as "/gpu:0" or "/job:worker/task:1".
    """

    def __init__(self, device: str) -> None:
        super().__init__(OneDeviceExtended(self, (canonical(device),)))


class OneDeviceExtended(StrategyExtended):
    """Variables are what they are without a strategy, on the device."""

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        beside = arguments.pop("colocate_with", None)
        graph = context.get_default_graph()
        with graph.colocate_with(None, ignore_existing=True), graph.device(self._devices[0]):
            variable = next_creator(**arguments)
        variable.distribute_strategy = self._container
        del beside
        return variable

    def _call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        mode = Mode(self._container, self.replica_context(0))
        with context.get_default_graph().device(self._devices[0]), contexts.entered(mode):
            return fn(*args, **kwargs)

    def _reduce(self, op: ReduceOp, value: Any, destinations: Any, options: CommunicationOptions | None) -> Any:
        return value

    def broadcast_to(self, tensor: Any, destinations: Any = None) -> Any:
        return tensor

    def gather_to(self, value: Any, destinations: Any, axis: int) -> Any:
        return value

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        return self._once(lambda: fn(var, *args, **(kwargs or {})), group)

    def update_non_slot(
        self,
        colocate_with: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        return self._once(lambda: fn(*args, **(kwargs or {})), group)

    def _once(self, call: Callable[[], Any], group: bool) -> Any:
        contexts.require_cross_replica(self._container)
        with context.get_default_graph().device(self._devices[0]), contexts.updating(0):
            result = call()
        return result if group else [result]
