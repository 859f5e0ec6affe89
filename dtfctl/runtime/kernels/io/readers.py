"""Readers: they take file names (work units) from a queue and give records, one or several a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.protocol import reader_pb2
from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import ResourceKernel, lookup, shape_text
from dtfctl.runtime.kernels.data_flow.queue import QueueBase
from dtfctl.runtime.kernels.io.records import fixed_length_records, read_tfrecords, text_lines
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

Record = tuple[bytes, bytes]
Open = Callable[[str], Iterator[Record]]


class Reader(Resource):
    """One source of records.

    Args:
        name: what errors call it.
        open_unit: gives the (key, value) records of one work unit.
        one_each: a work unit is one record and over with it; only such a reader's state can be saved, as in TensorFlow.
    """

    type_name = "Reader"

    def __init__(self, name: str, open_unit: Open, one_each: bool = False) -> None:
        self._name, self._open, self._one_each = name, open_unit, one_each
        self._lock = threading.RLock()
        self._records: Iterator[Record] | None = None
        self._unit = b""
        self.produced = 0
        self.completed = 0

    def read(self, queue: QueueBase, cancellation: CancellationToken) -> Record:
        """Read the next record, from the next work unit of the queue if need be."""
        with self._lock:
            while True:
                if self._records is None:
                    (unit,) = queue.dequeue(cancellation)
                    self._unit = unit.reshape(-1)[0]
                    self._records = self._open(self._unit.decode("utf-8", "surrogateescape"))
                try:
                    record = next(self._records, None)
                except Exception:
                    self._records = None
                    raise
                if record is not None:
                    self.produced += 1
                    if self._one_each:
                        self._records = None
                        self.completed += 1
                    return record
                self._records = None
                self.completed += 1

    def read_up_to(self, queue: QueueBase, count: int, cancellation: CancellationToken) -> list[Record]:
        """Read as many records as the current work unit has, at most `count`, at least one."""
        with self._lock:
            records = [self.read(queue, cancellation)]
            while len(records) < count and self._records is not None:
                record = next(self._records, None)
                if record is None:
                    self._records = None
                    self.completed += 1
                    break
                records.append(record)
                self.produced += 1
            return records

    def reset(self) -> None:
        with self._lock:
            self._records = None
            self._unit = b""
            self.produced = self.completed = 0

    def state(self) -> bytes:
        """Serialize how far the reader is.

        Raises:
            UnimplementedError: it may be in the middle of a work unit.
        """
        self._check_states("SerializeState")
        with self._lock:
            return reader_pb2.ReaderBaseState(
                work_started=self.completed,
                work_finished=self.completed,
                num_records_produced=self.produced,
                current_work=self._unit,
            ).SerializeToString(deterministic=True)

    def restore(self, text: bytes) -> None:
        """Go back to where `state` was taken.

        Raises:
            InvalidArgumentError: `text` is not what `state` gives.
        """
        self._check_states("RestoreState")
        try:
            state = reader_pb2.ReaderBaseState.FromString(text)
        except DecodeError as e:
            raise InvalidArgumentError(f"Could not parse state for {self._name}: {text!r}") from e
        if min(state.work_started, state.work_finished, state.num_records_produced) < 0:
            raise InvalidArgumentError(f"Unexpected negative value when restoring in {self._name}: {state}")
        if state.work_started > state.work_finished:
            raise InvalidArgumentError(
                f"Inconsistent work started vs. finished when restoring in {self._name}: {state}"
            )
        with self._lock:
            self._records, self._unit = None, state.current_work
            self.completed, self.produced = state.work_finished, state.num_records_produced

    def _check_states(self, what: str) -> None:
        if not self._one_each:
            raise UnimplementedError(
                f"Reader {what} is not supported by {self._name}, which may be in the middle of a file; use tf.data "
                "iterators"
            )


def _maker(k: KernelBuild, open_unit: Open, one_each: bool = False) -> Kernel:
    title = f"{k.node.op.removesuffix('V2')} '{k.node.name}'"
    return ResourceKernel(k, Reader, lambda name: Reader(title, open_unit, one_each))


@register_kernel(("IdentityReader", "IdentityReaderV2"), step=True)
def identity_reader(k: KernelBuild) -> Kernel:
    def units(text: str) -> Iterator[Record]:
        raw = text.encode("utf-8", "surrogateescape")
        yield raw, raw

    return _maker(k, units, one_each=True)


@register_kernel(("WholeFileReader", "WholeFileReaderV2"), step=True)
def whole_file_reader(k: KernelBuild) -> Kernel:
    def files(path: str) -> Iterator[Record]:
        try:
            yield path.encode(), Path(local_path(path)).read_bytes()
        except OSError as e:
            raise os_error(e, path) from e

    return _maker(k, files, one_each=True)


@register_kernel(("TextLineReader", "TextLineReaderV2"), step=True)
def text_line_reader(k: KernelBuild) -> Kernel:
    skip = k.attr("skip_header_lines")

    def lines(path: str) -> Iterator[Record]:
        for number, line in enumerate(text_lines(path), 1):
            if number > skip:
                yield f"{path}:{number}".encode(), line

    return _maker(k, lines)


@register_kernel(("FixedLengthRecordReader", "FixedLengthRecordReaderV2"), step=True)
def fixed_length_record_reader(k: KernelBuild) -> Kernel:
    header, record, footer, hop = (k.attr(f"{name}_bytes") for name in ("header", "record", "footer", "hop"))
    for name, value in (("header", header), ("footer", footer), ("hop", hop)):
        if value < 0:
            raise InvalidArgumentError(f"{name}_bytes must be >= 0 not {value}", k.node.name)
    if record <= 0:
        raise InvalidArgumentError(f"record_bytes must be > 0 not {record}", k.node.name)
    compression = k.text_attr("encoding")

    def records(path: str) -> Iterator[Record]:
        step = hop or record
        for i, value in enumerate(fixed_length_records(path, header, record, footer, compression, step)):
            yield f"{path}:{i}".encode(), value

    return _maker(k, records)


@register_kernel(("TFRecordReader", "TFRecordReaderV2"), step=True)
def tfrecord_reader(k: KernelBuild) -> Kernel:
    compression = k.text_attr("compression_type")

    def records(path: str) -> Iterator[Record]:
        at = 0
        for value in read_tfrecords(path, compression):
            yield f"{path}:{at}".encode(), value
            at += len(value) + 16

    return _maker(k, records)


@register_kernel(("ReaderRead", "ReaderReadV2"), step=True, blocking=True)
def reader_read(k: KernelBuild) -> Kernel:
    def run(step: StepContext, reader: Any, queue: Any) -> Any:
        key, value = lookup(step, reader, Reader).read(lookup(step, queue, QueueBase), step.cancellation)
        return object_scalar(key), object_scalar(value)

    return run


@register_kernel(("ReaderReadUpTo", "ReaderReadUpToV2"), step=True, blocking=True)
def reader_read_up_to(k: KernelBuild) -> Kernel:
    def run(step: StepContext, reader: Any, queue: Any, count: Any) -> Any:
        wanted = int(count)
        if wanted <= 0:
            raise OutOfRangeError(f"num_records must be positive, got {wanted}")
        found = lookup(step, reader, Reader).read_up_to(lookup(step, queue, QueueBase), wanted, step.cancellation)
        keys, values = zip(*found)
        return object_array(keys, (len(keys),)), object_array(values, (len(values),))

    return run


@register_kernel(("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2"), step=True)
def reader_num_records_produced(k: KernelBuild) -> Kernel:
    return lambda step, reader: np.int64(lookup(step, reader, Reader).produced)


@register_kernel(("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2"), step=True)
def reader_num_work_units_completed(k: KernelBuild) -> Kernel:
    return lambda step, reader: np.int64(lookup(step, reader, Reader).completed)


@register_kernel(("ReaderReset", "ReaderResetV2"), step=True)
def reader_reset(k: KernelBuild) -> Kernel:
    return lambda step, reader: lookup(step, reader, Reader).reset()


@register_kernel(("ReaderSerializeState", "ReaderSerializeStateV2"), step=True)
def reader_serialize_state(k: KernelBuild) -> Kernel:
    return lambda step, reader: object_scalar(lookup(step, reader, Reader).state())


@register_kernel(("ReaderRestoreState", "ReaderRestoreStateV2"), step=True)
def reader_restore_state(k: KernelBuild) -> Kernel:
    def run(step: StepContext, reader: Any, state: Any) -> None:
        if state.ndim:
            raise InvalidArgumentError(f"Reader state must be scalar, but had shape: {shape_text(state.shape)}")
        lookup(step, reader, Reader).restore(state.item())

    return run
