"""Writing tensor bundles, the files of TensorFlow's V2 checkpoints.

`PREFIX.data-00000-of-00001` holds the tensors' bytes one after the other, `PREFIX.index` a table of where each is.
Both are written under temporary names; the data is renamed first and the index last, so a checkpoint with an index is
complete.
"""

from __future__ import annotations

import contextlib
import os
import struct
from concurrent.futures import Future, wait
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import google_crc32c
import numpy as np

from dtfctl.durable import open_temporary, remove_left, sync_folder, temporary_of
from dtfctl.protocol import tensor_bundle_pb2
from dtfctl.runtime.checkpoint import parts
from dtfctl.runtime.checkpoint.atomic import READABLE, atomic_file, os_error
from dtfctl.runtime.checkpoint.blocks import LARGE, write_behind, write_block
from dtfctl.runtime.checkpoint.direct import DirectFile, whole_pages
from dtfctl.runtime.checkpoint.preserved import ArraySnapshot
from dtfctl.runtime.checkpoint.sstable import build_table, mask_crc
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import encode_variant, to_bytes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.framework.varints import varint

_PRODUCER = 1
# Saving to "SNAPSHOT + prefix" keeps the tensors in memory; the next save to that prefix by the same op writes those.
SNAPSHOT = "dtf-snapshot:"


def data_file(prefix: str, shard: int, shards: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def index_file(prefix: str) -> str:
    return prefix + ".index"


class BundleWriter:
    """Collects tensors under names and writes one shard; use as a context manager, which finishes it.

    Args:
        in_background: what else computes in this process goes first. Large tensors then have pages of the file to
            themselves, and what is written does not stay in the system's memory.

    Raises:
        InvalidArgumentError: a name is added twice, or slices of one tensor disagree on its type or shape.
        OpError: the file system refuses.
    """

    def __init__(self, prefix: str, in_background: bool = False) -> None:
        prefix = self._prefix = local_path(prefix)
        self._entries: dict[bytes, tensor_bundle_pb2.BundleEntryProto] = {}
        self._offset = 0
        # Large tensors on their way to the file, with the entries that want their checksums.
        self._pending: list[tuple[tensor_bundle_pb2.BundleEntryProto, Future[int]]] = []
        self._temporary = str(temporary_of(Path(data_file(prefix, 0, 1))))
        folder = Path(prefix).parent
        self._made_folder = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if parts.are_in(folder):
                parts.hold(folder)
            parts.remove_left(folder.parent if parts.are_in(folder) else folder)
            remove_left(folder)
            # finish and abort close it
            self._file: BinaryIO = os.fdopen(open_temporary(Path(self._temporary), READABLE), "wb")
        except OSError as e:
            raise os_error(e, self._temporary) from e
        self._behind: DirectFile | None = None
        if in_background:
            try:
                self._behind = DirectFile(self._temporary)
            except OSError as e:
                self.abort()
                raise os_error(e, self._temporary) from e

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abort()

    def add(self, name: str, value: Any, dtype: DType) -> None:
        """Write a tensor of any shape, or a snapshot of one, under `name`."""
        self._add(name.encode(), value, dtype.base_dtype)

    def add_slice(self, name: str, shape: tuple[int, ...], piece: TensorSlice, value: Any, dtype: DType) -> None:
        """Write a part of the tensor `name`, whose full shape is `shape`."""
        entry = self._entries.setdefault(name.encode(), tensor_bundle_pb2.BundleEntryProto())
        number, full = dtype.base_dtype.as_datatype_enum, TensorShape(shape).as_proto()
        if entry.dtype and (entry.dtype != number or entry.shape != full):
            raise InvalidArgumentError(f"Slices of tensor {name} disagree on its type or its full shape")
        entry.dtype = number  # type: ignore[assignment]
        entry.shape.CopyFrom(full)
        entry.slices.append(piece.to_proto())
        self._add(piece.key(name), value, dtype.base_dtype)

    def _add(self, key: bytes, value: Any, dtype: DType) -> None:
        if not isinstance(value, ArraySnapshot):
            value = np.asarray(value)
        if key in self._entries:
            raise InvalidArgumentError(f"Adding duplicate key: {key.decode(errors='replace')}")
        try:
            size, crc = self._write(value, dtype)
        except OSError as e:
            raise os_error(e, self._temporary) from e
        entry = self._entries[key] = tensor_bundle_pb2.BundleEntryProto(
            dtype=dtype.as_datatype_enum,  # type: ignore[arg-type]
            shape=TensorShape(value.shape).as_proto(),
            offset=self._offset,
            size=size,
        )
        self._offset = self._file.tell()
        if isinstance(crc, int):
            entry.crc32c = mask_crc(crc)
        else:
            self._pending.append((entry, crc))

    def _write(self, value: Any, dtype: DType) -> tuple[int, int | Future[int]]:
        """Append a tensor's bytes; their number and CRC, of a large one once it is written."""
        if isinstance(value, ArraySnapshot):
            return self._write_large(value)
        if dtype.kind == "string":
            return self._write_strings([to_bytes(s) for s in value.reshape(-1).tolist()])
        if dtype.kind == "variant":
            return self._write_variants(value.reshape(-1).tolist())
        if dtype.is_object:
            raise UnimplementedError(f"Saving data type {WIRE_NAME[dtype]} not yet supported")
        if not value.size:
            return 0, google_crc32c.value(b"")
        flat = np.ascontiguousarray(value, dtype.np).reshape(-1).view(np.uint8)
        if flat.size >= LARGE:
            return self._write_large(flat)
        self._file.write(flat.data)
        return flat.size, google_crc32c.value(flat)

    def _write_large(self, data: np.ndarray[Any, Any] | ArraySnapshot) -> tuple[int, Future[int]]:
        if self._behind is not None:
            self._offset = whole_pages(self._offset)
            crc = write_behind(self._behind, data, self._offset)
            self._file.seek(whole_pages(self._offset + data.size))
        elif isinstance(data, ArraySnapshot):
            raise InternalError("A snapshot is written in the background")
        else:
            crc = write_block(self._file.fileno(), data, self._offset)
            self._file.seek(self._offset + data.size)
        return data.size, crc

    def _write_strings(self, strings: list[bytes]) -> tuple[int, int]:
        lengths = b"".join(varint(len(s)) for s in strings)
        # The CRC is over lengths as fixed-size integers, not as they are stored.
        crc = google_crc32c.value(
            b"".join(struct.pack("<I" if len(s) <= 0xFFFFFFFF else "<Q", len(s)) for s in strings)
        )
        checksum = struct.pack("<I", mask_crc(crc))
        body = b"".join(strings)
        crc = google_crc32c.extend(google_crc32c.extend(crc, checksum), body)
        self._file.write(lengths + checksum)
        self._file.write(body)
        return len(lengths) + len(checksum) + len(body), crc

    def _write_variants(self, values: list[Any]) -> tuple[int, int]:
        size, crc = 0, 0
        for value in values:
            body = encode_variant(value).SerializeToString()
            head = varint(len(body))
            crc = google_crc32c.extend(crc, struct.pack("<Q", len(body)))
            crc = google_crc32c.extend(crc, body)
            checksum = struct.pack("<I", mask_crc(crc))
            crc = google_crc32c.extend(crc, checksum)
            self._file.write(head + body + checksum)
            size += len(head) + len(body) + len(checksum)
        return size, crc

    def finish(self) -> None:
        """Make the checkpoint visible."""
        try:
            for entry, crc in self._pending:
                entry.crc32c = mask_crc(crc.result())
            self._pending.clear()
            self._file.flush()
            os.fsync(self._file.fileno())
            Path(self._temporary).replace(data_file(self._prefix, 0, 1))
            self._close()
            sync_folder(Path(self._prefix).parent)
        except OSError as e:
            self.abort()
            raise os_error(e, self._temporary) from e
        write_index(self._prefix, self._entries, 1)

    def abort(self) -> None:
        """Leave nothing behind."""
        # The threads that still write need the file open.
        wait(crc for _, crc in self._pending)
        self._pending.clear()
        # What is still buffered has no place on a full disk; closing says so again, and closes all the same.
        with contextlib.suppress(OSError):
            self._close()
        Path(self._temporary).unlink(missing_ok=True)
        if parts.are_in(Path(self._temporary).parent):
            parts.let_go(Path(self._temporary).parent)
        elif self._made_folder:
            with contextlib.suppress(OSError):  # another shard is in it
                Path(self._temporary).parent.rmdir()

    def _close(self) -> None:
        if self._behind is not None:
            self._behind.close()
            self._behind = None
        self._file.close()


def write_index(prefix: str, entries: dict[bytes, tensor_bundle_pb2.BundleEntryProto], shards: int) -> None:
    """Write the table that names every tensor, atomically."""

    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=shards)
    header.version.producer = _PRODUCER
    rows = [(b"", header.SerializeToString())]
    rows += [(key, entries[key].SerializeToString(deterministic=True)) for key in sorted(entries)]
    with atomic_file(index_file(prefix)) as file:
        file.write(build_table(rows))
