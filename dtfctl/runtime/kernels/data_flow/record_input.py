"""RecordInput: records of TFRecord files in random order, epoch after epoch."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


class RecordYielder:
    """Hands out every record once an epoch, each drawn at random from a buffer.

    Args:
        pattern: patterns of file names, separated by commas.
        shift: the share of the shuffled list of files that goes to its end.
    """

    def __init__(self, pattern: str, seed: int, buffer_size: int, shift: float, compression: str) -> None:
        self._patterns = pattern.split(",")
        self._random = random.Random(seed)
        self._buffer_size = max(buffer_size, 1)
        self._shift = shift
        self._compression = compression
        self._lock = threading.Lock()
        self._buffer: list[bytes] = []
        self._records: Iterator[bytes] = iter(())

    def take(self, count: int) -> list[bytes]:
        """Take the next `count` records.

        Raises:
            NotFoundError: there are no files, or no records in them.
        """
        with self._lock:
            return [self._one() for _ in range(count)]

    def _one(self) -> bytes:
        self._fill()
        if not self._buffer:
            self._records = self._epoch()
            self._fill()
            if not self._buffer:
                raise NotFoundError(f"Found no records at {','.join(self._patterns)}")
        at = self._random.randrange(len(self._buffer))
        self._buffer[at], self._buffer[-1] = self._buffer[-1], self._buffer[at]
        return self._buffer.pop()

    def _fill(self) -> None:
        while len(self._buffer) < self._buffer_size:
            record = next(self._records, None)
            if record is None:
                return
            self._buffer.append(record)

    def _epoch(self) -> Iterator[bytes]:
        from dtfctl.runtime.kernels.io.records import matching_files, read_tfrecords

        files = [name.decode() for name in matching_files(self._patterns)]
        if not files:
            raise NotFoundError(f"Found no files at {','.join(self._patterns)}")
        self._random.shuffle(files)
        start = int(self._shift * len(files)) if 0 <= self._shift < 1 else 0
        for name in files[start:] + files[:start]:
            yield from read_tfrecords(name, self._compression)


@register_kernel("RecordInput", blocking=True)
def record_input(k: KernelBuild) -> Kernel:
    batch_size, parallelism = int(k.attr("batch_size")), int(k.attr("file_parallelism"))
    if parallelism < 0:
        raise InvalidArgumentError(f"file_parallelism should >= 0, got {parallelism}", k.node.name)
    if batch_size < 0:
        raise InvalidArgumentError(f"batch_size must be non-negative but got {batch_size}", k.node.name)
    yielder = RecordYielder(
        k.text_attr("file_pattern"),
        int(k.attr("file_random_seed")),
        int(k.attr("file_buffer_size")),
        float(k.attr("file_shuffle_shift_ratio")),
        k.text_attr("compression_type"),
    )

    def kernel() -> Any:
        return object_array(yielder.take(batch_size), (batch_size,))

    return kernel
