"""`tf`'s array functions, with TF1's names and argument orders: a module a concept."""

from __future__ import annotations

from dtfctl.runtime.ops.array_ops.creation import (
    eye,
    fill,
    meshgrid,
    one_hot,
    ones,
    ones_like,
    sequence_mask,
    zeros,
    zeros_like,
)
from dtfctl.runtime.ops.array_ops.diagonals import matrix_band_part, matrix_diag, matrix_diag_part
from dtfctl.runtime.ops.array_ops.gathering import (
    batch_gather,
    boolean_mask,
    gather,
    gather_nd,
    scatter_nd,
    tensor_scatter_add,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
    tensor_scatter_sub,
    tensor_scatter_update,
    where,
    where_v2,
)
from dtfctl.runtime.ops.array_ops.joining import concat, parallel_stack, split, stack, unstack
from dtfctl.runtime.ops.array_ops.passing import (
    ensure_shape,
    identity,
    placeholder,
    placeholder_with_default,
    sparse_placeholder,
)
from dtfctl.runtime.ops.array_ops.quantization import dequantize, quantize, quantize_and_dequantize, quantize_v2
from dtfctl.runtime.ops.array_ops.rearranging import (
    batch_to_space,
    extract_image_patches,
    extract_patches,
    matrix_transpose,
    pad,
    repeat,
    required_space_to_batch_paddings,
    reverse,
    reverse_sequence,
    reverse_v2,
    space_to_batch,
    tile,
    transpose,
)
from dtfctl.runtime.ops.array_ops.search import (
    edit_distance,
    listdiff,
    searchsorted,
    setdiff1d,
    unique,
    unique_with_counts,
)
from dtfctl.runtime.ops.array_ops.shapes import (
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
    expand_dims,
    rank,
    reshape,
    shape,
    size,
    squeeze,
)
from dtfctl.runtime.ops.array_ops.slicing import newaxis, slice, strided_slice
from dtfctl.runtime.ops.op_defs.array import (
    batch_to_space_nd,
    check_numerics,
    depth_to_space,
    diag,
    diag_part,
    invert_permutation,
    matrix_set_diag,
    roll,
    space_to_batch_nd,
    space_to_depth,
    stop_gradient,
)
