"""`tf.distribute.experimental.MultiWorkerMirroredStrategy`: replicas in several processes, none of which is special."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.replication.reduce_op import (
    CommunicationImplementation,
    CommunicationOptions,
    ReduceOp,
    as_reduce_op,
)
from dtfctl.runtime.replication.values import DistributedValues, Mirrored, PerReplica
from dtfctl.runtime.strategies.collective_all_reduce import CollectiveAllReduce, Group
from dtfctl.runtime.strategies.cross_device_ops import reduced
from dtfctl.runtime.strategies.devices import task_of
from dtfctl.runtime.strategies.group_sessions import GroupSessionCreator
from dtfctl.runtime.strategies.mirrored import MirroredExtended, own_devices
from dtfctl.runtime.strategies.strategy import Strategy
from dtfctl.runtime.train.cluster_resolver import TFConfigClusterResolver


class MultiWorkerMirroredStrategy(Strategy):
    """Replicas on the devices of all workers, in step: every worker's process builds its own graph, with the same
    variables and computations in the same order, and gradients are reduced over all of them.

    Args:
        cluster_resolver: what knows the cluster and this process's task; TF_CONFIG when None.
        communication_options: what all reductions are told.
        communication: its `implementation`, as older programs say it.

    Raises:
        ValueError: this process's task is not one of the cluster's workers.
    """

    def __init__(
        self,
        communication: Any = None,
        cluster_resolver: Any = None,
        communication_options: CommunicationOptions | None = None,
    ) -> None:
        if isinstance(communication, TFConfigClusterResolver):
            communication, cluster_resolver = None, communication
        options = communication_options or CommunicationOptions()
        if communication is not None:
            options = options.merge(CommunicationOptions(implementation=CommunicationImplementation(communication)))
        super().__init__(MultiWorkerExtended(self, cluster_resolver or TFConfigClusterResolver(), options))


class MultiWorkerExtended(MirroredExtended):
    """A copy of every variable for each replica, the first one's value brought from the first worker.

    Attributes:
        group, between_workers: all replicas, and one device of each process; they have the numbers `first_key` and the
            next one.
    """

    experimental_between_graph = True

    def __init__(
        self, container: Any, cluster_resolver: Any, options: CommunicationOptions | None, first_key: int = 1
    ) -> None:
        self.cluster_resolver = cluster_resolver
        self.workers = workers_of(cluster_resolver)
        own = (cluster_resolver.task_type or "worker", cluster_resolver.task_id or 0)
        if self.workers and own not in self.workers:
            raise ValueError(
                f"MultiWorkerMirroredStrategy runs in a chief or worker of the cluster, not as {own[0]}/{own[1]}"
            )
        self.index = self.workers.index(own) if self.workers else 0
        devices = own_devices(f"/job:{own[0]}/replica:0/task:{own[1]}" if self.workers else "")
        self.count = max(len(self.workers), 1)
        self.group = Group(first_key, self.count * len(devices))
        self.between_workers = Group(first_key + 1, self.count)
        operations = (
            CollectiveAllReduce(devices, self.group, options or CommunicationOptions()) if self.count > 1 else None
        )
        super().__init__(container, devices, operations)

    @property
    def num_replicas_in_sync(self) -> int:
        return self.group.size

    @property
    def num_input_pipelines(self) -> int:
        return self.count

    @property
    def input_pipeline_id(self) -> int:
        return self.index

    @property
    def should_checkpoint(self) -> bool:
        return self.index == 0

    @property
    def should_save_summary(self) -> bool:
        return self.index == 0

    @contextlib.contextmanager
    def scopes(self) -> Iterator[None]:
        with super().scopes(), context.get_default_graph().device(task_of(self._devices[0]) if self.workers else None):
            yield

    def _first(self, given: dict[str, Any]) -> dict[str, Any]:
        """Let the first worker's initial value be that of all; what a program keeps locally stays each worker's."""
        if self.count == 1 or GraphKeys.LOCAL_VARIABLES in self._keys:
            return given
        keys, initial, dtype = self.between_workers.next_keys(), given["initial_value"], given.get("dtype")

        def value() -> Any:
            own = convert_to_tensor(initial() if callable(initial) else initial, dtype)
            if not own.shape.is_fully_defined():
                raise ValueError(
                    f"The shape of variable {given.get('name')} must be known under MultiWorkerMirroredStrategy"
                )
            return self.between_workers.receive(own, keys) if self.index else self.between_workers.send(own, keys)

        return {**given, "initial_value": value}

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        self._keys: Sequence[str] = arguments.get("collections") or ()
        return super().create_variable(next_creator, arguments)

    def _reduce(self, op: ReduceOp, value: Any, destinations: Any, options: CommunicationOptions | None) -> Any:
        if self.count == 1:
            return super()._reduce(op, value, destinations, options)
        if isinstance(value, Mirrored) and op is ReduceOp.MEAN:
            return value
        return self._cross_device_ops.reduce(op, _of_replicas(value), destinations, options)

    def batch_reduce_to(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: CommunicationOptions | None = None,
    ) -> list[Any]:
        if self.count == 1:
            return super().batch_reduce_to(reduce_op, value_destination_pairs, options)
        pairs = [(_of_replicas(v), d) for v, d in value_destination_pairs]
        return self._cross_device_ops.batch_reduce(as_reduce_op(reduce_op), pairs, options)

    def broadcast_to(self, tensor: Any, destinations: Any = None) -> Any:
        """Bring the first worker's value to all replicas."""
        if self.count > 1 and not isinstance(tensor, (int, float)):
            own, keys = convert_to_tensor(tensor), self.between_workers.next_keys()
            with context.get_default_graph().device(self._devices[0]):
                group = self.between_workers
                tensor = group.receive(own, keys) if self.index else group.send(own, keys)
        return super().broadcast_to(tensor, destinations)

    def reduce_to_save(self, op: ReduceOp, values: Sequence[Any], name: str) -> Any:
        """Reduce the values of this process's replicas: one worker saves, and the others do not wait for it.

        Raises:
            ValueError: they are to be summed up over all workers.
        """
        if op is ReduceOp.SUM and self.count > 1:
            raise ValueError(
                f"{name} is the sum of what all workers have, which one of them cannot save: put it into the "
                "collection tf.GraphKeys.LOCAL_VARIABLES"
            )
        with context.get_default_graph().device(self.host_device):
            return reduced(op, values, len(values))

    def session_creator(self, *arguments: Any) -> Any:
        return GroupSessionCreator(self, *arguments) if self.count > 1 else None

    def group_session_creator(self, *arguments: Any) -> GroupSessionCreator:
        """Make what makes sessions of the group, also where it has one member."""
        return GroupSessionCreator(self, *arguments)

    def update_config(self, config: Any) -> Any:
        copy = super().update_config(config)
        if self.workers:
            copy.isolate_session_state = False
            del copy.device_filters[:]
            copy.device_filters.append(f"/job:{self.workers[self.index][0]}/task:{self.workers[self.index][1]}")
        return copy


def _of_replicas(value: Any) -> PerReplica:
    if getattr(value, "is_distributed_variable", False):
        return PerReplica([v.value() for v in value.values])
    return PerReplica(value.values if isinstance(value, DistributedValues) else [value])


def workers_of(cluster_resolver: Any) -> list[tuple[str, int]]:
    """List the tasks of a cluster that train, the chief first; none where there is no cluster."""
    cluster = cluster_resolver.cluster_spec()
    if not cluster:
        return []
    return [(job, i) for job in ("chief", "worker") if job in cluster.jobs for i in cluster.task_indices(job)]
