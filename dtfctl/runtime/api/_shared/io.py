"""Names that `tf` and `tf.io` have."""

from dtfctl.runtime.ops.io_ops import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from dtfctl.runtime.ops.parsing_ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_csv,
    parse_example,
    parse_single_example,
)
from dtfctl.runtime.ops.sequence_parsing import parse_single_sequence_example
from dtfctl.runtime.ops.sparse_ops.serialization import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from dtfctl.runtime.platform import gfile
