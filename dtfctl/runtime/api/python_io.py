"""`tf.python_io`."""

from __future__ import annotations

from dtfctl.runtime.train.tf_record import TFRecordWriter, tf_record_iterator
