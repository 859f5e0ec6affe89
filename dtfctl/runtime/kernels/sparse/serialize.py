"""Sparse tensors as strings, as variants, and as entries of a map named by handles."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_content, object_array
from dtfctl.runtime.kernels.array.common import ints, text
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse import common

Parts = tuple[Any, Any, Any]


def _split_rows(indices: Any, values: Any, shape: Any) -> list[Parts]:
    """Split a sparse tensor into one of a rank less for each entry of the first dimension."""
    dims = common.check(indices, values, shape, "sparse")
    if len(dims) < 2:
        raise InvalidArgumentError(f"Rank of input SparseTensor should be > 1, but saw rank: {len(dims)}")
    rows = indices[:, 0]
    if len(rows) and (rows.min() < 0 or rows.max() >= dims[0]):
        raise InvalidArgumentError(f"Received an invalid minibatch index {int(rows.max())} for batch size {dims[0]}")
    order = np.argsort(rows, kind="stable")
    bounds = np.searchsorted(rows[order], np.arange(dims[0] + 1))
    rest = shape[1:]
    out = []
    for i in range(dims[0]):
        chosen = order[bounds[i] : bounds[i + 1]]
        out.append((indices[chosen][:, 1:], values[chosen], rest))
    return out


def _to_items(parts: Parts, dtype: DType, variant: bool) -> list[Any]:
    if variant:
        return list(parts)
    kinds = (dtypes.int64, dtype, dtypes.int64)
    return [encode_content(p, t).SerializeToString() for p, t in zip(parts, kinds)]


@register_kernel("SerializeSparse")
def _serialize(k: KernelBuild) -> Kernel:
    dtype, variant = k.dtype("T"), k.dtype("out_type") is dtypes.variant

    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        common.check(indices, values, shape, "sparse")
        return object_array(_to_items((indices, values, shape), dtype, variant), (3,))

    return kernel


@register_kernel("SerializeManySparse")
def _serialize_many(k: KernelBuild) -> Kernel:
    dtype, variant = k.dtype("T"), k.dtype("out_type") is dtypes.variant

    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        rows = _split_rows(indices, values, shape)
        items = [item for row in rows for item in _to_items(row, dtype, variant)]
        return object_array(items, (len(rows), 3))

    return kernel


def _from_items(items: list[Any], dtype: DType, row: int) -> Parts:
    parts = []
    for item, want in zip(items, (dtypes.int64, dtype, dtypes.int64)):
        if isinstance(item, bytes):
            try:
                proto = tensor_pb2.TensorProto.FromString(item)
            except Exception as e:
                raise InvalidArgumentError(f"Could not parse serialized proto of SparseTensor[{row}]: {e}") from e
            try:
                item = decode_tensor(proto)
            except InvalidArgumentError as e:
                raise InternalError(f"Could not construct tensor from proto: {e.message}") from e
            if proto.dtype != want.as_datatype_enum:
                raise _other_type(row, want, dtypes.as_dtype(int(proto.dtype)))
        if not isinstance(item, (np.ndarray, np.generic)):
            raise InvalidArgumentError("serialized_sparse does not hold tensors")
        if item.dtype != want.np:
            raise _other_type(row, want, dtypes.as_dtype(item.dtype))
        parts.append(item)
    indices, values, shape = parts
    common.check(indices, values, shape, "sparse")
    return indices, values, shape


def _other_type(row: int, want: DType, got: DType) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Requested SparseTensor of type {want.name} but SparseTensor[{row}].values.dtype() == {got.name}"
    )


def join_rows(rows: list[Parts], lead: tuple[int, ...], what: str = "shape", batched: int = 0) -> Parts:
    """Join several sparse tensors to one, [lead..., elementwise greatest shape].

    Raises:
        InvalidArgumentError: their ranks differ.
    """
    rank = rows[0][2].shape[0]
    for i, (_, _, shape) in enumerate(rows):
        if shape.shape[0] != rank:
            raise InvalidArgumentError(
                f"Inconsistent {what} across SparseTensors: rank prior to SparseTensor[{i}] was: {rank + batched} but "
                f"rank of SparseTensor[{i}] is: {shape.shape[0] + batched}"
            )
    places = np.array(list(np.ndindex(lead)), np.int64).reshape(len(rows), len(lead))
    indices = np.concatenate(
        [np.hstack([np.broadcast_to(p, (len(i), len(lead))), i]) for p, (i, _, _) in zip(places, rows)]
    ).reshape(-1, len(lead) + rank)
    values = np.concatenate([v for _, v, _ in rows])
    greatest = np.max([s for _, _, s in rows], axis=0).astype(np.int64).reshape(rank)
    return indices, values, np.concatenate([np.array(lead, np.int64), greatest])


@register_kernel("DeserializeManySparse")
def _deserialize_many(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype")

    def kernel(serialized: Any) -> Any:
        if serialized.ndim != 2:
            raise InvalidArgumentError(
                f"Serialized sparse should be a matrix but received shape {text(serialized.shape)}"
            )
        if serialized.shape[1] != 3:
            raise InvalidArgumentError(
                f"Serialized sparse should have 3 columns but received shape {text(serialized.shape)}"
            )
        if serialized.shape[0] == 0:
            raise InvalidArgumentError("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
        return join_rows(
            [_from_items(row, dtype, i) for i, row in enumerate(serialized.tolist())], (serialized.shape[0],)
        )

    return kernel


@register_kernel("DeserializeSparse")
def _deserialize(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype")

    def kernel(serialized: Any) -> Any:
        if serialized.ndim == 0:
            raise InvalidArgumentError("Serialized sparse should have non-zero rank but received shape []")
        if serialized.shape[-1] != 3:
            raise InvalidArgumentError(
                f"Serialized sparse should have 3 as the last dimension but received shape {text(serialized.shape)}"
            )
        lead = serialized.shape[:-1]
        rows = [_from_items([serialized[(*p, i)] for i in range(3)], dtype, n) for n, p in enumerate(np.ndindex(lead))]
        if not rows:
            raise InvalidArgumentError("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
        return rows[0] if not lead else join_rows(rows, lead)

    return kernel


class SparseTensorsMap(Resource):
    """Sparse tensors kept by number between steps."""

    type_name = "SparseTensorsMap"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, Parts] = {}
        self._next = 0

    def add(self, parts: Parts) -> int:
        with self._lock:
            handle = self._next
            self._next += 1
            self._held[handle] = parts
        return handle

    def take(self, handles: tuple[int, ...]) -> list[Parts]:
        """Remove and return entries.

        Raises:
            InvalidArgumentError: a handle is unknown, or was taken before.
        """
        with self._lock:
            for h in handles:
                if h not in self._held:
                    raise InvalidArgumentError(f"Unable to find SparseTensor: {h} in map: ")
            return [self._held.pop(h) for h in handles]


def _map_of(k: KernelBuild, step: StepContext) -> SparseTensorsMap:
    name = k.resource_name
    return step.resources.lookup_or_create(k.text_attr("container"), name, SparseTensorsMap, SparseTensorsMap)


@register_kernel("AddSparseToTensorsMap", step=True)
def _add(k: KernelBuild) -> Kernel:
    def kernel(step: StepContext, indices: Any, values: Any, shape: Any) -> Any:
        common.check(indices, values, shape, "sparse")
        return np.array(_map_of(k, step).add((indices, values, shape)), np.int64)

    return kernel


@register_kernel("AddManySparseToTensorsMap", step=True)
def _add_many(k: KernelBuild) -> Kernel:
    def kernel(step: StepContext, indices: Any, values: Any, shape: Any) -> Any:
        held = _map_of(k, step)
        return np.array([held.add(row) for row in _split_rows(indices, values, shape)], np.int64)

    return kernel


@register_kernel("TakeManySparseFromTensorsMap", step=True)
def _take_many(k: KernelBuild) -> Kernel:
    def kernel(step: StepContext, handles: Any) -> Any:
        if handles.ndim != 1:
            raise InvalidArgumentError(f"sparse_handles should be a vector but received shape {text(handles.shape)}")
        rows = _map_of(k, step).take(ints(handles))
        if not rows:
            raise InvalidArgumentError("Must have at least 1 SparseTensor to take")
        return join_rows(rows, (len(rows),), "rank", 1)

    return kernel
