"""Names that `tf` and `tf.strings` have."""

from dtfctl.runtime.ops.ragged_ops.strings import string_split
from dtfctl.runtime.ops.string_ops import (
    reduce_join,
    regex_replace,
    string_to_hash_bucket,
    string_to_hash_bucket_strong,
)
