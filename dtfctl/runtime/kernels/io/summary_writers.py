"""Event files that steps write themselves: tf.summary of TensorFlow 2, a writer as a resource."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.protocol import graph_pb2, summary_pb2
from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import encode_tensor
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_key, handle_scalar, lookup, shape_text
from dtfctl.runtime.kernels.io.records import tfrecord
from dtfctl.runtime.kernels.io.summaries import clips_of, histogram_of, images_of
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_counter = itertools.count()


class SummaryWriter(Resource):
    """One event file; events wait in memory until there are enough of them or time has passed."""

    type_name = "SummaryWriterInterface"

    def __init__(self, folder: str, max_queue: int, flush_millis: int, suffix: str) -> None:
        self._lock = threading.Lock()
        self._max_queue, self._flush_seconds = max_queue, flush_millis / 1e3
        self._waiting: list[bytes] = []
        dot = "" if suffix.startswith(".") else "."
        unique = f"{os.getpid()}.{next(_counter)}{dot}{suffix}"
        self._path = (
            Path(local_path(folder)) / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{unique}"
        )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        except OSError as e:
            raise os_error(e, str(self._path)) from e
        self._flushed = time.monotonic()
        self.write(summary_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def write(self, event: summary_pb2.Event) -> None:
        with self._lock:
            self._waiting.append(tfrecord(event.SerializeToString()))
            if len(self._waiting) > self._max_queue or time.monotonic() - self._flushed > self._flush_seconds:
                self._flush()

    def flush(self) -> None:
        """Bring everything written to the file.

        Raises:
            OpError: the file cannot be written.
        """
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        try:
            self._file.write(b"".join(self._waiting))
            self._file.flush()
        except OSError as e:
            raise os_error(e, str(self._path)) from e
        self._waiting.clear()
        self._flushed = time.monotonic()

    def close(self) -> None:
        with self._lock, self._file:
            self._flush()


def _scalar(value: Any, what: str) -> Any:
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, got shape {shape_text(value.shape)}")
    item = value.item()
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item


@register_kernel("SummaryWriter")
def summary_writer(k: KernelBuild) -> Kernel:
    name = k.text_attr("shared_name") or k.node.name
    handle = handle_scalar(k.device.name, k.container, name, SummaryWriter.type_name)
    return lambda: handle


@register_kernel("CreateSummaryFileWriter", step=True)
def create_summary_file_writer(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, folder: Any, max_queue: Any, flush_millis: Any, suffix: Any) -> Any:
        texts = [_scalar(folder, "logdir"), _scalar(suffix, "filename_suffix")]
        most, millis = int(_scalar(max_queue, "max_queue")), int(_scalar(flush_millis, "flush_millis"))
        container, name = handle_key(writer, SummaryWriter.type_name)
        step.resources.lookup_or_create(
            container, name, SummaryWriter, lambda: SummaryWriter(texts[0], most, millis, texts[1])
        )

    return run


@register_kernel("FlushSummaryWriter", step=True)
def flush_summary_writer(k: KernelBuild) -> Kernel:
    return lambda step, writer: lookup(step, writer, SummaryWriter).flush()


@register_kernel("CloseSummaryWriter", step=True)
def close_summary_writer(k: KernelBuild) -> Kernel:
    return lambda step, writer: step.resources.delete(*handle_key(writer, SummaryWriter.type_name))


def _event(at: Any, summary: summary_pb2.Summary | None = None) -> summary_pb2.Event:
    return summary_pb2.Event(step=int(_scalar(at, "step")), wall_time=time.time(), summary=summary)


@register_kernel("WriteSummary", step=True)
def write_summary(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(step: StepContext, writer: Any, at: Any, tensor: Any, tag: Any, metadata: Any) -> Any:
        held = lookup(step, writer, SummaryWriter)
        summary = summary_pb2.Summary()
        value = summary.value.add(tag=_scalar(tag, "tag"), tensor=encode_tensor(tensor, dtype))
        text = metadata.reshape(-1)[0]
        if text:
            value.metadata.CopyFrom(_parsed(summary_pb2.SummaryMetadata, text, "Bad summary metadata"))
        held.write(_event(at, summary))

    return run


def _parsed(kind: Any, text: bytes, complaint: str) -> Any:
    try:
        return kind.FromString(text)
    except DecodeError as e:
        raise DataLossError(complaint) from e


@register_kernel("WriteRawProtoSummary", step=True)
def write_raw_proto_summary(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, at: Any, texts: Any) -> Any:
        held, event = lookup(step, writer, SummaryWriter), _event(at)
        event.summary.SetInParent()
        for i, text in enumerate(texts.reshape(-1).tolist()):
            complaint = f"Bad tf.compat.v1.Summary binary proto tensor string at index {i}"
            event.summary.MergeFrom(_parsed(summary_pb2.Summary, text, complaint))
        held.write(event)

    return run


@register_kernel("ImportEvent", step=True)
def import_event(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, text: Any) -> Any:
        held = lookup(step, writer, SummaryWriter)
        held.write(_parsed(summary_pb2.Event, text.item(), "Bad tf.Event binary proto tensor string"))

    return run


@register_kernel("WriteGraphSummary", step=True)
def write_graph_summary(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, at: Any, text: Any) -> Any:
        held, event = lookup(step, writer, SummaryWriter), _event(at)
        _parsed(graph_pb2.GraphDef, text.item(), "Bad tf.GraphDef binary proto tensor string")
        event.graph_def = text.item()
        held.write(event)

    return run


@register_kernel("WriteScalarSummary", step=True)
def write_scalar_summary(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, at: Any, tag: Any, value: Any) -> Any:
        held, summary = lookup(step, writer, SummaryWriter), summary_pb2.Summary()
        summary.value.add(tag=_scalar(tag, "tag"), simple_value=float(value.reshape(-1)[0]))
        held.write(_event(at, summary))

    return run


@register_kernel("WriteHistogramSummary", step=True)
def write_histogram_summary(k: KernelBuild) -> Kernel:
    def run(step: StepContext, writer: Any, at: Any, tag: Any, values: Any) -> Any:
        held, name = lookup(step, writer, SummaryWriter), _scalar(tag, "tag")
        held.write(_event(at, histogram_of(name, values, name)))

    return run


@register_kernel("WriteImageSummary", step=True)
def write_image_summary(k: KernelBuild) -> Kernel:
    most, is_bytes = k.attr("max_images"), k.dtype("T") is dtypes.uint8

    def run(step: StepContext, writer: Any, at: Any, tag: Any, images: Any, bad_color: Any) -> Any:
        held = lookup(step, writer, SummaryWriter)
        if bad_color.ndim != 1:
            raise InvalidArgumentError(f"bad_color must be a vector, got shape {shape_text(bad_color.shape)}")
        held.write(_event(at, images_of(_scalar(tag, "tag"), images, most, is_bytes, bad_color)))

    return run


@register_kernel("WriteAudioSummary", step=True)
def write_audio_summary(k: KernelBuild) -> Kernel:
    most = k.attr("max_outputs")

    def run(step: StepContext, writer: Any, at: Any, tag: Any, audio: Any, rate: Any) -> Any:
        held = lookup(step, writer, SummaryWriter)
        hertz = float(np.asarray(_scalar(rate, "sample_rate")))
        held.write(_event(at, clips_of(_scalar(tag, "tag"), audio, most, hertz)))

    return run
