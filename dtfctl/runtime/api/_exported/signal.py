"""Names of `tf.signal` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.elementwise import (
    fft,
    fft2d,
    fft3d,
    ifft,
    ifft2d,
    ifft3d,
)
