"""`tf.io`."""

from __future__ import annotations

from dtfctl.runtime.ops.io_ops import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
    matching_files,
    merge_v2_checkpoints,
    read_file,
    restore_v2,
    save_v2,
    sharded_filename,
    write_file,
)
from dtfctl.runtime.platform import gfile
