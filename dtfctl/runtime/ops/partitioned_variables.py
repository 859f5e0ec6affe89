"""Variables cut into parts along one axis, so that several ps tasks can hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor, register_tensor_conversion_function
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

Partitioner = Callable[..., Sequence[int]]


class PartitionedVariable:
    """The parts of one variable, used where the whole would be; it concatenates them when read as a tensor."""

    def __init__(
        self, name: str, shape: TensorShape, dtype: DType, variable_list: list[Any], partitions: list[int]
    ) -> None:
        if len(variable_list) != math.prod(partitions):
            raise ValueError(f"{len(variable_list)} parts do not match the partitions {partitions}")
        self._name, self._shape, self._dtype = name, shape, dtype
        self._parts, self._partitions = variable_list, partitions

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self._shape

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _get_variable_list(self) -> list[Any]:
        return self._parts

    @property
    def _axis(self) -> int:
        return next((i for i, p in enumerate(self._partitions) if p > 1), 0)

    def as_tensor(self) -> Tensor:
        with name_scope(f"{self.name}/ConcatPartitions/".lstrip("/")):
            if len(self._parts) == 1:
                return apply_op("Identity", input=self._parts[0].value())
            parts = [p.value() for p in self._parts]
            with context.get_default_graph().control_dependencies(None):
                return apply_op("ConcatV2", values=parts, axis=self._axis)

    def _apply(self, method: str, value: Any) -> list[Any]:
        if isinstance(value, (list, tuple)):
            pieces = list(value)
        else:
            sizes = [p.shape.as_list()[self._axis] for p in self._parts]
            pieces = apply_op_outputs("SplitV", value=value, size_splits=sizes, axis=self._axis, num_split=len(sizes))
        return [getattr(p, method)(v) for p, v in zip(self._parts, pieces)]

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._apply("assign", value)

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._apply("assign_add", value)

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._apply("assign_sub", value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, item: Any) -> Any:
        return self.as_tensor()[item]


def _to_tensor(value: PartitionedVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return convert_to_tensor(value.as_tensor(), dtype)


register_tensor_conversion_function(PartitionedVariable, _to_tensor, priority=10)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cut into `num_shards` parts along `axis`."""

    def partition(shape: Any, **unused: Any) -> list[int]:
        parts = [1] * (TensorShape(shape).rank or 0)
        parts[axis] = min(num_shards, int(TensorShape(shape).known()[axis]))
        return parts

    return partition


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Cut along `axis` so that no part is larger than `max_shard_bytes`."""
    if max_shard_bytes < 1 or (max_shards is not None and max_shards < 1) or bytes_per_string_element < 1:
        raise ValueError("Argument `max_shard_bytes`, `max_shards` and `bytes_per_string_element` must be positive")

    def partition(shape: Any, dtype: Any) -> list[int]:
        dims = TensorShape(shape).known()
        element = bytes_per_string_element if as_dtype(dtype).is_object else as_dtype(dtype).size
        bytes_per_slice = math.prod(dims) // max(dims[axis], 1) * element
        slices_per_shard = max(1, max_shard_bytes // max(bytes_per_slice, 1))
        shards = math.ceil(dims[axis] / slices_per_shard)
        parts = [1] * len(dims)
        parts[axis] = min(shards, dims[axis], *([max_shards] if max_shards else []))
        return parts

    return partition


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """Cut along `axis` into at most `max_partitions` parts of at least `min_slice_size` bytes."""

    def partition(shape: Any, dtype: Any) -> list[int]:
        dims = TensorShape(shape).known()
        element = bytes_per_string_element if as_dtype(dtype).is_object else as_dtype(dtype).size
        wanted = max(1, math.ceil(math.prod(dims) * element / min_slice_size))
        parts = [1] * len(dims)
        parts[axis] = max(1, min(dims[axis], max_partitions, wanted))
        return parts

    return partition
