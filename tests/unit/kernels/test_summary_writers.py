"""Summaries that a step writes to an event file through a writer resource."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import graph_pb2, summary_pb2
from dtfctl.runtime.kernels.io.records import read_tfrecords

raw = tf.raw_ops


def events(folder: Path) -> list[summary_pb2.Event]:
    return [summary_pb2.Event.FromString(r) for path in sorted(folder.iterdir()) for r in read_tfrecords(str(path))]


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def opened(folder: Path, max_queue: int = 100) -> tuple[Any, Any]:
    writer = raw.SummaryWriter(shared_name="w", container="")
    return writer, raw.CreateSummaryFileWriter(
        writer=writer, logdir=str(folder), max_queue=max_queue, flush_millis=10**6, filename_suffix="x.v2"
    )


def test_every_kind_of_summary(session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    writer, create = opened(folder)
    step = tf.placeholder(tf.int64, ())
    given = summary_pb2.Summary()
    given.value.add(tag="raw", simple_value=7)
    graph = graph_pb2.GraphDef()
    graph.node.add(name="n", op="NoOp")
    metadata = summary_pb2.SummaryMetadata(display_name="shown").SerializeToString()
    writes = [
        raw.WriteSummary(writer=writer, step=step, tensor=["a", "b"], tag="tensor", summary_metadata=metadata),
        raw.WriteRawProtoSummary(writer=writer, step=step, tensor=[given.SerializeToString()] * 2),
        raw.ImportEvent(writer=writer, event=summary_pb2.Event(step=99, file_version="f").SerializeToString()),
        raw.WriteScalarSummary(writer=writer, step=step, tag="scalar", value=np.float64(2.5)),
        raw.WriteHistogramSummary(writer=writer, step=step, tag="histogram", values=np.float32([1, 2, 3])),
        raw.WriteImageSummary(
            writer=writer, step=step, tag="i", tensor=np.zeros((2, 2, 2, 3), np.uint8), bad_color=np.uint8([1, 2, 3])
        ),
        raw.WriteAudioSummary(writer=writer, step=step, tag="a", tensor=np.zeros((1, 4), np.float32), sample_rate=8.0),
        raw.WriteGraphSummary(writer=writer, step=step, tensor=graph.SerializeToString()),
    ]
    session.run(create)
    for i, write in enumerate(writes):
        session.run(write, {step: i})
    assert len(events(folder)) == 1  # the queue holds the rest
    session.run(raw.FlushSummaryWriter(writer=writer))
    version, tensor, protos, imported, scalar, histogram, images, audio, drawn = events(folder)
    assert version.file_version == "brain.Event:2"
    assert tensor.summary.value[0].tensor.string_val == [b"a", b"b"]
    assert tensor.summary.value[0].metadata.display_name == "shown"
    assert [v.simple_value for v in protos.summary.value] == [7, 7]
    assert (imported.step, imported.file_version) == (99, "f")
    assert (scalar.step, scalar.summary.value[0].simple_value) == (3, 2.5)
    assert histogram.summary.value[0].histo.sum == 6
    assert [v.tag for v in images.summary.value] == ["i/image/0", "i/image/1"]
    assert audio.summary.value[0].audio.length_frames == 4
    assert drawn.graph_def == graph.SerializeToString()


def test_each_opening_has_a_file_and_a_full_queue_is_written(session: Any, tmp_path: Path) -> None:
    writer, create = opened(tmp_path, max_queue=1)
    write = raw.WriteScalarSummary(writer=writer, step=np.int64(1), tag="t", value=1.0)
    close = raw.CloseSummaryWriter(writer=writer)
    for _ in range(3):
        session.run(create)
        session.run(create)  # finds the one that is open
        session.run(write)
        session.run(write)
        session.run(close)
    assert len(list(tmp_path.iterdir())) == 3
    assert [e.step for e in events(tmp_path)] == [0, 1, 1] * 3
    assert all(path.name.endswith(".x.v2") for path in tmp_path.iterdir())


def test_what_cannot_be_written_is_an_error(session: Any, tmp_path: Path) -> None:
    writer, create = opened(tmp_path / "file" / "folder")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(create)
    with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
        session.run(raw.FlushSummaryWriter(writer=writer))
    (tmp_path / "file").unlink()
    session.run(create)
    with pytest.raises(tf.errors.DataLossError, match="at index 1"):
        session.run(raw.WriteRawProtoSummary(writer=writer, step=np.int64(1), tensor=[b"", b"\xff"]))
