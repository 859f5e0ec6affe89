"""Names of `tf.io` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.image import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_png,
    extract_jpeg_shape,
)
from dtfctl.runtime.ops.op_defs.io import (
    decode_json_example,
    decode_raw,
    matching_files,
    merge_v2_checkpoints,
    parse_tensor,
    read_file,
    restore_v2,
    save_v2,
    serialize_tensor,
    sharded_filename,
    write_file,
)
from dtfctl.runtime.ops.op_defs.string import (
    decode_base64,
    encode_base64,
)
