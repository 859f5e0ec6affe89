"""`tf.strings`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.strings import *
from dtfctl.runtime.ops.op_defs.io import string_to_number as to_number
from dtfctl.runtime.ops.op_defs.string import (
    as_string,
    decode_base64,
    encode_base64,
    string_length,
    string_length as length,
    string_lower,
    string_lower as lower,
    string_strip as strip,
    string_to_hash_bucket_fast as to_hash_bucket_fast,
    string_upper,
    string_upper as upper,
    unicode_script,
    unicode_transcode,
    unsorted_segment_join,
)
from dtfctl.runtime.ops.string_ops import (
    regex_full_match,
    string_format,
    string_format as format,
    string_join as join,
    string_split_v2,
    string_to_hash_bucket as to_hash_bucket,
    string_to_hash_bucket_strong as to_hash_bucket_strong,
)
