"""Variables with a copy for each replica, and what an update of one does to all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.func_graph import init_scope
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor, _session_for
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.ops.resource_variable import ResourceVariable
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import ReduceOp


class DistributedVariable(ResourceVariable):
    """A variable of which every replica has a copy.

    Within a replica, and while a copy is updated, it stands for that copy.

    Attributes:
        values: the copies of this process's replicas, in their order.
    """

    is_distributed_variable = True
    _read_by_sessions: Tensor | None = None

    def __init__(
        self,
        strategy: Any,
        values: Sequence[Any],
        aggregation: VariableAggregation,
        synchronization: VariableSynchronization = VariableSynchronization.ON_WRITE,
    ) -> None:
        first = values[0]
        if aggregation == VariableAggregation.MEAN and not first.dtype.base_dtype.is_floating:
            raise ValueError(
                f"creating distributed tf.Variable with aggregation=MEAN and a non-floating dtype "
                f"({first.name} is {first.dtype.name}) is not supported, please use a different aggregation or dtype"
            )
        self._strategy, self._values = strategy, tuple(values)
        self.aggregation, self.synchronization = aggregation, synchronization
        self.constraint, self._caching_device = first.constraint, None
        self._name, self._dtype, self._shape = first._name, first.dtype.base_dtype, first.shape
        self._trainable, self._initial_value = first.trainable, first.initial_value
        for value in self._values:
            value._distributed_container = self
        with init_scope(), context.get_default_graph().colocate_with(None, ignore_existing=True):
            self.initializer = (
                group(*[v.initializer for v in values], name=f"{self._shared_name}/group_init")
                if len(values) > 1
                else first.initializer
            )

    @property
    def values(self) -> tuple[Any, ...]:
        return self._values

    @property
    def _primary(self) -> Any:
        return self._values[0]

    @property
    def _devices(self) -> tuple[str, ...]:
        return tuple(v.device for v in self._values)

    @property
    def distribute_strategy(self) -> Any:
        return self._strategy

    def _here(self) -> int | None:
        """Find which of the copies is meant in the current context; None across replicas, and outside the strategy."""
        mode = contexts.current()
        if mode.strategy is not self._strategy:
            return None
        if mode.updates is not None:
            return mode.updates
        return None if mode.replica is None else mode.replica.local_id

    def _copy(self) -> Any:
        """Return the copy that is meant, the first one across replicas."""
        return self._values[self._here() or 0]

    # What a variable offers -------------------------------------------------------------------------------------------

    @property
    def handle(self) -> Tensor:  # type: ignore[override]
        if self._here() is None and len(self._values) > 1:
            raise ValueError(
                f"{type(self).__name__}.handle is not available outside the replica context or a "
                f"`tf.distribute.Strategy.update()`: {self.name} has {len(self._values)}"
            )
        return self._copy().handle  # type: ignore[no-any-return]

    @property
    def op(self) -> Operation:
        return self._copy().op  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        return self._copy().device  # type: ignore[no-any-return]

    @property
    def graph(self) -> Any:
        return self._primary.graph

    @property
    def is_mirrored(self) -> bool:
        return False

    def value(self) -> Tensor:
        here = self._here()
        return self._across() if here is None else self._values[here].value()

    def read_value(self) -> Tensor:
        here = self._here()
        return apply_op("Identity", input=self._across()) if here is None else self._values[here].read_value()

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        return self._copy().sparse_read(indices, name)  # type: ignore[no-any-return]

    def _across(self) -> Tensor:
        """Read the value across replicas."""
        raise NotImplementedError

    def _as_graph_element(self) -> Tensor:
        return self._copy()._as_graph_element()  # type: ignore[no-any-return]

    def _is_initialized(self) -> Tensor:
        flags = [v._is_initialized() for v in self._values]
        whole: Tensor = flags[0]
        for flag in flags[1:]:
            whole = apply_op("LogicalAnd", x=whole, y=flag)
        return whole

    def is_initialized(self, name: str | None = None) -> Tensor:
        return apply_op("Identity", input=self._is_initialized(), name=name)

    def load(self, value: Any, session: Any = None) -> None:
        starts = [v.initializer for v in self._values]
        _session_for(self.graph, session).run(starts, {start.inputs[1]: value for start in starts})

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Describe the first copy: what is exported is for one device."""
        return self._primary.to_proto(export_scope)

    def __repr__(self) -> str:
        return f"{type(self).__name__}:{{" + ", ".join(f"{i}: {v!r}" for i, v in enumerate(self._values)) + "}"

    __str__ = __repr__

    # Updates ----------------------------------------------------------------------------------------------------------

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._update("assign", value, name=name, read_value=read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("assign_add", delta, name=name, read_value=read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("assign_sub", delta, name=name, read_value=read_value)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._update("scatter_add", sparse_delta, name=name)

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._update("scatter_sub", sparse_delta, name=name)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._update("scatter_update", sparse_delta, name=name)

    def _after(self, op: Operation) -> Any:
        if self._here() is not None and contexts.current().updates is not None:
            return self._copy()._after(op)
        raise NotImplementedError(
            f"{op.type} changes one copy of {self.name} alone: use {self.name.split(':')[0]}.scatter_add, scatter_sub "
            "or scatter_update with tf.IndexedSlices, or strategy.extended.update"
        )

    def count_up_to(self, limit: int) -> Tensor:
        raise NotImplementedError(f"count_up_to of {self.name}: its copies would count apart; use assign_add")

    def _update(self, method: str, value: Any, **options: Any) -> Any:  # type: ignore[override]
        name = options.get("name")
        if name is not None and name.endswith("/") and len(self._values) > 1:
            # A whole name, which only one op can have.
            options["name"] = name.rstrip("/").rsplit("/", 1)[-1]

        def update(copy: Any, given: Any) -> Any:
            return getattr(copy, method)(given, **options)

        here = self._here()
        if here is None:
            with contexts.within(self._strategy):
                return self._update_across(method, update, value)
        if contexts.current().updates is not None:
            return update(self._values[here], value)
        return self._update_in_replica(method, update, value)

    def _update_in_replica(self, method: str, update: Callable[..., Any], value: Any) -> Any:
        raise NotImplementedError

    def _update_across(self, method: str, update: Callable[..., Any], value: Any) -> Any:
        return self._updated(self._strategy.extended.update(self, update, args=(value,), group=False))

    def _updated(self, results: Sequence[Any]) -> Any:
        """Make one of what updates of the copies gave: an op, or this variable after all of them."""
        if len(self._values) != len(results) or isinstance(results[0], Operation):
            return group(*results)
        done = group(*[r.op for r in results])
        after = object.__new__(type(self))
        after.__dict__.update(self.__dict__)
        after._values = tuple(v._after(done) for v in self._values)
        after._read_by_sessions = None
        return after


class MirroredVariable(DistributedVariable):
    """A variable whose copies are the same: what one replica assigns, all get, as its aggregation says."""

    @property
    def is_mirrored(self) -> bool:
        return True

    def _across(self) -> Tensor:
        return self._primary.value()  # type: ignore[no-any-return]

    def _saved_value(self) -> Tensor:
        return self._primary._saved_value()  # type: ignore[no-any-return]

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation:
        return _restored(self._values, value)

    def _update_in_replica(self, method: str, update: Callable[..., Any], value: Any) -> Any:
        if self.aggregation == VariableAggregation.NONE:
            raise ValueError(
                f"You must specify an aggregation method to update a MirroredVariable in Replica Context. You can do "
                "so by passing an explicit value for argument `aggregation` to tf.Variable(..). e.g. "
                f"`tf.Variable(..., aggregation=tf.VariableAggregation.SUM)` ({method} of {self.name})"
            )
        if self.aggregation != VariableAggregation.ONLY_FIRST_REPLICA and method in ("scatter_update",):
            raise NotImplementedError(
                f"{method} of {self.name} is only supported for mirrored variables (variables created within "
                f"`MirroredStrategy.scope()`) with NONE or ONLY_FIRST_REPLICA aggregation, got: {self.aggregation}."
            )

        def merge(strategy: Any, given: Any) -> Any:
            return self._update_across(method, update, aggregated(strategy, given, self))

        return contexts.get_replica_context().merge_call(merge, args=(value,))


class SyncOnReadVariable(DistributedVariable):
    """A variable whose copies go their own ways: what is read across replicas is made of all of them."""

    def _across(self) -> Tensor:
        if self.aggregation == VariableAggregation.ONLY_FIRST_REPLICA:
            return self._primary.value()  # type: ignore[no-any-return]
        with contexts.within(self._strategy):
            reduction = ReduceOp.from_variable_aggregation(self.aggregation)
            value: Tensor = self._strategy.extended.reduce_values(reduction, [v.value() for v in self._values])
            return value

    def _as_graph_element(self) -> Tensor:
        if self._here() is not None:
            return super()._as_graph_element()
        if self._read_by_sessions is None:
            graph = self.graph
            with graph.as_default(), graph.control_dependencies(None), graph.name_scope(f"{self._shared_name}/Whole/"):
                self._read_by_sessions = self._across()
        return self._read_by_sessions

    def _saved_value(self) -> Tensor:
        if self.aggregation == VariableAggregation.ONLY_FIRST_REPLICA:
            return self._primary._saved_value()  # type: ignore[no-any-return]
        with contexts.within(self._strategy):
            reduction = ReduceOp.from_variable_aggregation(self.aggregation)
            values = [v.value() for v in self._values]
            saved: Tensor = self._strategy.extended.reduce_to_save(reduction, values, self.name)
            return saved

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation:
        return _restored(self._values, self._part(value))

    def _part(self, value: Any) -> Any:
        """Return what each copy gets so that all of them together are `value`."""
        if self.aggregation != VariableAggregation.SUM:
            return value
        count = self._strategy.num_replicas_in_sync
        return cast(apply_op("RealDiv", x=cast(value, self._exact), y=cast(count, self._exact)), self._dtype)

    @property
    def _exact(self) -> Any:
        return self._dtype if self._dtype.is_floating or self._dtype.is_complex else dtypes.float64

    def _update_in_replica(self, method: str, update: Callable[..., Any], value: Any) -> Any:
        return update(self._copy(), value)

    def _update_across(self, method: str, update: Callable[..., Any], value: Any) -> Any:
        if self.aggregation == VariableAggregation.SUM:
            if method != "assign":
                raise ValueError(
                    f"SyncOnReadVariable does not support `{method}` in cross-replica context when aggregation is set "
                    f"to `tf.VariableAggregation.SUM`: {self.name}"
                )
            value = self._part(value)
        return super()._update_across(method, update, value)


class AggregatingVariable(DistributedVariable):
    """One variable that all replicas of a task share, on a ps or the CPU: their updates are made one."""

    def __init__(self, strategy: Any, variable: Any, aggregation: VariableAggregation) -> None:
        super().__init__(strategy, [variable], aggregation)

    def _here(self) -> int | None:
        return None if super()._here() is None else 0

    def _across(self) -> Tensor:
        return self._primary.value()  # type: ignore[no-any-return]

    def _saved_value(self) -> Tensor:
        return self._primary._saved_value()  # type: ignore[no-any-return]

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation:
        return self._primary._restore(value, validate_shape)  # type: ignore[no-any-return]

    _update_in_replica = MirroredVariable._update_in_replica


def aggregated(strategy: Any, value: Any, variable: DistributedVariable) -> Any:
    """Make one value of what replicas assign to a variable, as its aggregation says, on all of its devices."""
    if variable.aggregation == VariableAggregation.ONLY_FIRST_REPLICA:
        first = getattr(value, "_primary", value)
        return strategy.extended.broadcast_to(first, destinations=variable)
    if isinstance(value, (int, float)) and strategy.num_replicas_in_sync > len(strategy.extended.worker_devices):
        # Other processes may say another number.
        value = convert_to_tensor(value, variable.dtype)
    if isinstance(value, (int, float)):
        # The same number in all replicas: their mean is it, their sum as many times it.
        many = strategy.num_replicas_in_sync if variable.aggregation == VariableAggregation.SUM else 1
        return value * many
    reduction = ReduceOp.from_variable_aggregation(variable.aggregation)
    return strategy.extended.reduce_to(reduction, value, variable)


def _restored(copies: Sequence[Any], value: Tensor) -> Operation:
    graph = context.get_default_graph()
    starts = []
    for copy in copies:
        with graph.device(copy.device):
            starts.append(copy._restore(apply_op("Identity", input=value), False))
    return starts[0] if len(starts) == 1 else group(*starts)


def make_distributed(strategy: Any, make: Callable[..., list[Any]], arguments: dict[str, Any]) -> DistributedVariable:
    """Make a variable with copies: `make(**arguments)` makes those.

    Raises:
        ValueError: the synchronization is NONE.
    """
    synchronization = arguments.get("synchronization") or VariableSynchronization.AUTO
    aggregation = arguments.get("aggregation") or VariableAggregation.NONE
    if synchronization == VariableSynchronization.NONE:
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please change the "
            f"`synchronization` for variable: {arguments.get('name')}"
        )
    if not isinstance(synchronization, VariableSynchronization):
        raise ValueError(
            f"Invalid variable synchronization mode: {synchronization} for variable: {arguments.get('name')}"
        )
    if not isinstance(aggregation, VariableAggregation):
        raise ValueError(f"Invalid variable aggregation mode: {aggregation} for variable: {arguments.get('name')}")
    on_read = synchronization == VariableSynchronization.ON_READ
    if arguments.get("trainable") is None:
        arguments["trainable"] = not on_read
    keys = arguments.pop("collections", None)
    keys = [GraphKeys.GLOBAL_VARIABLES] if keys is None else list(keys)
    if arguments["trainable"] and GraphKeys.TRAINABLE_VARIABLES not in keys:
        keys.append(GraphKeys.TRAINABLE_VARIABLES)
    arguments.pop("caching_device", None)
    trainable = arguments["trainable"]
    copies = make(**{**arguments, "collections": [], "trainable": False})
    for copy in copies:
        copy._trainable = trainable
    kind = SyncOnReadVariable if on_read else MirroredVariable
    kept = VariableSynchronization.ON_READ if on_read else VariableSynchronization.ON_WRITE
    whole = kind(strategy, copies, aggregation, kept)
    with init_scope():
        context.get_default_graph().add_to_collections(keys, whole)
    return whole
