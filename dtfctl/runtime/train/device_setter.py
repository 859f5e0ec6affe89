"""`replica_device_setter`: variables on ps tasks, everything else on the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.operation import Operation

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
    "DecisionTreeResource",
)

PsStrategy = Callable[[Operation], int]


class RoundRobinStrategy:
    """Each ps task in turn."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks, self._next = num_tasks, 0

    def __call__(self, op: Operation) -> int:
        task = self._next
        self._next = (self._next + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """The ps task with the least load so far; load is what `load_fn` says of an op (see `byte_size_load_fn`)."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        self._load_fn = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Operation) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> float:
    """Return the size of a variable in bytes.

    Raises:
        ValueError: its shape is not fully known.
    """
    shape = op.attr("shape")
    dtype = op.attr("dtype")
    count = shape.num_elements() if shape is not None else None
    if count is None or not isinstance(dtype, DType):
        raise ValueError(f"The shape of {op.name} must be fully defined to weigh it")
    return float(count * dtype.size)


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: PsStrategy | None = None,
) -> Callable[[Operation], str] | None:
    """Make a function for `tf.device` that spreads variables over the ps tasks.

    Args:
        ps_tasks: their number; taken from `cluster` (a ClusterSpec or dict) when that is given.
        ps_strategy: op -> ps task index; round robin when None.

    Returns:
        The device function, or None when there are no ps tasks.

    Raises:
        TypeError: the strategy cannot be called.
    """
    if cluster is not None:
        spec = cluster.as_dict() if hasattr(cluster, "as_dict") else dict(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in spec or spec[job] is None:
            return None
        ps_tasks = len(spec[job])
    if ps_tasks == 0:
        return None
    strategy = RoundRobinStrategy(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError("ps_strategy must be callable")
    on_ps = frozenset(STANDARD_PS_OPS if ps_ops is None else ps_ops)
    ps_spec, worker_spec = DeviceSpec.from_string(ps_device), DeviceSpec.from_string(worker_device)

    def choose(op: Operation) -> str:
        current = DeviceSpec.from_string(op.device)
        if not merge_devices and op.device:
            return op.device
        if op.type in on_ps:
            base = ps_spec
            if base.job and base.task is None and current.task is None:
                base = DeviceSpec(base.job, base.replica, strategy(op), base.device_type, base.device_index)
            return base.merge(current).to_string()
        return worker_spec.merge(current).to_string()

    return choose
