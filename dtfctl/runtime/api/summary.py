"""`tf.summary`."""

from __future__ import annotations

from dtfctl.protocol.summary_pb2 import SummaryDescription, TaggedRunMetadata
from dtfctl.runtime.api._shared.summaries import *
from dtfctl.runtime.ops.summary import (
    audio,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from dtfctl.runtime.train.summary_io import (
    FileWriter,
    FileWriterCache,
    summary_iterator,
)
