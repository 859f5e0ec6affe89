"""`FileWriter`: summaries, graphs and run metadata into event files, and reading them back."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c

from dtfctl.protocol import summary_pb2
from dtfctl.runtime.checkpoint.sstable import unmask_crc
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import DataLossError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.train.event_file import EventFileWriter
from dtfctl.runtime.train.meta_graph import export_meta_graph


class FileWriter:
    """Writes to an event file in `logdir`; thread-safe.

    Args:
        graph: written at once; session: its graph is.
        max_queue, flush_secs: see EventFileWriter.
    """

    def __init__(
        self,
        logdir: str,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        self.event_writer = EventFileWriter(str(logdir), max_queue, flush_secs, filename_suffix or "")
        self._seen_tags: set[str] = set()
        if graph is None and session is not None:
            graph = session.graph
        if graph is not None or graph_def is not None:
            self.add_graph(graph if graph is not None else graph_def)
            given = graph if isinstance(graph, Graph) else None
            self.add_meta_graph(
                export_meta_graph(graph=given, graph_def=graph_def if given or graph is None else graph)
            )

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def get_logdir(self) -> str:
        return self.event_writer.get_logdir()

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Add a Summary proto, or a serialized one as a summary op gives it."""
        if isinstance(summary, (bytes, bytearray)) or hasattr(summary, "tobytes"):
            data = summary.item() if hasattr(summary, "item") else summary
            summary = summary_pb2.Summary.FromString(bytes(data))
        for value in summary.value:
            # Metadata is kept for the first value of a tag only, to save space.
            if value.tag in self._seen_tags:
                value.ClearField("metadata")
            else:
                self._seen_tags.add(value.tag)
        self._add(summary_pb2.Event(summary=summary), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        if isinstance(graph, Graph):
            graph_def = graph.as_graph_def(add_shapes=True)
        elif graph is not None:
            graph_def = graph
        if graph_def is None:
            raise ValueError("The argument `graph` must be of type Graph or GraphDef")
        self._add(summary_pb2.Event(graph_def=graph_def.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        self._add(summary_pb2.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        tagged = summary_pb2.TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(summary_pb2.Event(tagged_run_metadata=tagged), global_step)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        self._add(summary_pb2.Event(session_log=session_log), global_step)

    def add_event(self, event: summary_pb2.Event) -> None:
        self.event_writer.add_event(event)

    def _add(self, event: summary_pb2.Event, step: Any) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def flush(self) -> None:
        self.event_writer.flush()

    def close(self) -> None:
        self.event_writer.close()

    def reopen(self) -> None:
        self.event_writer.reopen()


class FileWriterCache:
    """One writer a folder."""

    _lock = threading.Lock()
    _writers: dict[str, FileWriter] = {}

    @classmethod
    def get(cls, logdir: str) -> FileWriter:
        with cls._lock:
            if logdir not in cls._writers:
                cls._writers[logdir] = FileWriter(logdir, graph=context.get_default_graph())
            return cls._writers[logdir]

    @classmethod
    def clear(cls) -> None:
        """Close all writers and forget them."""
        with cls._lock:
            for writer in cls._writers.values():
                writer.close()
            cls._writers.clear()


def read_records(path: str | Path) -> Iterator[bytes]:
    """Yield the records of a file; a torn last one ends it.

    Raises:
        DataLossError: a checksum is wrong.
    """
    with Path(path).open("rb") as f:
        while True:
            header = f.read(12)
            if len(header) < 12:
                return
            (length,) = struct.unpack("<Q", header[:8])
            if unmask_crc(struct.unpack("<I", header[8:])[0]) != google_crc32c.value(header[:8]):
                raise DataLossError(f"corrupted record in {path}: the length's checksum is wrong")
            data = f.read(length + 4)
            if len(data) < length + 4:
                return
            if unmask_crc(struct.unpack("<I", data[length:])[0]) != google_crc32c.value(data[:length]):
                raise DataLossError(f"corrupted record in {path}: the data's checksum is wrong")
            yield data[:length]


def summary_iterator(path: str | Path) -> Iterator[summary_pb2.Event]:
    """Iterate over the events of an event file."""
    return map(summary_pb2.Event.FromString, read_records(path))
