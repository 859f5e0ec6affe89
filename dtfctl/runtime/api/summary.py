"""`tf.summary`."""

from __future__ import annotations

from dtfctl.runtime.train.summary_io import (
    FileWriter,
    FileWriterCache,
    summary_iterator,
)
