"""`tf.python_io`."""

from __future__ import annotations

from dtfctl.runtime.train.tf_record import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
