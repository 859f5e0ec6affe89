"""`tf.python_io`: files of records, written and read in the client."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from dtfctl.runtime.kernels.io.records import tfrecord
from dtfctl.runtime.train.summary_io import read_records


class TFRecordWriter:
    """Writes records to a new file, in TensorFlow's framing with checksums.

    Args:
        options: None, "" or "GZIP".

    Raises:
        ValueError: another compression.
    """

    def __init__(self, path: str | os.PathLike[str], options: str | None = None) -> None:
        if options not in (None, "", "GZIP"):
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
    """The records of an uncompressed file.

    Raises:
        DataLossError: a checksum is wrong.
    """
    return read_records(Path(path))
