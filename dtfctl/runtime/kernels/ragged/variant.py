"""Ragged tensors inside variants: how tf.data and map functions carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import (
    decode_tensor,
    encode_tensor,
    object_array,
    object_scalar,
    register_variant,
)
from dtfctl.runtime.kernels.array.common import ints
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

TYPE_NAME = "RaggedTensorVariant"


@dataclass(frozen=True, eq=False)
class RaggedTensorVariant:
    """Row splits of every ragged dimension, outermost first, and the values."""

    nested_splits: tuple[Any, ...]
    values: Any
    dtype: DType

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        proto = tensor_pb2.VariantTensorDataProto(type_name=TYPE_NAME)
        for splits in self.nested_splits:
            proto.tensors.append(encode_tensor(splits))
        proto.tensors.append(encode_tensor(self.values, self.dtype))
        return proto

    def zeros_like_variant(self) -> RaggedTensorVariant:
        return RaggedTensorVariant(self.nested_splits, np.zeros_like(self.values), self.dtype)

    def add_variant(self, other: Any) -> RaggedTensorVariant:
        return RaggedTensorVariant(self.nested_splits, self.values + other.values, self.dtype)


def _decode(proto: tensor_pb2.VariantTensorDataProto) -> RaggedTensorVariant:
    if not proto.tensors:
        raise InvalidArgumentError("A RaggedTensorVariant without tensors")
    parts = [decode_tensor(t) for t in proto.tensors]
    return RaggedTensorVariant(tuple(parts[:-1]), parts[-1], dtypes.as_dtype(proto.tensors[-1].dtype))


register_variant(TYPE_NAME, _decode)


@register_kernel("RaggedTensorToVariant")
def _to_variant(k: KernelBuild) -> Kernel:
    """Make one variant, or with `batched_input` one for each row of the outermost dimension."""
    rank, batched, dtype = int(k.attr("RAGGED_RANK")), bool(k.attr("batched_input")), k.dtype("Tvalues")

    def kernel(*args: Any) -> Any:
        nested, values = args[:rank], args[rank]
        if not batched:
            return object_scalar(RaggedTensorVariant(tuple(nested), values, dtype))
        if rank == 0:
            rows = [RaggedTensorVariant((), v if isinstance(v, np.ndarray) else np.asarray(v), dtype) for v in values]
            return object_array(rows, (values.shape[0],))
        out = []
        for i in range(len(nested[0]) - 1):
            low, high = int(nested[0][i]), int(nested[0][i + 1])
            inner = []
            for splits in nested[1:]:
                part = splits[low : high + 1]
                inner.append(part - part[0])
                low, high = int(part[0]), int(part[-1])
            out.append(RaggedTensorVariant(tuple(inner), values[low:high], dtype))
        return object_array(out, (len(out),))

    return kernel


def _held(item: Any, dtype: DType, rank: int) -> RaggedTensorVariant:
    if not isinstance(item, RaggedTensorVariant):
        raise InvalidArgumentError("Input Variant element is not a RaggedTensorVariant")
    if item.dtype is not dtype:
        raise InvalidArgumentError(f"Expected values Tensor dtype: {dtype.name}, found: {item.dtype.name}")
    if len(item.nested_splits) != rank:
        raise InvalidArgumentError(
            f"Encoded input RaggedTensorVariant has ragged_rank={len(item.nested_splits)}.  Expected "
            f"ragged_rank={rank}."
        )
    return item


def _check_rows(shapes: Sequence[tuple[int, ...]]) -> None:
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise InvalidArgumentError(
                f"All flat_values must have compatible shapes.  Shape at index 0: {shape_text(shapes[0])}.  Shape at "
                f"index {i}: {shape_text(shape)}.  If you are using tf.map_fn, then you may need to specify an "
                "explicit "
                "fn_output_signature with appropriate ragged_rank, and/or convert output tensors to RaggedTensors."
            )


@register_kernel("RaggedTensorFromVariant")
def _from_variant(k: KernelBuild) -> Kernel:
    in_rank, out_rank, dtype = int(k.attr("input_ragged_rank")), int(k.attr("output_ragged_rank")), k.dtype("Tvalues")
    splits_type = k.dtype("Tsplits").np

    def kernel(encoded: Any) -> Any:
        rank = out_rank - encoded.ndim if in_rank == -1 else in_rank
        if rank < 0:
            raise InvalidArgumentError(
                f"Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, found {rank}"
            )
        if encoded.ndim != 0 and out_rank != rank + encoded.ndim:
            raise InvalidArgumentError("output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims()")
        items = [_held(i, dtype, rank) for i in encoded.reshape(-1).tolist()]
        if encoded.ndim == 0:
            return [*(s.astype(splits_type, copy=False) for s in items[0].nested_splits), items[0].values]
        outer, size = [], 1
        for axis in range(encoded.ndim - 1):
            size *= encoded.shape[axis]
            outer.append(np.arange(size + 1) * encoded.shape[axis + 1])
        lengths = [(len(i.nested_splits[0]) - 1) if rank else i.values.shape[0] for i in items]
        nested = [*outer, np.concatenate([[0], np.cumsum(lengths)])]
        for level in range(rank):
            total, parts = 0, [np.zeros(1, np.int64)]
            for item in items:
                splits = item.nested_splits[level]
                parts.append(splits[1:] + total)
                total += int(splits[-1])
            nested.append(np.concatenate(parts))
        _check_rows([i.values.shape[1:] for i in items])
        values = np.concatenate([i.values for i in items]) if items else np.zeros(0, dtype.np)
        return [*(s.astype(splits_type) for s in nested), values]

    return kernel


@register_kernel("RaggedTensorToVariantGradient")
def _to_variant_gradient(k: KernelBuild) -> Kernel:
    dtype = k.dtype("Tvalues")

    def kernel(encoded: Any, row_splits: Any, shape: Any) -> Any:
        dims = ints(shape)
        out = np.zeros(dims, dtype.np)
        items = encoded.reshape(-1).tolist()
        if encoded.ndim == 0:
            return items[0].values.reshape(dims)
        starts = row_splits[:-1] if row_splits.size else np.arange(len(items))
        for start, item in zip(starts.tolist(), items):
            values = item.values
            if row_splits.size == 0:
                out[start] = values
            else:
                out[start : start + values.shape[0]] = values
        return out

    return kernel
