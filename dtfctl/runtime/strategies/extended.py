"""What strategies and their authors need beyond `tf.distribute.Strategy`: `strategy.extended`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import variable_scope
from dtfctl.runtime.ops.grouping import group as grouped
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp, as_reduce_op
from dtfctl.runtime.replication.values import (
    DistributedValues,
    Mirrored,
    PerReplica,
    local_results,
    regroup,
    select_replica,
    value_container,
)
from dtfctl.runtime.strategies.cross_device_ops import CrossDeviceOps, ReductionToOneDevice
from dtfctl.runtime.strategies.devices import host_of
from dtfctl.runtime.strategies.replica_context import Merge, ReplicaContext
from dtfctl.runtime.strategies.replicas import call_for_each_replica


class StrategyExtended:
    """Subclasses say which devices there are, how variables are made, and how values are reduced.

    Attributes:
        worker_devices: the device of each replica of this process.
        cross_device_ops: what reduces values.
        experimental_between_graph: whether each task's process builds a graph of its own.
        shards_optimizer_state: whether a variable's slots are on one device alone.
    """

    experimental_between_graph = False
    experimental_require_static_shapes = False
    shards_optimizer_state = False
    _partitions_variables = False

    def __init__(self, container: Any, devices: Sequence[str], cross_device_ops: CrossDeviceOps | None = None) -> None:
        self._container = container
        self._devices = tuple(devices)
        self._cross_device_ops = cross_device_ops or ReductionToOneDevice()

    # Where ------------------------------------------------------------------------------------------------------------

    @property
    def worker_devices(self) -> tuple[str, ...]:
        return self._devices

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        return self._devices

    @property
    def num_replicas_in_sync(self) -> int:
        return len(self._devices)

    @property
    def num_input_pipelines(self) -> int:
        """How many processes read inputs, each its share."""
        return 1

    @property
    def input_pipeline_id(self) -> int:
        return 0

    @property
    def host_device(self) -> str:
        """The CPU beside the first replica: where inputs are read, and values are reduced to."""
        return host_of(self._devices[0]) if self._devices[0] else ""

    @property
    def experimental_should_init(self) -> bool:
        return True

    @property
    def should_checkpoint(self) -> bool:
        return True

    @property
    def should_save_summary(self) -> bool:
        return True

    def non_slot_devices(self, var_list: Any) -> Any:
        """Return where state of an optimizer is that belongs to no variable."""
        return self._devices

    def replica_context(self, local_id: int, merge: Merge | None = None) -> ReplicaContext:
        """Make the context of one of this process's replicas."""
        return ReplicaContext(self._container, self.input_pipeline_id * len(self._devices) + local_id, local_id, merge)

    # Variables --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scopes(self) -> Iterator[None]:
        """Let this strategy make the variables of a block."""
        graph = context.get_default_graph()
        if graph.executes:
            raise RuntimeError(f"{type(self._container).__name__} builds graphs: leave out tf.enable_eager_execution()")
        with contextlib.ExitStack() as stack:
            stack.enter_context(graph.variable_creator_scope(self._creator))
            if not self._partitions_variables:
                scope = variable_scope.get_variable_scope()
                getter = _unpartitioned
                stack.enter_context(
                    variable_scope.variable_scope(scope, custom_getter=getter, auxiliary_name_scope=False)
                )
            yield

    def _creator(self, next_creator: Callable[..., Any], **arguments: Any) -> Any:
        contexts.require_none_but(self._container)
        if arguments.get("use_resource") is None or arguments["use_resource"] is False:
            arguments["use_resource"] = True
        return self.create_variable(next_creator, arguments)

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Make a variable of this strategy; `next_creator(**arguments)` makes one copy."""
        raise NotImplementedError

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Make the variables of a block where that variable is.

        Raises:
            ValueError: it was not made in this strategy's scope.
        """
        if getattr(value_container(colocate_with_variable), "distribute_strategy", None) is not self._container:
            raise ValueError(
                "`colocate_vars_with` must only be passed a variable created in this tf.distribute.Strategy.scope(), "
                f"not: {colocate_with_variable!r}"
            )

        def creator(next_creator: Callable[..., Any], **arguments: Any) -> Any:
            arguments["colocate_with"] = colocate_with_variable
            return next_creator(**arguments)

        with context.get_default_graph().variable_creator_scope(creator):
            yield

    def slots_beside(self, variable: Any) -> contextlib.AbstractContextManager[None]:
        """Make the slots of a variable, which an optimizer keeps, in a block."""
        return self.colocate_vars_with(variable)

    def variable_created_in_scope(self, v: Any) -> bool:
        return getattr(value_container(v), "distribute_strategy", None) is self._container

    def read_var(self, v: Any) -> Tensor:
        """Read what a variable is for all replicas."""
        return v.read_value()  # type: ignore[no-any-return]

    def value_container(self, value: Any) -> Any:
        return value_container(value)

    # Calls ------------------------------------------------------------------------------------------------------------

    def call_for_each_replica(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function for each replica, and return what all returned as one structure of their values."""
        contexts.require_cross_replica(self._container)
        return self._call(fn, args, kwargs or {})

    def _call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return call_for_each_replica(self._container, self._devices, fn, args, kwargs)

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call `fn(copy, *args, **kwargs)` for each copy of a variable, where it is; values are given each its own.

        Args:
            group: make one of the results, which waits for all; else a list of them is returned.
        """
        contexts.require_cross_replica(self._container)
        graph = context.get_default_graph()
        if not getattr(var, "is_distributed_variable", False):
            raise ValueError(f"{var!r} was not made in the scope of {self._container}")
        results = []
        for i, copy in enumerate(var.values):
            with (
                graph.colocate_with(None, ignore_existing=True),
                graph.device(copy.device),
                contexts.updating(i),
                graph.name_scope(f"update_{i}"),
            ):
                results.append(fn(copy, *select_replica(i, tuple(args)), **select_replica(i, dict(kwargs or {}))))
        return self._update_results(results, group)

    def update_non_slot(
        self,
        colocate_with: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call `fn(*args, **kwargs)` on each of the devices that `non_slot_devices` has named."""
        contexts.require_cross_replica(self._container)
        graph = context.get_default_graph()
        results = []
        for i, device in enumerate(colocate_with):
            with graph.device(device), contexts.updating(i), graph.name_scope(f"update_{i}"):
                results.append(fn(*select_replica(i, tuple(args)), **select_replica(i, dict(kwargs or {}))))
        return self._update_results(results, group)

    def _update_results(self, results: list[Any], group: bool) -> Any:
        if not group:
            return results
        if len(results) == 1:
            return results[0]

        def together(values: Sequence[Any]) -> Any:
            done = grouped(*values)
            if not all(isinstance(v, Tensor) for v in values):
                return done
            graph = context.get_default_graph()
            after = []
            for v in values:
                with graph.device(v.device), graph.control_dependencies([done]):
                    after.append(_identity(v))
            return Mirrored(after)

        return regroup(results, together)

    # Reductions -------------------------------------------------------------------------------------------------------

    def reduce_to(
        self, reduce_op: Any, value: Any, destinations: Any, options: CommunicationOptions | None = None
    ) -> Any:
        """Reduce values of replicas; the result is on each destination."""
        contexts.require_cross_replica(self._container)
        op = as_reduce_op(reduce_op)
        return nest.map_structure(lambda v: self._reduce(op, v, destinations, options), value)

    def _reduce(self, op: ReduceOp, value: Any, destinations: Any, options: CommunicationOptions | None) -> Any:
        if isinstance(value, Mirrored):
            if op is ReduceOp.MEAN:
                return value
            raise ValueError(f"A value that is the same in all replicas cannot be added up: {value}")
        if getattr(value, "is_distributed_variable", False):
            value = PerReplica([v.value() for v in value.values])
        if not isinstance(value, DistributedValues):
            return self._reduce_single(op, value, destinations, options)
        return self._cross_device_ops.reduce(op, value, destinations, options)

    def _reduce_single(self, op: ReduceOp, value: Any, destinations: Any, options: Any) -> Any:
        """Reduce what is one value, not one of each replica."""
        if len(self._devices) > 1 and op is ReduceOp.SUM:
            if isinstance(value, (int, float)) and value == 0:
                return 0
            raise ValueError(f"A non-DistributedValues value {value} cannot be reduced with the given reduce op {op}.")
        if len(self._devices) > 1 or isinstance(value, (int, float)):
            return value
        return self._cross_device_ops.reduce(op, value, destinations, options)

    def batch_reduce_to(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: CommunicationOptions | None = None,
    ) -> list[Any]:
        """Reduce many values, each to its destinations."""
        contexts.require_cross_replica(self._container)
        op = as_reduce_op(reduce_op)
        pairs = list(value_destination_pairs)
        if all(isinstance(v, DistributedValues) and not isinstance(v, Mirrored) for v, _ in pairs) and pairs:
            return self._cross_device_ops.batch_reduce(op, pairs, options)
        return [self._reduce(op, v, d, options) for v, d in pairs]

    def reduce_gradients(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Add up the gradients of all replicas, for `update_by_gradient` of their variables."""
        return self.batch_reduce_to(ReduceOp.SUM, pairs)

    def update_by_gradient(self, variable: Any, fn: Callable[..., Any], gradient: Any) -> list[Any]:
        """Let `fn(copy, gradient)` update a variable, and list the ops that have to run for it."""
        return self.update(variable, fn, args=(gradient,), group=False)  # type: ignore[no-any-return]

    def broadcast_to(self, tensor: Any, destinations: Any = None) -> Any:
        """Bring a value to each destination; to each replica where none is named."""
        contexts.require_cross_replica(self._container)
        if isinstance(tensor, (int, float)):
            return tensor
        return self._cross_device_ops.broadcast(tensor, self._devices if destinations is None else destinations)

    def gather_to(self, value: Any, destinations: Any, axis: int) -> Any:
        """Concatenate values of replicas along an axis; the result is on each destination."""
        contexts.require_cross_replica(self._container)
        return self._cross_device_ops.gather(value, destinations, axis)

    def reduce_values(self, op: ReduceOp, values: Sequence[Any]) -> Any:
        """Reduce values of this process's replicas, and those of all others, to one on the CPU."""
        return self._reduce(op, PerReplica(values), (self.host_device,), None)

    def reduce_to_save(self, op: ReduceOp, values: Sequence[Any], name: str) -> Any:
        """Reduce values of this process's replicas to what a checkpoint has."""
        return self.reduce_values(op, values)

    def session_creator(self, *arguments: Any) -> Any:
        """Make what makes sessions for training, where this strategy needs one of its own; else None."""
        return None

    def session_hooks(self) -> list[Any]:
        """Make the hooks that this strategy needs in sessions for training."""
        return []

    def reduce_whole(self, op: ReduceOp, value: Any) -> Any:
        """Reduce a structure to one of tensors, which this process may fetch."""
        return nest.map_structure(lambda v: local_results(self._reduce(op, v, (self.host_device,), None))[0], value)

    # Of sessions ------------------------------------------------------------------------------------------------------

    def update_config(self, config: Any) -> Any:
        """Return a copy of a session's configuration with what this strategy needs."""
        copy = type(config)()
        copy.CopyFrom(config)
        return copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._devices)}>"


def _identity(value: Tensor) -> Tensor:
    return apply_op("Identity", input=value)


def _unpartitioned(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if kwargs.pop("partitioner", None) is not None:
        warnings.warn("Partitioned variables are disabled when using current tf.distribute.Strategy.", stacklevel=4)
    return getter(*args, partitioner=None, **kwargs)
