"""Entries of the sparse family."""

from __future__ import annotations

from dtfctl.runtime.framework.constant_value import constant_value_as_shape
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import INDEX, NUMBERS

define = OpFamily("sparse")

define.op(
    "AddManySparseToTensorsMap(sparse_indices: int64, sparse_values: T, "
    'sparse_shape: int64) -> (sparse_handles: int64); T: type; container: string = ""; '
    'shared_name: string = ""; !stateful',
    shape=[[None]],
)
define.op(
    "AddSparseToTensorsMap(sparse_indices: int64, sparse_values: T, "
    'sparse_shape: int64) -> (sparse_handle: int64); T: type; container: string = ""; '
    'shared_name: string = ""; !stateful',
    shape=[[]],
)
define.op(
    "DenseToDenseSetOperation(set1: T, set2: T) -> (result_indices: int64, result_values: T, "
    "result_shape: int64); set_operation: string; validate_indices: bool = true; T: type in {int8, int16, "
    "int32, int64, uint8, uint16, string}",
    gradient="none",
)
define.op(
    "DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, "
    "set2_shape: int64) -> (result_indices: int64, result_values: T, result_shape: int64); "
    "set_operation: string; validate_indices: bool = true; T: type in {int8, int16, int32, int64, uint8, "
    "uint16, string}",
    gradient="none",
)
define.op(
    "DeserializeManySparse(serialized_sparse: string) -> (sparse_indices: int64, sparse_values: dtype, "
    "sparse_shape: int64); dtype: type",
    shape=[[None, None], [None], [None]],
    gradient="none",
)
define.op(
    "DeserializeSparse(serialized_sparse: Tserialized) -> (sparse_indices: int64, sparse_values: dtype, "
    "sparse_shape: int64); dtype: type; Tserialized: type in {string, variant} = string",
    shape=[[None, None], [None], [None]],
    gradient="none",
)
define.op(
    "SerializeManySparse(sparse_indices: int64, sparse_values: T, "
    "sparse_shape: int64) -> (serialized_sparse: out_type); T: type; out_type: type in {string, "
    "variant} = string",
    shape=[[None, 3]],
    gradient="none",
)
define.op(
    "SerializeSparse(sparse_indices: int64, sparse_values: T, "
    "sparse_shape: int64) -> (serialized_sparse: out_type); T: type; out_type: type in {string, "
    "variant} = string",
    shape=[[3]],
    gradient="none",
)
define.op(
    "SetSize(set_indices: int64, set_values: T, set_shape: int64) -> (size: int32); "
    "validate_indices: bool = true; T: type in {int8, int16, int32, int64, uint8, uint16, string}",
    gradient="none",
)
define.op(
    "SparseAddGrad(backprop_val_grad: T, a_indices: int64, b_indices: int64, "
    f"sum_indices: int64) -> (a_val_grad: T, b_val_grad: T); T: {NUMBERS}",
    gradient="none",
)
define.op(
    "SparseConcat(indices: N * int64, values: N * T, shapes: N * int64) -> (output_indices: int64, "
    "output_values: T, output_shape: int64); concat_dim: int; N: int >= 2; T: type",
    gradient="none",
)
define.op(
    "SparseCross(indices: N * int64, values: list(sparse_types), shapes: N * int64, "
    "dense_inputs: list(dense_types)) -> (output_indices: int64, output_values: out_type, "
    "output_shape: int64); N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; "
    "sparse_types: list(type) in {int64, string} >= 0; dense_types: list(type) in {int64, string} >= 0; "
    "out_type: type in {int64, string}; internal_type: type in {int64, string}",
    shape=[[None, 2], [None], [2]],
)
define.op(
    "SparseCrossHashed(indices: N * int64, values: list(sparse_types), shapes: N * int64, "
    "dense_inputs: list(dense_types), num_buckets: int64, strong_hash: bool, "
    "salt: int64) -> (output_indices: int64, output_values: int64, output_shape: int64); N: int >= 0; "
    "sparse_types: list(type) in {int64, string} >= 0; dense_types: list(type) in {int64, string} >= 0",
    shape=[[None, 2], [None], [2]],
)
define.op(
    "SparseCrossV2(indices: N * int64, values: list(sparse_types), shapes: N * int64, "
    "dense_inputs: list(dense_types), sep: string) -> (output_indices: int64, output_values: string, "
    "output_shape: int64); N: int >= 0; sparse_types: list(type) in {int64, string} >= 0; "
    "dense_types: list(type) in {int64, string} >= 0",
    shape=[[None, 2], [None], [2]],
)
define.op(
    "SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> (d_values: T, d_default_value: T); T: type",
    shape=lambda op: [op.inputs[0].shape, []],
)
define.op(
    "SparseReorder(input_indices: int64, input_values: T, input_shape: int64) -> (output_indices: int64, "
    "output_values: T); T: type",
    shape=lambda op: [op.inputs[0].shape, op.inputs[1].shape],
)
define.op(
    "SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> (output: T); "
    f"T: {NUMBERS}; Tindices: {INDEX}",
    shape=lambda op: [op.inputs[3].shape],
    gradient=lambda op, grad: [None, apply_op("GatherNd", params=grad, indices=op.inputs[0]), None, grad],
)
define.op(
    "SparseToDense(sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, "
    f"default_value: T) -> (dense: T); validate_indices: bool = true; T: type; Tindices: {INDEX}",
    shape=lambda op: [constant_value_as_shape(op.inputs[1])],
)
define.op(
    "SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape: int64, set2_indices: int64, "
    "set2_values: T, set2_shape: int64) -> (result_indices: int64, result_values: T, result_shape: int64); "
    "set_operation: string; validate_indices: bool = true; T: type in {int8, int16, int32, int64, uint8, "
    "uint16, string}",
    gradient="none",
)
define.op(
    "TakeManySparseFromTensorsMap(sparse_handles: int64) -> (sparse_indices: int64, sparse_values: dtype, "
    'sparse_shape: int64); dtype: type; container: string = ""; shared_name: string = ""; !stateful',
    shape=[[None, None], [None], [None]],
)
