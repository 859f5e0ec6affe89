"""Files, readers and checkpoints in the graph, with TF1's names."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor


class ReaderBase:
    """Turns work units (file names) from a queue into records."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        return self._supports_serialize

    @staticmethod
    def _queue(queue: Any) -> Tensor:
        return queue if isinstance(queue, Tensor) else queue.queue_ref

    def read(self, queue: Any, name: str | None = None) -> Any:
        """Read (key, value) of the next record."""
        return apply_op_outputs("ReaderReadV2", name, reader_handle=self._reader_ref, queue_handle=self._queue(queue))

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """Read (keys, values) of up to `num_records` records of one work unit."""
        return apply_op_outputs(
            "ReaderReadUpToV2",
            name,
            reader_handle=self._reader_ref,
            queue_handle=self._queue(queue),
            num_records=convert_to_tensor(num_records, dtypes.int64),
        )

    def num_records_produced(self, name: str | None = None) -> Tensor:
        return apply_op("ReaderNumRecordsProducedV2", name, reader_handle=self._reader_ref)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        return apply_op("ReaderNumWorkUnitsCompletedV2", name, reader_handle=self._reader_ref)

    def reset(self, name: str | None = None) -> Operation:
        return make_op("ReaderResetV2", name, reader_handle=self._reader_ref)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Save the place of the reader, for `restore_state`; only WholeFileReader and IdentityReader have one."""
        return apply_op("ReaderSerializeStateV2", name, reader_handle=self._reader_ref)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        return make_op("ReaderRestoreStateV2", name, reader_handle=self._reader_ref, state=state)


class WholeFileReader(ReaderBase):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("WholeFileReaderV2", name), True)


class TextLineReader(ReaderBase):
    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(apply_op("TextLineReaderV2", name, skip_header_lines=skip_header_lines or 0))


class FixedLengthRecordReader(ReaderBase):
    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        super().__init__(
            apply_op(
                "FixedLengthRecordReaderV2",
                name,
                record_bytes=record_bytes,
                header_bytes=header_bytes or 0,
                footer_bytes=footer_bytes or 0,
                hop_bytes=hop_bytes or 0,
                encoding=encoding or "",
            )
        )


class TFRecordReader(ReaderBase):
    """`options` is a compression name: None, "", "ZLIB" or "GZIP"."""

    def __init__(self, name: str | None = None, options: str | None = None) -> None:
        super().__init__(apply_op("TFRecordReaderV2", name, compression_type=options or ""))


class IdentityReader(ReaderBase):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("IdentityReaderV2", name), True)
