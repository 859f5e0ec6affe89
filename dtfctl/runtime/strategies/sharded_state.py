"""Replicas that share out the state of their optimizer: each keeps it for its part of the variables (ZeRO, stage 1)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from dtfctl.runtime.framework import context
from dtfctl.runtime.ops.resource_variable import ResourceVariable
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import ReduceOp
from dtfctl.runtime.replication.values import local_results, value_container
from dtfctl.runtime.strategies.mirrored import MirroredExtended
from dtfctl.runtime.strategies.variables import MirroredVariable


class ShardedStateExtended(MirroredExtended):
    """Every variable has a copy on every device, and its slots on one of them, its owner.

    The owner gets the sum of all replicas' gradients, updates its copy, and gives it to the others. A variable's owner
    is the device that owns least, in bytes, when its slots are first made.
    """

    shards_optimizer_state = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owners: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._owned: WeakKeyDictionary[Any, list[int]] = WeakKeyDictionary()

    def owner_of(self, variable: Any) -> int:
        """Return the replica that keeps the slots of a variable."""
        whole = value_container(variable)
        if whole not in self._owners:
            owned = self._owned.setdefault(whole.graph, [0] * len(self._devices))
            self._owners[whole] = owner = owned.index(min(owned))
            if not whole.shape.is_fully_defined():
                raise ValueError(f"The shape of {whole.name} must be known, so that optimizer state can be shared out")
            owned[owner] += math.prod(whole.shape.as_list()) * whole.dtype.base_dtype.size
        return self._owners[whole]

    @contextlib.contextmanager
    def slots_beside(self, variable: Any) -> Iterator[None]:
        whole = value_container(variable)
        if not isinstance(whole, MirroredVariable):
            raise NotImplementedError(
                f"{whole.name} is no mirrored variable: with shard_optimizer_state=True only those are trained"
            )

        def alone(next_creator: Callable[..., Any], **arguments: Any) -> Any:
            # Neither this strategy's creator nor those of programs around make copies of it.
            arguments.pop("colocate_with", None)
            arguments.pop("use_resource", None)
            known = {k: v for k, v in arguments.items() if k not in ("aggregation", "synchronization")}
            return ResourceVariable(**known)

        owner, graph = self.owner_of(whole), context.get_default_graph()
        with (
            graph.colocate_with(None, ignore_existing=True),
            graph.device(whole.values[owner].device),
            contexts.updating(owner),
            graph.variable_creator_scope(alone),
        ):
            yield

    def reduce_gradients(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        owners = [value_container(v).values[self.owner_of(v)] for _, v in pairs]
        return self.batch_reduce_to(ReduceOp.SUM, [(g, owner) for (g, _), owner in zip(pairs, owners)])

    def update_by_gradient(self, variable: Any, fn: Callable[..., Any], gradient: Any) -> list[Any]:
        contexts.require_cross_replica(self._container)
        whole, owner, graph = value_container(variable), self.owner_of(variable), context.get_default_graph()
        copy = whole.values[owner]
        with self._on(copy, owner):
            done = fn(copy, local_results(gradient)[0])
            with graph.control_dependencies([done]):
                updated = copy.read_value()
        given = [done]
        for i, other in enumerate(whole.values):
            if i != owner:
                with self._on(other, i):
                    given.append(other.assign(updated, read_value=False))
        return given

    @contextlib.contextmanager
    def _on(self, copy: Any, index: int) -> Iterator[None]:
        graph = context.get_default_graph()
        with (
            graph.colocate_with(None, ignore_existing=True),
            graph.device(copy.device),
            contexts.updating(index),
            graph.name_scope(f"update_{index}"),
        ):
            yield
