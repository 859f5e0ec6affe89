"""Names that `tf.io` and `tf.python_io` have."""

from dtfctl.runtime.train.tf_record import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
