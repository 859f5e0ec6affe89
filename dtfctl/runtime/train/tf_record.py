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


class TFRecordCompressionType:
    """Numbers of compressions, for `TFRecordOptions`."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """How records are compressed: a number of `TFRecordCompressionType`, or "", "ZLIB" or "GZIP".

    Raises:
        ValueError: something is said of how zlib packs.
    """

    def __init__(
        self,
        compression_type: int | str | None = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        buffers = (flush_mode, input_buffer_size, output_buffer_size)
        packing = (window_bits, compression_level, compression_method, mem_level, compression_strategy)
        if any(setting is not None for setting in (*buffers, *packing)):
            raise ValueError("records are packed with zlib's own settings: give compression_type alone")
        self.compression_type = compression_type

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


def tf_record_iterator(path: str | os.PathLike[str], options: Any = None) -> Iterator[bytes]:
    """Iterate over the records of an uncompressed file.

    Raises:
        ValueError: the file is compressed.
        DataLossError: a checksum is wrong.
    """
    if TFRecordOptions.get_compression_type_string(options):
        raise ValueError("this reads what is not compressed: use tf.data.TFRecordDataset with a compression_type")
    return read_records(Path(path))
