"""Reading tensor bundles: by name, whole or a slice, from however many shards and pieces they were written in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from io import FileIO
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from dtfctl.protocol import tensor_bundle_pb2, tensor_pb2
from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.checkpoint.blocks import LARGE, check_block, read_block
from dtfctl.runtime.checkpoint.bundle_writer import data_file, index_file
from dtfctl.runtime.checkpoint.sstable import Table, unmask_crc
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import decode_variant, object_array, shape_of_proto
from dtfctl.runtime.framework.varints import read_varint

Entry = tensor_bundle_pb2.BundleEntryProto


class BundleReader:
    """An open checkpoint.

    Raises (all methods):
        NotFoundError: no such checkpoint, or no such tensor in it.
        DataLossError: a file is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        path = Path(index_file(local_path(prefix)))
        try:
            self._table = Table(path.read_bytes())
        except FileNotFoundError:
            raise NotFoundError(
                f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}"
            ) from None
        except OSError as e:
            raise os_error(e) from e
        raw = self._table.get(b"")
        if raw is None:
            raise DataLossError(_corrupt(path, "failed to seek to header entry"))
        try:
            self.header = tensor_bundle_pb2.BundleHeaderProto.FromString(raw)
        except Exception as e:
            raise DataLossError(_corrupt(path, "unable to parse header")) from e
        if self.header.endianness != tensor_bundle_pb2.BundleHeaderProto.LITTLE:
            raise UnimplementedError(f"TensorBundle at {prefix} is of a different endianness than this machine's")
        if self.header.version.min_consumer > 1:
            raise InvalidArgumentError(
                f"Checkpoint {prefix} needs a reader of version {self.header.version.min_consumer}, this one is 1"
            )
        self._shards: dict[int, Any] = {}
        self._files: dict[int, FileIO] = {}

    def has(self, name: str) -> bool:
        return self._table.get(name.encode()) is not None

    def entries(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield all keys but the header's, slices' keys among them, in order."""
        for key, raw in self._table.items():
            if key:
                yield key, _parse(key, raw)

    def names(self) -> list[str]:
        """Return the tensors' names."""
        return [key.decode() for key, _ in self.entries() if not key.startswith(b"\x00")]

    def entry(self, name: str) -> Entry:
        return self._entry(name.encode())

    def _entry(self, key: bytes) -> Entry:
        raw = self._table.get(key) if key else None
        if raw is None:
            raise NotFoundError(f"Key {key.decode(errors='replace')} not found in checkpoint")
        return _parse(key, raw)

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        entry = self.entry(name)
        return _dtype(entry, name), _shape(entry, name)

    def read(self, name: str) -> Any:
        """Read the whole tensor, put together from its slices if it was saved in parts."""
        return self.begin_read(name)()

    def begin_read(self, name: str) -> Callable[[], Any]:
        """Start reading a whole tensor; what is returned waits for it and gives it.

        Large ones are read by threads, so that starting several before waiting for the first reads them together.
        """
        entry = self.entry(name)
        if entry.slices:
            return lambda: self._assemble(name, entry, TensorSlice.full(len(entry.shape.dim)))
        return self._begin_value(name, entry)

    def begin_map(self, name: str) -> Callable[[], Any]:
        """Begin to read the same, but a large tensor is given as it stands in the file, read-only, once it was checked.

        That costs no memory and no copy. Whoever keeps it should take a copy when there is time (see
        `checkpoint.mapped`): files that are rewritten in place would show in it.
        """
        entry = self.entry(name)
        return self.begin_read(name) if entry.slices else self._begin_value(name, entry, in_place=True)

    def read_slice(self, name: str, piece: TensorSlice) -> Any:
        """Read a part of the tensor.

        Raises:
            InvalidArgumentError: the checkpoint has not all of it.
        """
        entry = self.entry(name)
        if entry.slices:
            return self._assemble(name, entry, piece)
        return self._value(name, entry)[piece.applied_to(_shape(entry, name))].copy()

    def _assemble(self, name: str, entry: Entry, piece: TensorSlice) -> Any:
        shape, dtype = _shape(entry, name), _dtype(entry, name)
        wanted = piece.applied_to(shape)
        out = np.empty(tuple(s.stop - s.start for s in wanted), dtype.np)
        covered = np.zeros(out.shape, bool)
        for proto in entry.slices:
            stored = TensorSlice.from_proto(proto)
            have = stored.applied_to(shape)
            low = [max(w.start, h.start) for w, h in zip(wanted, have)]
            high = [min(w.stop, h.stop) for w, h in zip(wanted, have)]
            if any(a >= b for a, b in zip(low, high)):
                continue
            key = stored.key(name)
            value = self._value(name, self._entry(key))
            target = tuple(slice(a - w.start, b - w.start) for a, b, w in zip(low, high, wanted))
            source = tuple(slice(a - h.start, b - h.start) for a, b, h in zip(low, high, have))
            out[target] = value[source]
            covered[target] = True
        if not covered.all():
            raise InvalidArgumentError(
                f"Does not have sufficient slices for partitioned tensor {name} to restore in slice_spec: {piece}"
            )
        return out

    def _shard(self, shard: int) -> Any:
        data = self._shards.get(shard)
        if data is None:
            path = data_file(local_path(self.prefix), shard, self.header.num_shards)
            try:
                size = Path(path).stat().st_size
                # As a plain array: slices of a memmap cost more.
                data = np.asarray(np.memmap(path, np.uint8, "r")) if size else np.zeros(0, np.uint8)
            except OSError as e:
                raise os_error(e, path) from e
            self._shards[shard] = data
        return data

    def _handle(self, shard: int) -> int:
        """Open a shard's file, which stays so as long as this reader lives."""
        file = self._files.get(shard)
        if file is None:
            path = data_file(local_path(self.prefix), shard, self.header.num_shards)
            try:
                file = self._files[shard] = FileIO(path)
            except OSError as e:
                raise os_error(e, path) from e
        return file.fileno()

    def _value(self, name: str, entry: Entry) -> Any:
        return self._begin_value(name, entry)()

    def _begin_value(self, name: str, entry: Entry, in_place: bool = False) -> Callable[[], Any]:
        dtype, shape = _dtype(entry, name), _shape(entry, name)
        count = int(np.prod(shape, dtype=np.int64))
        data = self._shard(entry.shard_id)
        if not 0 <= entry.offset <= entry.offset + entry.size <= data.size:
            raise DataLossError(
                f"TensorBundle at {self.prefix} shard {entry.shard_id} ({entry.size} bytes): the file ends before "
                f"tensor {name} does"
            )
        if dtype.is_object:
            return lambda: self._objects(data, entry, dtype, count, shape)
        if entry.size != count * dtype.np.itemsize:
            raise DataLossError(
                f"Invalid size in bundle entry: key {name}; stored size {entry.size}; expected size "
                f"{count * dtype.np.itemsize}"
            )
        if in_place and entry.size >= LARGE and not entry.offset % dtype.np.itemsize:
            stored = data[entry.offset : entry.offset + entry.size]
            return self._checked(name, entry, check_block(stored), stored.view(dtype.np).reshape(shape))
        value = np.empty(count, dtype.np)
        if entry.size < LARGE:
            raw = value.view(np.uint8)
            raw[:] = data[entry.offset : entry.offset + entry.size]
            self._check(entry, google_crc32c.value(raw))
            return lambda: value.reshape(shape)
        crc = read_block(self._handle(entry.shard_id), value.view(np.uint8), entry.offset)
        return self._checked(name, entry, crc, value.reshape(shape))

    def _checked(self, name: str, entry: Entry, crc: Future[int], value: Any) -> Callable[[], Any]:
        """Return what waits for a checksum and gives the value it is of."""

        def ended() -> Any:
            try:
                self._check(entry, crc.result())
            except (OSError, EOFError) as e:
                raise DataLossError(f"TensorBundle at {self.prefix}: cannot read tensor {name}: {e}") from e
            return value

        return ended

    def _objects(self, data: Any, entry: Entry, dtype: DType, count: int, shape: tuple[int, ...]) -> Any:
        """Strings or variants."""
        raw = data[entry.offset : entry.offset + entry.size].tobytes()
        items: list[Any]
        if dtype is dtypes.string:
            items, actual = _read_strings(raw, count, entry.offset + entry.size)
        else:
            items, actual = _read_variants(raw, count)
        self._check(entry, actual)
        return object_array(items, shape)

    def _check(self, entry: Entry, actual: int) -> None:
        if actual != unmask_crc(entry.crc32c):
            raise DataLossError(
                f"TensorBundle at {self.prefix} shard {entry.shard_id} ({entry.size} bytes): Checksum does not match: "
                f"stored {unmask_crc(entry.crc32c):08d} vs. calculated on the restored bytes {actual}"
            )


def _corrupt(path: Path, detail: str) -> str:
    return (
        f"Unable to read file ({path}). Perhaps the file is corrupt or was produced by a newer version of TensorFlow "
        f"with format changes ({detail})"
    )


def _parse(key: bytes, raw: bytes) -> Entry:
    try:
        return Entry.FromString(raw)
    except Exception as e:
        raise DataLossError(f"Entry for key {key.decode(errors='replace')} not parseable.") from e


def _dtype(entry: Entry, name: str) -> DType:
    try:
        return dtypes.as_dtype(int(entry.dtype)).base_dtype
    except TypeError as e:
        raise DataLossError(f"Invalid dtype {entry.dtype} of tensor {name}") from e


def _shape(entry: Entry, name: str) -> tuple[int, ...]:
    try:
        return shape_of_proto(entry.shape)
    except InvalidArgumentError as e:
        raise DataLossError(f"Invalid tensor shape: {name} {entry.shape}") from e


def _read_strings(raw: bytes, count: int, end: int) -> tuple[list[bytes], int]:
    lengths, at = [], 0
    for _ in range(count):
        length, at = read_varint(raw, at)
        lengths.append(length)
    if at + 4 + sum(lengths) != len(raw):
        raise DataLossError(f"String lengths longer than expected offset {end}")
    crc = google_crc32c.value(b"".join(struct.pack("<I" if n <= 0xFFFFFFFF else "<Q", n) for n in lengths))
    stored = unmask_crc(struct.unpack("<I", raw[at : at + 4])[0])
    if stored != crc:
        raise DataLossError(f"The length checksum does not match: expected {stored:08d} but actual is {crc:08d}")
    crc = google_crc32c.extend(crc, raw[at:])
    at += 4
    items = []
    for length in lengths:
        items.append(raw[at : at + length])
        at += length
    return items, crc


def _read_variants(raw: bytes, count: int) -> tuple[list[Any], int]:
    items, at, crc = [], 0, 0
    for i in range(count):
        length, at = read_varint(raw, at)
        body = raw[at : at + length]
        at += length
        crc = google_crc32c.extend(google_crc32c.extend(crc, struct.pack("<Q", length)), body)
        if at + 4 > len(raw):
            raise DataLossError(f"Variant {i} runs past the end of its entry")
        stored = unmask_crc(struct.unpack("<I", raw[at : at + 4])[0])
        if stored != crc:
            raise DataLossError(
                f"The checksum after Variant {i} does not match. Expected: {stored:08d} Actual: {crc:08d}"
            )
        crc = google_crc32c.extend(crc, raw[at : at + 4])
        at += 4
        items.append(decode_variant(tensor_pb2.VariantTensorDataProto.FromString(body)))
    return items, crc
