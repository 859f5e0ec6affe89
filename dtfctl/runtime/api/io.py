"""`tf.io`."""

from __future__ import annotations

from dtfctl.runtime.ops.data_flow_ops.queues import PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from dtfctl.runtime.ops.image_ops.files import decode_image, encode_jpeg
from dtfctl.runtime.ops.io_ops import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
    merge_v2_checkpoints,
    restore_v2,
    save_v2,
    sharded_filename,
    write_file,
)
from dtfctl.runtime.ops.op_defs.image import (
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_png,
    extract_jpeg_shape,
)
from dtfctl.runtime.ops.op_defs.io import decode_json_example, decode_raw, matching_files, read_file
from dtfctl.runtime.ops.op_defs.string import decode_base64, encode_base64
from dtfctl.runtime.ops.parsing_ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    decode_csv,
    parse_example,
    parse_single_example,
    parse_tensor,
    serialize_tensor,
)
from dtfctl.runtime.ops.sequence_parsing import parse_single_sequence_example
from dtfctl.runtime.ops.sparse_ops.serialization import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from dtfctl.runtime.platform import gfile
from dtfctl.runtime.train.graph_io import write_graph
from dtfctl.runtime.train.input import match_filenames_once
from dtfctl.runtime.train.tf_record import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
