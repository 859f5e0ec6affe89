"""How values of several devices become one: `tf.distribute.CrossDeviceOps` and those there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.errors import UnimplementedError
from dtfctl.runtime.framework.gradients import aggregate
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp, as_reduce_op
from dtfctl.runtime.replication.values import DistributedValues, Mirrored, PerReplica
from dtfctl.runtime.strategies.devices import devices_of, is_gpu

Values = Sequence[Any]


class CrossDeviceOps:
    """Subclasses say how values are reduced: `reduce_implementation`, and `batch_reduce_implementation` where several
    at once are better than one after the other.

    A value is a tensor or IndexedSlices. Destinations are names of devices, or a value or variable that is on them.
    """

    def reduce(
        self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: CommunicationOptions | None = None
    ) -> Any:
        """Reduce the values of replicas; the result is on each destination.

        Raises:
            ValueError: there are no destinations. TypeError: the value is not one of replicas.
        """
        value = _per_replica(per_replica_value)
        _check(destinations)
        return self.reduce_implementation(
            as_reduce_op(reduce_op), value, destinations, options or CommunicationOptions()
        )

    def batch_reduce(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: CommunicationOptions | None = None,
    ) -> list[Any]:
        """Reduce many values, each with its destinations; the results in the same order."""
        pairs = [(_per_replica(value), destinations) for value, destinations in value_destination_pairs]
        for _, destinations in pairs:
            _check(destinations)
        return list(self.batch_reduce_implementation(as_reduce_op(reduce_op), pairs, options or CommunicationOptions()))

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """Bring a value to each destination."""
        _check(destinations)
        return self.broadcast_implementation(tensor, destinations)

    def reduce_implementation(
        self, reduce_op: ReduceOp, per_replica_value: PerReplica, destinations: Any, options: CommunicationOptions
    ) -> Any:
        raise NotImplementedError("_reduce method must be implemented in descendants.")

    def batch_reduce_implementation(
        self, reduce_op: ReduceOp, value_destination_pairs: Sequence[tuple[Any, Any]], options: CommunicationOptions
    ) -> list[Any]:
        return [self.reduce_implementation(reduce_op, v, d, options) for v, d in value_destination_pairs]

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        return mirrored_on(devices_of(destinations), tensor)

    def gather(self, per_replica_value: Any, destinations: Any, axis: int) -> Any:
        """Concatenate the values of replicas along an axis; the result is on each destination."""
        value, devices = _per_replica(per_replica_value), devices_of(destinations)
        with context.get_default_graph().device(devices[0]):
            whole = (
                apply_op("ConcatV2", values=list(value.values), axis=axis) if len(value.values) > 1 else value.values[0]
            )
        return mirrored_on(devices, whole)


class ReductionToOneDevice(CrossDeviceOps):
    """Reduces on one device, and brings the result to the others.

    Args:
        reduce_to_device: which; the first destination when None.
        accumulation_fn: adds a list of tensors; AddN when None.
    """

    def __init__(
        self, reduce_to_device: str | None = None, accumulation_fn: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn

    def reduce_implementation(
        self, reduce_op: ReduceOp, per_replica_value: PerReplica, destinations: Any, options: CommunicationOptions
    ) -> Any:
        devices = devices_of(destinations)
        with context.get_default_graph().device(self.reduce_to_device or devices[0]):
            whole = reduced(reduce_op, per_replica_value.values, len(per_replica_value.values), self.accumulation_fn)
        return mirrored_on(devices, whole)


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Reduces within each half of the devices, then between two of them, and back: few copies cross the middle.

    Args:
        num_packs: into how many pieces many values of one type are packed, each reduced as one; 0 leaves them apart.
    """

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"HierarchicalCopy requires num_packs >= 0, but {num_packs} is specified")
        self.num_packs = num_packs

    def reduce_implementation(
        self, reduce_op: ReduceOp, per_replica_value: PerReplica, destinations: Any, options: CommunicationOptions
    ) -> Any:
        return self.batch_reduce_implementation(reduce_op, [(per_replica_value, destinations)], options)[0]

    def batch_reduce_implementation(
        self, reduce_op: ReduceOp, value_destination_pairs: Sequence[tuple[Any, Any]], options: CommunicationOptions
    ) -> list[Any]:
        results: list[Any] = [None] * len(value_destination_pairs)
        dense: dict[Any, list[int]] = {}
        for i, (value, destinations) in enumerate(value_destination_pairs):
            together = devices_of(value) == devices_of(destinations) and len(value.values) > 1
            if together and not any(isinstance(v, IndexedSlices) for v in value.values):
                dense.setdefault(value.values[0].dtype.base_dtype, []).append(i)
            else:
                results[i] = ReductionToOneDevice().reduce(reduce_op, value, destinations, options)
        for chosen in (pack for alike in dense.values() for pack in _packs(alike, self.num_packs)):
            columns = [value_destination_pairs[i][0].values for i in chosen]
            for i, result in zip(chosen, in_packs(columns, lambda vs: self._all_reduce(reduce_op, vs)), strict=True):
                results[i] = Mirrored(result)
        return results

    @staticmethod
    def _all_reduce(reduce_op: ReduceOp, values: Values) -> list[Any]:
        graph = context.get_default_graph()
        half = (len(values) + 1) // 2
        leaders = []
        for group in (values[:half], values[half:]):
            if group:
                with graph.device(group[0].device):
                    leaders.append(aggregate(list(group)) if len(group) > 1 else group[0])
        sums = []
        for leader in leaders:
            with graph.device(leader.device):
                sums.append(reduced(reduce_op, leaders, len(values)))
        out = []
        for i, value in enumerate(values):
            with graph.device(value.device):
                out.append(apply_op("Identity", input=sums[0] if i < half else sums[-1]))
        return out


class NcclAllReduce(CrossDeviceOps):
    """Refuses: it is NCCL's, between GPUs, and there is no kernel for it.

    Raises:
        UnimplementedError: when it is to reduce; the text names what does.
    """

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"NCCL all-reduce requires num_packs >= 0, but {num_packs} is specified")
        self.num_packs = num_packs

    def reduce_implementation(
        self, reduce_op: ReduceOp, per_replica_value: PerReplica, destinations: Any, options: CommunicationOptions
    ) -> Any:
        devices = devices_of(destinations)
        needs = "" if all(is_gpu(d) for d in devices) else f", and {', '.join(devices)} are not all GPUs"
        raise UnimplementedError(
            f"NcclAllReduce needs NCCL between GPUs, which has no kernel here{needs}. Use "
            "tf.distribute.HierarchicalCopyAllReduce() or ReductionToOneDevice()"
        )


def reduced(reduce_op: ReduceOp, values: Values, count: int, add: Callable[[list[Any]], Any] | None = None) -> Any:
    """Add values where the current device is, and divide the sum by `count` for a mean."""
    if len(values) == 1:
        whole = values[0]
    elif add is not None and not any(isinstance(v, IndexedSlices) for v in values):
        whole = add([convert_to_tensor(v) for v in values])
    else:
        whole = aggregate([v if isinstance(v, IndexedSlices) else convert_to_tensor(v) for v in values])
    return divided(whole, count) if reduce_op is ReduceOp.MEAN else whole


def divided(value: Any, count: int) -> Any:
    """Divide a tensor or IndexedSlices by a number; whole numbers stay whole."""
    if count == 1:
        return value
    if isinstance(value, IndexedSlices):
        return IndexedSlices(divided(value.values, count), value.indices, value.dense_shape)
    value = convert_to_tensor(value)
    dtype = value.dtype.base_dtype
    op = "RealDiv" if dtype.is_floating or dtype.is_complex else "FloorDiv"
    return apply_op(op, x=value, y=cast(count, dtype))


def copied(value: Any, device: str) -> Any:
    """Bring a value to a device."""
    with context.get_default_graph().device(device):
        if isinstance(value, IndexedSlices):
            shape = None if value.dense_shape is None else apply_op("Identity", input=value.dense_shape)
            return IndexedSlices(
                apply_op("Identity", input=value.values), apply_op("Identity", input=value.indices), shape
            )
        return apply_op("Identity", input=convert_to_tensor(value))


def mirrored_on(devices: Sequence[str], value: Any) -> Any:
    """Bring a value to each of the devices."""
    copies = [copied(value, device) for device in devices]
    return copies[0] if len(copies) == 1 else Mirrored(copies)


def in_packs(columns: Sequence[Values], all_reduce: Callable[[Values], list[Any]]) -> list[list[Any]]:
    """Reduce several values as one: those of each device are laid one behind the other.

    Args:
        columns: for each value, that of each device.
        all_reduce: takes one value of each device, and gives what each device gets.
    """
    if len(columns) == 1:
        return [all_reduce(columns[0])]
    graph = context.get_default_graph()
    flat = []
    for row in zip(*columns):
        with graph.device(row[0].device):
            flat.append(apply_op("ConcatV2", values=[apply_op("Reshape", tensor=v, shape=[-1]) for v in row], axis=0))
    wholes = all_reduce(flat)
    rows = []
    for whole, row in zip(wholes, zip(*columns)):
        with graph.device(row[0].device):
            shapes = [_shape(v) for v in row]
            sizes = apply_op("Pack", values=[apply_op("Prod", input=s, reduction_indices=[0]) for s in shapes])
            pieces = make_op("SplitV", value=whole, size_splits=sizes, split_dim=0, num_split=len(row)).outputs
            out = []
            for piece, shape, like in zip(pieces, shapes, row):
                out.append(apply_op("Reshape", tensor=piece, shape=shape))
                out[-1].set_shape(like.shape)
            rows.append(out)
    return [list(column) for column in zip(*rows)]


def _shape(value: Tensor) -> Tensor:
    if value.shape.is_fully_defined():
        return convert_to_tensor(list(value.shape.known()), dtypes.int32)
    return apply_op("Shape", input=value)


def _packs(items: Sequence[int], count: int) -> list[Sequence[int]]:
    """Cut a list into about as many pieces, of about the same length; 0 leaves its items apart."""
    if not items:
        return []
    size = 1 if count == 0 else max(1, -(-len(items) // count))
    return [items[i : i + size] for i in range(0, len(items), size)]


def _per_replica(value: Any) -> PerReplica:
    if isinstance(value, PerReplica):
        return value
    if isinstance(value, DistributedValues):
        return PerReplica(value.values)
    return PerReplica([value if isinstance(value, IndexedSlices) else convert_to_tensor(value)])


def _check(destinations: Any) -> None:
    if destinations is None or (isinstance(destinations, (list, tuple, str)) and not destinations):
        raise ValueError("Destinations can not be empty")
