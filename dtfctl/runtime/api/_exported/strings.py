"""Names of `tf.strings` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.io import (
    string_to_number,
    string_to_number as to_number,
)
from dtfctl.runtime.ops.op_defs.string import (
    as_string,
    decode_base64,
    encode_base64,
    string_join,
    string_join as join,
    string_length,
    string_length as length,
    string_lower,
    string_lower as lower,
    string_strip,
    string_strip as strip,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_fast as to_hash_bucket_fast,
    string_upper,
    string_upper as upper,
    substr,
    unicode_script,
    unicode_transcode,
    unsorted_segment_join,
)
