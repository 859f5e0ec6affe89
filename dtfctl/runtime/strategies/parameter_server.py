"""Variables that all replicas share: on parameter servers, or on one device of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.ops.variables import VariableAggregation
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp
from dtfctl.runtime.replication.values import DistributedValues, value_container
from dtfctl.runtime.strategies.cross_device_ops import ReductionToOneDevice
from dtfctl.runtime.strategies.devices import canonical, host_of, task_of
from dtfctl.runtime.strategies.extended import StrategyExtended
from dtfctl.runtime.strategies.mirrored import own_devices
from dtfctl.runtime.strategies.multi_worker import workers_of
from dtfctl.runtime.strategies.strategy import Strategy
from dtfctl.runtime.strategies.variables import AggregatingVariable
from dtfctl.runtime.train.cluster_resolver import TFConfigClusterResolver
from dtfctl.runtime.train.device_setter import replica_device_setter


class CentralStorageStrategy(Strategy):
    """Replicas on several devices of one task; every variable is there once.

    Args:
        compute_devices: a replica is on each; this task's GPUs when None, its CPU where it has none.
        parameter_device: where variables are; the CPU when None, the replica's device where there is one replica.
    """

    def __init__(self, compute_devices: Sequence[str] | None = None, parameter_device: str | None = None) -> None:
        devices = own_devices() if compute_devices is None else [canonical(d) for d in compute_devices]
        if parameter_device is None:
            parameter_device = devices[0] if len(devices) == 1 else host_of(devices[0])
        super().__init__(SharedExtended(self, devices, canonical(parameter_device)))


class ParameterServerStrategy(Strategy):
    """Variables are on the cluster's ps tasks, one after the other; each worker's process trains by itself.

    The replicas of one worker, where it has several devices, make one update of them; workers do not wait for each
    other.

    Args:
        cluster_resolver: what knows the cluster and this process's task; TF_CONFIG when None.

    Raises:
        ValueError: the cluster has no ps, or this process's task is not known. Without any cluster, variables and
            replicas are on this machine.
    """

    def __init__(self, cluster_resolver: Any = None) -> None:
        resolver = cluster_resolver or TFConfigClusterResolver()
        cluster = resolver.cluster_spec()
        if not cluster:
            devices = own_devices("")
            beside = devices[0] if len(devices) == 1 else host_of(devices[0])
            super().__init__(SharedExtended(self, devices, beside))
            return
        if not resolver.task_type or resolver.task_id is None:
            raise ValueError("When `cluster_spec` is given, you must also specify `task_type` and `task_id`")
        if "ps" not in cluster.jobs or not cluster.num_tasks("ps"):
            raise ValueError("The cluster spec needs to have `ps` jobs.")
        super().__init__(ParameterServerExtended(self, resolver))


class SharedExtended(StrategyExtended):
    """Every variable is there once; replicas read it, and update it by what all of them found."""

    def __init__(self, container: Any, devices: Sequence[str], variable_device: Any) -> None:
        super().__init__(container, devices, ReductionToOneDevice(host_of(devices[0])))
        self._variable_device = variable_device
        self._partitions_variables = len(devices) == 1

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        return (self._variable_device,)

    def create_variable(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        beside, graph = arguments.pop("colocate_with", None), context.get_default_graph()
        with contextlib.ExitStack() as stack:
            stack.enter_context(graph.colocate_with(None, ignore_existing=True))
            if beside is None:
                stack.enter_context(graph.device(self._variable_device))
            else:
                stack.enter_context(graph.device(None))
                stack.enter_context(graph.colocate_with(beside.op))
            if len(self._devices) > 1:
                return self._aggregating(next_creator, arguments)
            variable = next_creator(**arguments)
        variable.distribute_strategy = self._container
        return variable

    def _aggregating(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        aggregation = arguments.get("aggregation") or VariableAggregation.NONE
        keys = arguments.pop("collections", None)
        keys = [GraphKeys.GLOBAL_VARIABLES] if keys is None else list(keys)
        if arguments.get("trainable") in (None, True):
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        trainable = arguments.get("trainable") in (None, True)
        variable = next_creator(**{**arguments, "collections": [], "trainable": False})
        variable._trainable = trainable
        whole = AggregatingVariable(self._container, variable, aggregation)
        context.get_default_graph().add_to_collections(dict.fromkeys(keys), whole)
        return whole

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        contexts.require_cross_replica(self._container)
        whole = value_container(var)
        if getattr(whole, "distribute_strategy", None) is not self._container:
            raise ValueError(f"You can not update `var` {var!r}. It was not made in the scope of {self._container}.")
        variable = whole._primary if isinstance(whole, AggregatingVariable) else whole
        with context.get_default_graph().colocate_with(variable.op), contexts.updating(0):
            result = fn(variable, *_first(args), **(kwargs or {}))
        return result if group else [result]

    def non_slot_devices(self, var_list: Any) -> Any:
        return (min(var_list, key=lambda v: str(v.name)).device,)

    def _reduce(self, op: ReduceOp, value: Any, destinations: Any, options: CommunicationOptions | None) -> Any:
        if not isinstance(value, DistributedValues) and len(self._devices) == 1:
            return value
        return super()._reduce(op, value, destinations, options)


class ParameterServerExtended(SharedExtended):
    """Variables on ps tasks, replicas on the devices of this process's task."""

    experimental_between_graph = True

    def __init__(self, container: Any, cluster_resolver: Any) -> None:
        self.cluster_resolver = cluster_resolver
        cluster = cluster_resolver.cluster_spec()
        own = (cluster_resolver.task_type, cluster_resolver.task_id)
        self._workers, self._task = workers_of(cluster_resolver), f"/job:{own[0]}/task:{own[1]}"
        self._index = self._workers.index(own) if own in self._workers else 0
        self._is_chief = bool(self._workers) and own == self._workers[0]
        self._ps_count = cluster.num_tasks("ps")
        setter = replica_device_setter(
            ps_tasks=self._ps_count, worker_device=self._task, merge_devices=True, cluster=cluster
        )
        super().__init__(container, own_devices(self._task), setter)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        return tuple(f"/job:ps/task:{i}" for i in range(self._ps_count))

    @property
    def num_input_pipelines(self) -> int:
        return max(len(self._workers), 1)

    @property
    def input_pipeline_id(self) -> int:
        return self._index

    def replica_context(self, local_id: int, merge: Any = None) -> Any:
        """Make the context of a replica: those of other workers are not in step with it, and not counted."""
        found = super().replica_context(local_id, merge)
        found.replica_id_in_sync_group = local_id
        return found

    @property
    def experimental_should_init(self) -> bool:
        return self._is_chief

    @property
    def should_checkpoint(self) -> bool:
        return self._is_chief

    @property
    def should_save_summary(self) -> bool:
        return self._is_chief

    @contextlib.contextmanager
    def scopes(self) -> Iterator[None]:
        with super().scopes(), context.get_default_graph().device(task_of(self._devices[0])):
            yield

    def update_config(self, config: Any) -> Any:
        copy = super().update_config(config)
        copy.isolate_session_state = False
        del copy.device_filters[:]
        copy.device_filters.extend([self._task, "/job:ps"])
        return copy


def _first(args: Sequence[Any]) -> list[Any]:
    return [a._primary if isinstance(a, DistributedValues) else a for a in args]
