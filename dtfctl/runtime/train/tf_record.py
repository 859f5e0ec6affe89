"""`tf.python_io`: files of records, written and read in the client."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from dtfctl.runtime.kernels.io.records import tfrecord
from dtfctl.runtime.train.summary_io import read_records
from dtfctl.values import value


class TFRecordCompressionType:
    """Numbers of compressions, for `TFRecordOptions`."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


@value
class TFRecordOptions:
    """How records are compressed: a number of `TFRecordCompressionType`, or "", "ZLIB" or "GZIP"."""

    compression_type: int | str | None = None

    def as_text(self) -> str:
        """ "" or the compression's name.

        Raises:
            ValueError: there is no such compression.
        """
        names: dict[Any, str] = {None: "", 0: "", 1: "ZLIB", 2: "GZIP"}
        found = names.get(self.compression_type, self.compression_type)
        if found not in ("", "ZLIB", "GZIP"):
            raise ValueError(f"Not a valid compression_type: {self.compression_type!r}")
        return str(found)

    @staticmethod
    def get_compression_type_string(options: TFRecordOptions | str | None) -> str:
        """Return the compression of options, of their text, or of None, as text."""
        return options.as_text() if isinstance(options, TFRecordOptions) else TFRecordOptions(options).as_text()


class TFRecordWriter:
    """Writes records to a new file, in TensorFlow's framing with checksums.

    Args:
        options: None, "", "GZIP", or `TFRecordOptions`.

    Raises:
        ValueError: another compression.
    """

    def __init__(self, path: str | os.PathLike[str], options: TFRecordOptions | str | None = None) -> None:
        options = TFRecordOptions.get_compression_type_string(options)
        if options == "ZLIB":
            raise ValueError(f"Compression {options!r} is not supported: use '' or 'GZIP'")
        self._file = (
            cast(BinaryIO, gzip.open(path, "wb"))  # noqa: SIM115
            if options == "GZIP"
            else Path(path).open("wb")  # noqa: SIM115
        )

    def write(self, record: bytes) -> None:
        self._file.write(tfrecord(record))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tf_record_iterator(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Iterate over the records of an uncompressed file.

    Raises:
        DataLossError: a checksum is wrong.
    """
    return read_records(Path(path))
