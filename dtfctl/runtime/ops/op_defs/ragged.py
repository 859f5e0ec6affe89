"""Entries of the ragged family."""

from __future__ import annotations

from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import INDEX

define = OpFamily("ragged")

define.op(
    "RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, "
    "indices: Tindices) -> (output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, "
    f"output_dense_values: Tvalues); Tvalues: type; Tindices: {INDEX}; Tsplits: {INDEX} = int64; "
    "PARAMS_RAGGED_RANK: int >= 1; OUTPUT_RAGGED_RANK: int >= 0",
    shape=lambda op: [[None]] * (len(op.outputs) - 1) + [None],
)
define.op(
    "RaggedRange(starts: T, limits: T, deltas: T) -> (rt_nested_splits: Tsplits, rt_dense_values: T); "
    f"T: type in {{bfloat16, float, double, int32, int64}} = int32; Tsplits: {INDEX} = int64",
    shape=[[None], [None]],
    gradient="none",
)
define.op(
    "RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK * Tsplits, "
    "rt_dense_values: T) -> (sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64); "
    f"RAGGED_RANK: int >= 1; T: type; Tsplits: {INDEX} = int64",
    shape=[[None, None], [None], [None]],
)
