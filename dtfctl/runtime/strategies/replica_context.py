"""What a function that is called for each replica may ask and do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtfctl.runtime.eager.custom_gradient import custom_gradient
from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.contexts import Mode
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp, as_reduce_op

Merge = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]


class ReplicaContext:
    """One replica of a strategy: `tf.distribute.get_replica_context()` where a function is called for each.

    Attributes:
        replica_id_in_sync_group: which of all replicas this is, from 0.
        local_id: which of this process's replicas.
    """

    def __init__(self, strategy: Any, replica_id_in_sync_group: int, local_id: int = 0, merge: Merge | None = None):
        self._strategy, self._merge = strategy, merge
        self.replica_id_in_sync_group, self.local_id = replica_id_in_sync_group, local_id

    @property
    def strategy(self) -> Any:
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        return self._strategy.num_replicas_in_sync  # type: ignore[no-any-return]

    @property
    def devices(self) -> tuple[str, ...]:
        return (self._strategy.extended.worker_devices[self.local_id],)

    def __enter__(self) -> ReplicaContext:
        self._entered = contexts.entered(Mode(self._strategy, self))
        self._entered.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)

    def merge_call(self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Call `merge_fn(strategy, *args, **kwargs)` once for all replicas that get here, with the values of all.

        Returns:
            this replica's part of what it returned.

        Raises:
            RuntimeError: called where this replica is not being built, or in a function's body.
        """
        if contexts.current().replica is not self and contexts.current().strategy is not self._strategy:
            raise RuntimeError("merge_call of a replica context that is not the current one")
        if self._merge is not None:
            return self._merge(merge_fn, args, kwargs or {})
        with contexts.entered(Mode(self._strategy)):
            return merge_fn(self._strategy, *args, **(kwargs or {}))

    def all_reduce(self, reduce_op: Any, value: Any, options: CommunicationOptions | None = None) -> Any:
        """Reduce a tensor, or a structure of them, over all replicas; each gets the result. Gradients flow back.

        Raises:
            TypeError: a value is nothing that can be reduced.
        """
        op = as_reduce_op(reduce_op)
        flat = [v if isinstance(v, IndexedSlices) else convert_to_tensor(v) for v in nest.flatten(value)]
        dense = [v for v in flat if not isinstance(v, IndexedSlices)]
        if len(dense) < len(flat):
            # Gradients of slices are not slices: they are not followed.
            return nest.pack_sequence_as(value, self._reduce(op, flat, options))

        @custom_gradient
        def reduced(*tensors: Any) -> Any:
            def back(*gradients: Any) -> Any:
                return self._reduce(op, [convert_to_tensor(g) for g in gradients], options)

            return tuple(self._reduce(op, list(tensors), options)), back

        return nest.pack_sequence_as(value, list(reduced(*dense)))

    def _reduce(self, op: ReduceOp, flat: list[Any], options: CommunicationOptions | None) -> list[Any]:
        def merge(strategy: Any, *values: Any) -> Any:
            devices = strategy.extended.worker_devices
            return strategy.extended.batch_reduce_to(op, [(v, devices) for v in values], options)

        return list(self.merge_call(merge, flat))

    def all_gather(self, value: Any, axis: int, options: CommunicationOptions | None = None) -> Any:
        """Concatenate a tensor, or those of a structure, over all replicas along an axis; each gets the result."""
        flat = [convert_to_tensor(v) for v in nest.flatten(value)]

        def merge(strategy: Any, *values: Any) -> Any:
            devices = strategy.extended.worker_devices
            return [strategy.extended.gather_to(v, devices, axis) for v in values]

        return nest.pack_sequence_as(value, list(self.merge_call(merge, flat)))

    def __repr__(self) -> str:
        return f"<tf.distribute.ReplicaContext {self.replica_id_in_sync_group} of {self._strategy}>"
