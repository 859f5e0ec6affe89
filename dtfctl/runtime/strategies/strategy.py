"""`tf.distribute.Strategy`: in whose scope variables are made, and who calls functions for each replica."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops.grouping import group as grouped
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.contexts import Mode
from dtfctl.runtime.replication.reduce_op import ReduceOp, as_reduce_op
from dtfctl.runtime.replication.values import PerReplica, local_results, regroup
from dtfctl.runtime.strategies.extended import StrategyExtended
from dtfctl.runtime.strategies.inputs import DistributedDataset, ValueContext, dataset_iterator, input_fn_iterator


class Strategy:
    """A way to compute with several replicas of a model.

    Attributes:
        extended: what strategies' authors need, and programs seldom.
    """

    def __init__(self, extended: StrategyExtended) -> None:
        self.extended = extended

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are, those of other processes too, whose gradients make one step."""
        return self.extended.num_replicas_in_sync

    @property
    def cluster_resolver(self) -> Any:
        """What knows the cluster; None where the strategy is for one process."""
        return getattr(self.extended, "cluster_resolver", None)

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Let this strategy make the variables of a block, and be the one that `get_strategy` returns.

        Raises:
            RuntimeError: this is in another strategy's scope, or within a replica.
        """
        mode = contexts.current()
        contexts.require_none_but(self)
        if mode.strategy is self:
            # Entered again; within a replica that stays what it is.
            yield self
            return
        with contexts.entered(Mode(self)), self.extended.scopes():
            yield self

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Call a function for each replica; values of replicas among its arguments are given each its own.

        Returns:
            what it returned: values of replicas, or the object that all of them returned.

        Raises:
            ValueError: `args` is no list or tuple.
        """
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}")
        with self.scope():
            return self.extended.call_for_each_replica(fn, args, kwargs)

    def experimental_run_v2(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.run(fn, args, kwargs)

    def experimental_run(self, fn: Callable[..., Any], input_iterator: Any = None) -> Any:
        """Call a function for each replica with its part of the iterator's next element."""
        with self.scope():
            args = () if input_iterator is None else (input_iterator.get_next(),)
            return self.run(fn, args)

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """Reduce values of replicas to one.

        Args:
            axis: reduce each replica's value along this axis, too; replicas may have different numbers there.
        """
        op = as_reduce_op(reduce_op)
        with self._across():
            if axis is None:
                return self.extended.reduce_whole(op, value)
            if op is ReduceOp.SUM:
                sums = self._each(lambda v: apply_op("Sum", input=v, reduction_indices=axis), value)
                return self.extended.reduce_whole(op, sums)
            whole = self._each(lambda v: apply_op("Sum", input=_real(v), reduction_indices=axis), value)
            rows = self._each(lambda v: cast(_rows(v, axis), _real(v).dtype), value)
            total = self.extended.reduce_whole(ReduceOp.SUM, whole)
            count = self.extended.reduce_whole(ReduceOp.SUM, rows)
            return nest.map_structure(lambda t, c: apply_op("RealDiv", x=t, y=c), total, count)

    def _each(self, fn: Callable[[Any], Any], structure: Any) -> Any:
        def one(value: Any) -> Any:
            results = [fn(convert_to_tensor(v)) for v in local_results(value)]
            return PerReplica(results) if len(results) > 1 else results[0]

        return nest.map_structure(one, structure)

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenate values of replicas along an axis."""
        with self._across():
            extended = self.extended
            return nest.map_structure(
                lambda v: local_results(extended.gather_to(v, (extended.host_device,), axis))[0], value
            )

    def _across(self) -> contextlib.AbstractContextManager[None]:
        contexts.require_none_but(self)
        if contexts.current().strategy is self:
            contexts.require_cross_replica(self)
        return contexts.within(self)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """List the values of each replica of this process."""
        return local_results(value)

    def unwrap(self, value: Any) -> list[Any]:
        """List the values of each replica of this process: the old name of `experimental_local_results`."""
        return list(local_results(value))

    def group(self, value: Any, name: str | None = None) -> Any:
        """Make an op that waits for the values of all replicas of this process."""
        return grouped(*local_results(value), name=name)

    # Inputs -----------------------------------------------------------------------------------------------------------

    def make_dataset_iterator(self, dataset: Any) -> Any:
        """Make an iterator whose `get_next` gives each replica its part of each batch."""
        return dataset_iterator(self, dataset)

    def make_input_fn_iterator(self, input_fn: Callable[..., Any], replication_mode: Any = None) -> Any:
        """Make an iterator over what `input_fn(input_context)` returns: each replica gets an element of its own."""
        return input_fn_iterator(self, input_fn)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Return a dataset whose iterators give each replica its part of each batch; processes read their shares."""
        return DistributedDataset.of_dataset(self, dataset)

    def experimental_distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        """Return a dataset made of `dataset_fn(input_context)`: each replica gets an element of its own."""
        return DistributedDataset.of_function(self, dataset_fn)

    distribute_datasets_from_function = experimental_distribute_datasets_from_function

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """Make a dataset of rows of arrays."""
        return Dataset.from_tensor_slices(numpy_input)

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """Return values of replicas: each what `value_fn(value_context)` returns for it."""
        extended = self.extended
        ids = [extended.replica_context(i).replica_id_in_sync_group for i in range(len(extended.worker_devices))]
        return regroup([value_fn(ValueContext(i, self.num_replicas_in_sync)) for i in ids], always_wrap=True)

    # Sessions ---------------------------------------------------------------------------------------------------------

    def colocate_vars_with(self, colocate_with_variable: Any) -> contextlib.AbstractContextManager[None]:
        return self.extended.colocate_vars_with(colocate_with_variable)

    def update_config_proto(self, config_proto: Any) -> Any:
        """Return a copy of a session's configuration with what this strategy needs."""
        return self.extended.update_config(config_proto)

    def configure(
        self,
        session_config: Any = None,
        cluster_spec: Any = None,
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        """Write what this strategy needs into a session's configuration.

        Raises:
            NotImplementedError: a cluster is given; strategies take it from their `cluster_resolver` or TF_CONFIG.
        """
        if cluster_spec:
            raise NotImplementedError("Give the strategy a cluster_resolver, or set TF_CONFIG, where it is made")
        if session_config is not None:
            session_config.CopyFrom(self.update_config_proto(session_config))

    def __repr__(self) -> str:
        return f"<tf.distribute.{type(self).__name__} of {', '.join(self.extended.worker_devices) or 'no device'}>"


def _real(value: Any) -> Any:
    return value if value.dtype.base_dtype.is_floating or value.dtype.base_dtype.is_complex else cast(value, "float64")


def _rows(value: Any, axis: int) -> Any:
    shape = apply_op("Shape", input=value)
    return apply_op("GatherV2", params=shape, indices=axis, axis=0)


class _DefaultExtended(StrategyExtended):
    """One replica, wherever the program says; nothing is done about it."""

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        return next_creator(**arguments)

    def _call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with contexts.entered(Mode(self._container, self.replica_context(0))):
            return fn(*args, **kwargs)

    def _reduce(self, op: ReduceOp, value: Any, destinations: Any, options: Any) -> Any:
        return value

    def broadcast_to(self, tensor: Any, destinations: Any = None) -> Any:
        return tensor

    def gather_to(self, value: Any, destinations: Any, axis: int) -> Any:
        return value


class _DefaultStrategy(Strategy):
    def __init__(self) -> None:
        super().__init__(_DefaultExtended(self, ("",)))

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        if contexts.has_strategy():
            contexts.require_none_but(self)
        with contexts.entered(Mode(self)):
            yield self

    def _across(self) -> contextlib.AbstractContextManager[None]:
        contexts.require_none_but(self)
        return contexts.entered(Mode(self))


contexts.set_default_strategy(_DefaultStrategy)
