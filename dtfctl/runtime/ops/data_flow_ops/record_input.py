"""Records of many files in a random order."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops import array_ops


class RecordInput:
    """Reads TFRecord files by several threads, without end, and yields their records shuffled.

    Args:
        file_pattern: which files.
        batch_size: records that a step yields, of each of `batches` where these are given.
        buffer_size: records among which one is drawn.
        shift_ratio: by which part of the files each epoch begins later than the one before.
        compression_type: None, or that of all files ("GZIP", "ZLIB").
    """

    def __init__(
        self,
        file_pattern: str,
        batch_size: int = 1,
        buffer_size: int = 1,
        parallelism: int = 1,
        shift_ratio: float = 0,
        seed: int = 0,
        name: str | None = None,
        batches: int | None = None,
        compression_type: Any = None,
    ) -> None:
        kinds: dict[Any, str] = {None: "", 0: "", 1: "ZLIB", 2: "GZIP"}
        self._batches = batches
        self._name = name
        self._size = batch_size * (1 if batches is None else batches)
        self._arguments: dict[str, Any] = {
            "file_pattern": file_pattern,
            "file_buffer_size": buffer_size,
            "file_parallelism": parallelism,
            "file_shuffle_shift_ratio": float(shift_ratio),
            "batch_size": self._size,
            "file_random_seed": seed,
            "compression_type": kinds.get(compression_type, compression_type),
        }

    def get_yield_op(self) -> Any:
        """Return the next records, [batch_size]; with `batches` a list of batches, each a list of single records."""
        records = apply_op("RecordInput", self._name, **self._arguments)
        if self._batches is None:
            return records
        with name_scope(self._name):
            single = [array_ops.reshape(record, []) for record in array_ops.split(records, self._size, 0)]
        return [single[i :: self._batches] for i in range(self._batches)]
