"""Reductions over the replicas of several processes, each of which builds a graph of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.replication.reduce_op import CommunicationImplementation, CommunicationOptions, ReduceOp
from dtfctl.runtime.replication.values import Mirrored, PerReplica
from dtfctl.runtime.strategies.cross_device_ops import CrossDeviceOps, divided, in_packs, mirrored_on
from dtfctl.runtime.strategies.devices import canonical, devices_of

MOST_PARTS = 1024
_PLAIN = CommunicationOptions()
SHORT_BYTES, SHORT_PACK_BYTES = 1 << 16, 1 << 18
"""What is shorter goes in packs up to that size where nobody says how."""
Size: TypeAlias = tuple[dtypes.DType, int | None]
_HINTS = {
    CommunicationImplementation.AUTO: "auto",
    CommunicationImplementation.RING: "ring",
    CommunicationImplementation.NCCL: "nccl",
}


class Group:
    """Devices of several processes that compute together, and the numbers by which they know what.

    Every process must ask for the same computations in the same order: the n-th of a group has the number n in all.

    Args:
        key: the group's own number in the cluster.
        size: how many devices are in it.
    """

    def __init__(self, key: int, size: int) -> None:
        self.key, self.size = key, size
        self._instances = itertools.count(1)
        self._parts: dict[int, Group] = {}

    def part(self, number: int, size: int) -> Group:
        """Return some of the devices as a group: those whose processes ask for the same number.

        Args:
            number: below 1024; a device may be in several parts.
            size: how many devices are in it.

        Raises:
            ValueError: there is no such number or size, or the part has another size.
        """
        if not 0 <= number < MOST_PARTS or not 0 < size <= self.size:
            raise ValueError(
                f"A part has a number below {MOST_PARTS} and 1 to {self.size} devices, not number {number} and {size}"
            )
        found = self._parts.setdefault(number, Group(MOST_PARTS * (self.key + 1) + number, size))
        if found.size != size:
            raise ValueError(f"Part {number} has {found.size} devices, and is now said to have {size}")
        return found

    def next_keys(self) -> dict[str, Any]:
        """Take the number of another computation, with what names the group."""
        return {"group_size": self.size, "group_key": self.key, "instance_key": next(self._instances)}

    def all_reduce(
        self,
        values: Sequence[Tensor],
        op: ReduceOp = ReduceOp.SUM,
        options: CommunicationOptions = _PLAIN,
    ) -> list[Tensor]:
        """Reduce the values of this process's devices with those of all others; each device gets the result.

        Raises:
            ValueError: a function of the user's has not returned a value for each device.
        """
        if callable(options.implementation):
            return self._by(options.implementation, values, op)
        if self.size == 1:
            return list(values)
        keys, graph = self.next_keys(), context.get_default_graph()
        dtype = values[0].dtype.base_dtype
        mean = op is ReduceOp.MEAN and (dtype.is_floating or dtype.is_complex)
        out = []
        for value in values:
            with graph.device(value.device):
                whole = apply_op(
                    "CollectiveReduce",
                    input=value,
                    merge_op="Add",
                    final_op="Div" if mean else "Id",
                    subdiv_offsets=[0],
                    communication_hint=_HINTS[options.implementation],
                    timeout_seconds=options.timeout_seconds or 0.0,
                    **keys,
                )
                if options.compression != "none" and dtype is dtypes.float32:
                    whole.op._set_attr("_compression", graph_pb2.AttrValue(s=options.compression.encode()))
                whole.set_shape(value.shape)
                out.append(divided(whole, self.size) if op is ReduceOp.MEAN and not mean else whole)
        return out

    def _by(self, implementation: Callable[..., Any], values: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
        """Reduce as the user says."""
        graph = context.get_default_graph()
        wholes = list(implementation(list(values), self))
        if len(wholes) != len(values):
            raise ValueError(f"{implementation} has returned {len(wholes)} values for {len(values)} devices")
        out = []
        for value, whole in zip(values, wholes, strict=True):
            with graph.device(value.device):
                whole = convert_to_tensor(whole, value.dtype.base_dtype)
                whole.set_shape(value.shape)
                out.append(divided(whole, self.size) if op is ReduceOp.MEAN else whole)
        return out

    def gather(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Lay the values of all devices, which have one shape, one below the other, by rank."""
        keys, graph = self.next_keys(), context.get_default_graph()
        out = []
        for value in values:
            with graph.device(value.device):
                whole = apply_op("CollectiveGatherV2", input=value, ordering_token=[], **keys)
                whole.set_shape([None, *value.shape.as_list()[1:]] if value.shape.rank else None)
                out.append(whole)
        return out

    def gather_rows(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Lay the values of all devices, which may have different numbers of rows, one below the other, by rank."""
        graph = context.get_default_graph()
        counts = []
        for value in values:
            with graph.device(value.device):
                shape = apply_op("Shape", input=value)
                counts.append(apply_op("StridedSlice", input=shape, begin=[0], end=[1], strides=[1]))
        everyones = self.gather(counts)
        padded = []
        for value, count, lengths in zip(values, counts, everyones, strict=True):
            with graph.device(value.device):
                longest = apply_op("Max", input=lengths, reduction_indices=[0])
                missing = apply_op("Sub", x=longest, y=apply_op("Reshape", tensor=count, shape=[]))
                rank = value.shape.rank
                if rank is None:
                    raise ValueError(f"The rank of {value.name} must be known where replicas' rows are gathered")
                rows = apply_op("Pack", values=[convert_to_tensor(0), missing])
                paddings = apply_op(
                    "ConcatV2",
                    values=[apply_op("ExpandDims", input=rows, dim=0), array_ops.zeros([rank - 1, 2], dtypes.int32)],
                    axis=0,
                )
                padded.append(apply_op("Pad", input=value, paddings=paddings))
        out = []
        for whole, lengths, value in zip(self.gather(padded), everyones, values, strict=True):
            with graph.device(value.device):
                longest = apply_op("Max", input=lengths, reduction_indices=[0])
                there = array_ops.sequence_mask(lengths, longest)
                out.append(array_ops.boolean_mask(whole, apply_op("Reshape", tensor=there, shape=[-1])))
        return out

    def send(self, value: Tensor, keys: dict[str, Any]) -> Tensor:
        """Give a value, whose shape is known, to all other devices."""
        return apply_op("CollectiveBcastSend", input=value, shape=value.shape, **keys)

    def receive(self, like: Tensor, keys: dict[str, Any]) -> Tensor:
        """Get the value that one of the others sends."""
        value: Tensor = apply_op("CollectiveBcastRecv", T=like.dtype.base_dtype, shape=like.shape, **keys)
        value.set_shape(like.shape)
        return value


class CollectiveAllReduce(CrossDeviceOps):
    """Reduces over a group: what any process gets, all get.

    Args:
        devices: those of this process. group: those of all.
        options: what is said of all reductions.
    """

    def __init__(self, devices: Sequence[str], group: Group, options: CommunicationOptions) -> None:
        self._devices, self._group, self._options = tuple(devices), group, options

    def reduce_implementation(
        self, reduce_op: ReduceOp, per_replica_value: PerReplica, destinations: Any, options: CommunicationOptions
    ) -> Any:
        return self.batch_reduce_implementation(reduce_op, [(per_replica_value, destinations)], options)[0]

    def batch_reduce_implementation(
        self, reduce_op: ReduceOp, value_destination_pairs: Sequence[tuple[Any, Any]], options: CommunicationOptions
    ) -> list[Any]:
        options = self._options.merge(options)
        columns = [self._placed(value) for value, _ in value_destination_pairs]
        results: list[Any] = [None] * len(columns)
        dense = [i for i, column in enumerate(columns) if not isinstance(column[0], IndexedSlices)]
        sizes = [_size_of(columns[i][0]) for i in dense]
        for numbers in packs_of(sizes, options.bytes_per_pack, is_coded=options.compression != "none"):
            pack = [dense[number] for number in numbers]
            reduced = in_packs(
                [columns[i] for i in pack], lambda values: self._group.all_reduce(values, reduce_op, options)
            )
            for i, result in zip(pack, reduced, strict=True):
                results[i] = result
        for i, column in enumerate(columns):
            if isinstance(column[0], IndexedSlices):
                results[i] = self._slices(column, reduce_op)
        # Nothing is updated before all is reduced: who fails in between has updated nothing.
        results = _all_or_none(results)
        return [
            self._delivered(result, destinations)
            for result, (_, destinations) in zip(results, value_destination_pairs, strict=True)
        ]

    def _placed(self, value: PerReplica) -> list[Any]:
        """List a value of each of this process's devices, there."""
        values = list(value.values)
        if len(values) == 1 and len(self._devices) > 1:
            values *= len(self._devices)
        graph = context.get_default_graph()
        out: list[Any] = []
        for item, device in zip(values, self._devices, strict=True):
            with graph.device(device):
                if isinstance(item, IndexedSlices):
                    out.append(item)
                else:
                    tensor = convert_to_tensor(item)
                    out.append(tensor if tensor.device == device else apply_op("Identity", input=tensor))
        return out

    def _slices(self, column: Sequence[Any], op: ReduceOp) -> list[Any]:
        values = self._group.gather_rows([s.values for s in column])
        indices = self._group.gather_rows([s.indices for s in column])
        found = [IndexedSlices(v, i, s.dense_shape) for v, i, s in zip(values, indices, column, strict=True)]
        return [divided(f, self._group.size) for f in found] if op is ReduceOp.MEAN else found

    def _delivered(self, result: list[Any], destinations: Any) -> Any:
        if devices_of(destinations) == tuple(canonical(d) for d in self._devices):
            return result[0] if len(result) == 1 else Mirrored(result)
        return mirrored_on(devices_of(destinations), result[0])

    def gather(self, per_replica_value: Any, destinations: Any, axis: int) -> Any:
        values = [convert_to_tensor(v) for v in getattr(per_replica_value, "values", (per_replica_value,))]
        rank = values[0].shape.rank
        if rank is None:
            raise ValueError(f"The rank of {values[0].name} must be known where replicas' values are gathered")
        order = [axis, *(i for i in range(rank) if i != axis)]
        turned = [v if axis == 0 else apply_op("Transpose", x=v, perm=order) for v in values]
        wholes = self._group.gather_rows(self._placed(PerReplica(turned)))
        back = [order.index(i) for i in range(rank)]
        wholes = [w if axis == 0 else apply_op("Transpose", x=w, perm=back) for w in wholes]
        return self._delivered(list(wholes), destinations)


def _size_of(value: Tensor) -> Size:
    dtype = value.dtype.base_dtype
    count = value.shape.num_elements() if value.shape.is_fully_defined() else None
    return dtype, None if count is None else count * dtype.np.itemsize


def packs_of(
    sizes: Sequence[tuple[dtypes.DType, int | None]], most_bytes: int, *, is_coded: bool = False
) -> list[list[int]]:
    """Cut values into packs of one type that are reduced as one.

    The last gradients are there first: they make the first pack.

    Args:
        sizes: each value's type, and its length in bytes, None where it is not known.
        most_bytes: of a pack; 0 packs what is short, as messages cost more than its bytes, and leaves all else apart.
        is_coded: long ones are encoded, and what is short must not become long; so only what `most_bytes` asks for.

    >>> packs_of([(dtypes.float32, 40), (dtypes.float32, 1 << 20), (dtypes.float32, 400)], 0)
    [[2, 0], [1]]
    """
    packs: list[list[int]] = []
    open_packs: dict[dtypes.DType, tuple[list[int], int]] = {}
    for i in reversed(range(len(sizes))):
        dtype, size = sizes[i]
        if size is None or (not most_bytes and (is_coded or size > SHORT_BYTES)):
            packs.append([i])
            continue
        pack, before = open_packs.get(dtype, ([], 0))
        if not pack or before + size > (most_bytes or SHORT_PACK_BYTES):
            pack, before = [], 0
            packs.append(pack)
        pack.append(i)
        open_packs[dtype] = pack, before + size
    return packs


def _all_or_none(results: list[Any]) -> list[Any]:
    """Let none of several results be there before all of them are."""
    if len(results) < 2:
        return results
    tensors = [
        t
        for result in results
        for value in result
        for t in ((value.values, value.indices) if isinstance(value, IndexedSlices) else (value,))
    ]
    done: Operation = make_op("IdentityN", input=tensors)
    for after, before in zip(done.outputs, tensors, strict=True):
        after.set_shape(before.shape)
    after_all = iter(done.outputs)
    return [
        [
            IndexedSlices(next(after_all), next(after_all), value.dense_shape)
            if isinstance(value, IndexedSlices)
            else next(after_all)
            for value in result
        ]
        for result in results
    ]
