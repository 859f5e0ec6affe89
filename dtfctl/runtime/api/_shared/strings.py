"""Names that `tf` and `tf.strings` have."""

from dtfctl.runtime.ops.string_ops import (
    reduce_join,
    regex_replace,
    string_split,
    string_to_hash_bucket,
    string_to_hash_bucket_strong,
)
