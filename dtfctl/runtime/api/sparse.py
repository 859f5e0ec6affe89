"""`tf.sparse`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.math import (
    sparse_segment_mean as segment_mean,
    sparse_segment_sqrt_n as segment_sqrt_n,
    sparse_segment_sum as segment_sum,
)
from dtfctl.runtime.api._shared.sparse import *
from dtfctl.runtime.ops.array_ops import sparse_placeholder as placeholder
from dtfctl.runtime.ops.sparse_ops.arithmetic import (
    sparse_add as add,
    sparse_maximum as maximum,
    sparse_minimum as minimum,
    sparse_reduce_max as reduce_max,
    sparse_reduce_max_sparse as reduce_max_sparse,
    sparse_reduce_sum as reduce_sum,
    sparse_reduce_sum_sparse as reduce_sum_sparse,
    sparse_softmax as softmax,
    sparse_tensor_dense_matmul as matmul,
)
from dtfctl.runtime.ops.sparse_ops.arranging import (
    sparse_concat as concat,
    sparse_expand_dims as expand_dims,
    sparse_fill_empty_rows as fill_empty_rows,
    sparse_reorder as reorder,
    sparse_reset_shape as reset_shape,
    sparse_reshape as reshape,
    sparse_retain as retain,
    sparse_slice as slice,
    sparse_split as split,
    sparse_transpose as transpose,
)
from dtfctl.runtime.ops.sparse_ops.conversion import (
    from_dense,
    sparse_eye as eye,
    sparse_mask as mask,
    sparse_merge as merge,
    sparse_tensor_to_dense as to_dense,
    sparse_to_indicator as to_indicator,
)
from dtfctl.runtime.ops.sparse_ops.crossing import sparse_cross as cross, sparse_cross_hashed as cross_hashed

sparse_dense_matmul = matmul
