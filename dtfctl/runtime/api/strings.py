"""`tf.strings`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.strings import *
from dtfctl.runtime.api._shared.strings import *
from dtfctl.runtime.ops.ragged_ops.strings import (
    ngrams,
    string_bytes_split as bytes_split,
    strings_split as split,
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
)
from dtfctl.runtime.ops.string_ops import (
    regex_full_match,
    string_format,
    string_split_v2,
)

format = string_format
to_hash_bucket = string_to_hash_bucket
to_hash_bucket_strong = string_to_hash_bucket_strong
