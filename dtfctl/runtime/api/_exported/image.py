"""Names of `tf.image` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.image import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_png,
    extract_glimpse,
    extract_jpeg_shape,
    hsv_to_rgb,
    rgb_to_hsv,
)
