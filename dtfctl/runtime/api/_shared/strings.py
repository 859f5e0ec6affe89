"""Names that `tf` and `tf.strings` have."""

from dtfctl.runtime.ops.op_defs.io import string_to_number
from dtfctl.runtime.ops.op_defs.string import string_join, string_strip, string_to_hash_bucket_fast, substr
from dtfctl.runtime.ops.string_ops import (
    reduce_join,
    regex_replace,
    string_split,
    string_to_hash_bucket,
    string_to_hash_bucket_strong,
)
