"""The older checkpoint format of the Save and Restore ops: one table of tensor slices a file.

The empty key holds a description of all tensors, the others, made from name and slice, a TensorProto each.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_bundle_pb2, tensor_pb2
from dtfctl.runtime.checkpoint.atomic import atomic_file, os_error
from dtfctl.runtime.checkpoint.sstable import Table, build_table
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import decode_tensor, shape_of_proto, to_bytes
from dtfctl.runtime.framework.tensor_shape import TensorShape

_UNSUPPORTED = (dtypes.resource, dtypes.variant, dtypes.uint32, dtypes.uint64)


# The most bytes a value may take, by TensorFlow's estimate, and what a slice may have with its description.
_MOST_BYTES = {
    **dict.fromkeys((dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.qint8, dtypes.qint16), 10),
    **dict.fromkeys((dtypes.uint16, dtypes.quint16, dtypes.float16), 3),
    **dict.fromkeys((dtypes.uint8, dtypes.quint8), 2),
    dtypes.qint32: 10,
}
_DESCRIPTION_BYTES, _SLICE_BYTES = 1 << 10, 1 << 31


@dataclass(frozen=True)
class SliceToSave:
    name: str
    shape: tuple[int, ...]
    piece: TensorSlice
    value: Any
    dtype: DType


def write_slice_table(path: str, slices: Sequence[SliceToSave]) -> None:
    """Write `path`, atomically.

    Raises:
        UnimplementedError: a type the format has no field for.
        InvalidArgumentError: slices of one tensor disagree, or one is larger than the format can hold.
        OpError: the file system refuses.
    """
    path = local_path(path)
    saved = tensor_bundle_pb2.SavedTensorSlices()
    saved.meta.versions.producer = 1
    described: dict[str, tensor_bundle_pb2.SavedSliceMeta] = {}
    rows: dict[bytes, bytes] = {}
    for item in sorted(slices, key=lambda s: s.name):
        dtype = item.dtype.base_dtype
        if dtype in _UNSUPPORTED:
            raise UnimplementedError(f"Saving data type {WIRE_NAME[dtype]} not yet supported")
        if not dtype.is_object:
            least = np.size(item.value) * _MOST_BYTES.get(dtype, dtype.size) + _DESCRIPTION_BYTES
            if least > _SLICE_BYTES:
                raise InvalidArgumentError(
                    f"Tensor slice is too large to serialize (conservative estimate: {least} bytes): {item.name}; save "
                    "it in format V2, or in slices"
                )
        meta = described.get(item.name)
        shape = TensorShape(item.shape).as_proto()
        if meta is None:
            meta = described[item.name] = saved.meta.tensor.add(
                name=item.name,
                shape=shape,
                type=dtype.as_datatype_enum,
            )
        elif meta.shape != shape or meta.type != dtype.as_datatype_enum:
            raise InvalidArgumentError(f"Mismatching shapes or types of slices of tensor {item.name}")
        meta.slice.append(item.piece.to_proto())
        data = tensor_bundle_pb2.SavedTensorSlices()
        data.data.name = item.name
        data.data.slice.CopyFrom(item.piece.to_proto())
        data.data.data.CopyFrom(_values_proto(np.asarray(item.value), dtype))
        rows[item.piece.key(item.name)] = data.SerializeToString()
    rows[b""] = saved.SerializeToString()
    with atomic_file(path) as file:
        file.write(build_table([(key, rows[key]) for key in sorted(rows)]))


def _values_proto(value: Any, dtype: DType) -> tensor_pb2.TensorProto:
    """Make the typed value lists only; the format has no other form."""
    proto = tensor_pb2.TensorProto()
    flat = value.reshape(-1)
    if dtype is dtypes.string:
        proto.string_val.extend(to_bytes(s) for s in flat.tolist())
    elif dtype is dtypes.float32:
        proto.float_val.extend(flat.tolist())
    elif dtype is dtypes.float64:
        proto.double_val.extend(flat.tolist())
    elif dtype is dtypes.int64:
        proto.int64_val.extend(flat.tolist())
    elif dtype.is_bool:
        proto.bool_val.extend(flat.tolist())
    elif dtype in (dtypes.float16, dtypes.bfloat16):
        proto.half_val.extend(flat.view(np.uint16).tolist())
    elif dtype is dtypes.complex64:
        proto.scomplex_val.extend(flat.view(np.float32).tolist())
    elif dtype is dtypes.complex128:
        proto.dcomplex_val.extend(flat.view(np.float64).tolist())
    else:
        proto.int_val.extend(flat.astype(np.int32).tolist())
    return proto


class SliceTableReader:
    """The files that match a pattern, read as one checkpoint.

    Raises (all methods):
        NotFoundError: no file matches.
        DataLossError: a file is damaged.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        where = local_path(pattern)
        paths = sorted(glob.glob(where)) or ([where] if Path(where).is_file() else [])
        if not paths:
            raise NotFoundError(
                f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {pattern}"
            )
        self._tables: list[Table] = []
        self._meta: dict[str, tensor_bundle_pb2.SavedSliceMeta] = {}
        for path in paths:
            try:
                table = Table(Path(path).read_bytes())
            except DataLossError as e:
                raise DataLossError(
                    f"Unable to open table file {path}: DATA_LOSS: {e.message}: perhaps your file is in a different "
                    "file format and you need to use a different restore operator?"
                ) from e
            except OSError as e:
                raise os_error(e) from e
            raw = table.get(b"")
            if raw is None:
                raise DataLossError(f"Table file {path} has no description of its tensors")
            for meta in tensor_bundle_pb2.SavedTensorSlices.FromString(raw).meta.tensor:
                known = self._meta.setdefault(meta.name, meta)
                if known is not meta:
                    known.slice.extend(meta.slice)
            self._tables.append(table)

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        meta = self._meta.get(name)
        if meta is None:
            raise NotFoundError(f'Tensor name "{name}" not found in checkpoint files {self.pattern}')
        return dtypes.as_dtype(int(meta.type)), shape_of_proto(meta.shape)

    def names(self) -> list[str]:
        return list(self._meta)

    def read(self, name: str, piece: TensorSlice | None = None) -> Any:
        """Read a tensor or a slice of it, put together from what was saved."""
        dtype, shape = self.dtype_and_shape(name)
        wanted = (piece or TensorSlice.full(len(shape))).applied_to(shape)
        out: Any = np.empty(tuple(s.stop - s.start for s in wanted), dtype.np)
        covered: Any = np.zeros(out.shape, bool)
        for proto in self._meta[name].slice:
            stored = TensorSlice.from_proto(proto)
            have = stored.applied_to(shape)
            low = [max(w.start, h.start) for w, h in zip(wanted, have)]
            high = [min(w.stop, h.stop) for w, h in zip(wanted, have)]
            if any(a >= b for a, b in zip(low, high)):
                continue
            value = self._value(name, stored, dtype, tuple(h.stop - h.start for h in have))
            target = tuple(slice(a - w.start, b - w.start) for a, b, w in zip(low, high, wanted))
            out[target] = value[tuple(slice(a - h.start, b - h.start) for a, b, h in zip(low, high, have))]
            covered[target] = True
        if not covered.all():
            raise InvalidArgumentError("Error copying slice data")
        return out

    def _value(self, name: str, piece: TensorSlice, dtype: DType, shape: tuple[int, ...]) -> Any:
        key = piece.key(name)
        for table in self._tables:
            raw = table.get(key)
            if raw is not None:
                proto = tensor_bundle_pb2.SavedTensorSlices.FromString(raw).data.data
                proto.dtype = dtype.as_datatype_enum  # type: ignore[assignment]
                proto.tensor_shape.CopyFrom(TensorShape(shape).as_proto())
                return decode_tensor(proto)
        raise DataLossError(f"Slice {piece} of tensor {name} is described in the checkpoint but not stored")
