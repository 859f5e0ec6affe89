"""Names that `tf.image` and `tf.io` have."""

from dtfctl.runtime.ops.image_ops.files import decode_image, encode_jpeg, is_jpeg
