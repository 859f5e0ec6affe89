"""Record files: text lines, fixed-length records and TFRecords, plain or compressed."""

from __future__ import annotations

import fnmatch
import glob
import gzip
import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import google_crc32c

from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.checkpoint.snappy_file import SnappyReader, SnappyWriter
from dtfctl.runtime.checkpoint.sstable import mask_crc, unmask_crc
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.local_path import as_matched, local_path

_HEADER, _FOOTER = 12, 4


def open_file(path: str, compression: str = "") -> BinaryIO:
    """Open a file for reading, decompressed as it is read ("", "ZLIB", "GZIP" or "SNAPPY").

    Raises:
        OpError: it cannot be read.
    """
    path = local_path(path)
    try:
        if compression == "GZIP":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if compression == "ZLIB":
            return io.BytesIO(zlib.decompress(Path(path).read_bytes()))
        if compression == "SNAPPY":
            return cast(BinaryIO, io.BufferedReader(SnappyReader(Path(path).open("rb"))))
        return Path(path).open("rb")
    except OSError as e:
        raise os_error(e, path) from e
    except zlib.error as e:
        raise DataLossError(f"{path}: {e}") from e


def text_lines(path: str, compression: str = "") -> Iterator[bytes]:
    """Yield the lines of a file without their ends."""
    with open_file(path, compression) as file:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def fixed_length_records(
    path: str, header: int, record: int, footer: int, compression: str = "", hop: int = 0
) -> Iterator[bytes]:
    """Records of `record` bytes, `hop` apart (0: one after the other), between a header and a footer."""
    with open_file(path, compression) as file:
        data = file.read()
    step = hop or record
    body = len(data) - header - footer
    if hop == 0 and (body < 0 or body % record):
        raise InvalidArgumentError(
            f'Excluding the header ({header} bytes) and footer ({footer} bytes), input file "{path}" has body length '
            f"{body} bytes, which is not an exact multiple of the record length ({record} bytes)."
        )
    for at in range(header, len(data) - footer - record + 1, step):
        yield data[at : at + record]


def read_tfrecords(path: str, compression: str = "", offset: int = 0) -> Iterator[bytes]:
    """Yield the records of a TFRecord file, from byte `offset` on.

    Raises:
        DataLossError: a length or a record does not match its checksum, or the file ends inside one.
    """
    with open_file(path, compression) as file:
        at = offset
        if offset:
            file.seek(offset)
        while True:
            head = file.read(_HEADER)
            if not head:
                return
            if len(head) < _HEADER:
                raise DataLossError(f"truncated record at {at}")
            length, masked = struct.unpack("<QI", head)
            if unmask_crc(masked) != google_crc32c.value(head[:8]):
                raise DataLossError(f"corrupted record at {at}")
            body = file.read(length)
            tail = file.read(_FOOTER)
            if len(body) < length or len(tail) < _FOOTER:
                raise DataLossError(f"truncated record at {at}")
            if unmask_crc(struct.unpack("<I", tail)[0]) != google_crc32c.value(body):
                raise DataLossError(f"corrupted record at {at}")
            yield body
            at += _HEADER + length + _FOOTER


def tfrecord(record: bytes) -> bytes:
    """Frame one record as it stands in a TFRecord file, with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return b"".join(
        (
            length,
            struct.pack("<I", mask_crc(google_crc32c.value(length))),
            record,
            struct.pack("<I", mask_crc(google_crc32c.value(record))),
        )
    )


class TFRecordWriter:
    """A TFRecord file that is written record by record, compressed ("", "ZLIB", "GZIP" or "SNAPPY").

    Raises:
        OpError: the file system refuses.
    """

    def __init__(self, path: str, compression: str = "") -> None:
        self._path = local_path(path)
        try:
            self._file: BinaryIO = Path(self._path).open("wb")  # noqa: SIM115 (close closes it)
        except OSError as e:
            raise os_error(e, self._path) from e
        self._gzip = gzip.GzipFile(fileobj=self._file, mode="wb") if compression == "GZIP" else None
        self._zlib = zlib.compressobj() if compression == "ZLIB" else None
        self._snappy = SnappyWriter(self._file) if compression == "SNAPPY" else None

    def write(self, record: bytes) -> None:
        data = tfrecord(record)
        try:
            if self._zlib is not None:
                self._file.write(self._zlib.compress(data))
            else:
                (self._gzip or self._snappy or self._file).write(data)
        except OSError as e:
            raise os_error(e, self._path) from e

    def close(self) -> None:
        try:
            if self._zlib is not None:
                self._file.write(self._zlib.flush())
            elif self._gzip is not None:
                self._gzip.close()
            elif self._snappy is not None:
                self._snappy.close()
            self._file.close()
        except OSError as e:
            raise os_error(e, self._path) from e


def write_tfrecords(path: str, records: Iterable[bytes], compression: str = "") -> None:
    """Write a TFRecord file."""
    writer = TFRecordWriter(path, compression)
    try:
        for record in records:
            writer.write(record)
    finally:
        writer.close()


def matching_files(patterns: Iterable[str]) -> list[bytes]:
    """Names of files that match any of the patterns, sorted.

    Raises:
        NotFoundError: a pattern's folder does not exist.
    """
    found: set[str] = set()
    for given in patterns:
        pattern = local_path(given)
        scheme = given.removesuffix(pattern)
        folder = pattern.rpartition("/")[0]
        if folder and not glob.has_magic(folder) and not Path(folder).is_dir():
            raise NotFoundError(f"{folder}; No such file or directory")
        matches = glob.glob(pattern, include_hidden=True)
        found.update(scheme + as_matched(pattern, m) for m in matches if fnmatch.fnmatchcase(m, pattern))
    return [name.encode() for name in sorted(found)]
