"""`tf.strings`."""

from __future__ import annotations

from dtfctl.runtime.ops.string_ops import (
    as_string,
    decode_base64,
    encode_base64,
    reduce_join,
    regex_full_match,
    regex_replace,
    string_format,
    string_join,
    string_length,
    string_lower,
    string_split,
    string_split_v2,
    string_strip,
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
    string_to_number,
    string_upper,
    substr,
    unicode_script,
    unicode_transcode,
    unsorted_segment_join,
)
