"""Names that `tf.image` and `tf.io` have."""

from dtfctl.runtime.ops.image_ops.files import decode_image, encode_jpeg
from dtfctl.runtime.ops.op_defs.image import (
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_png,
    extract_jpeg_shape,
)
