"""`tf.strings`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.base64 import *
from dtfctl.runtime.api._shared.strings import *
from dtfctl.runtime.api._shared.text import *
from dtfctl.runtime.ops.op_defs.string import (
    string_length,
    string_lower,
    string_upper,
    unicode_script,
    unicode_transcode,
    unsorted_segment_join,
)
from dtfctl.runtime.ops.string_ops import (
    regex_full_match,
    string_format,
    string_split_v2,
)

format = string_format
join = string_join
length = string_length
lower = string_lower
strip = string_strip
to_hash_bucket = string_to_hash_bucket
to_hash_bucket_fast = string_to_hash_bucket_fast
to_hash_bucket_strong = string_to_hash_bucket_strong
to_number = string_to_number
upper = string_upper
