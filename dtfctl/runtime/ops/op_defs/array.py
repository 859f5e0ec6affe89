"""Entries of the array family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.gradients.common import reduce_to
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import FLOATS, INDEX, REALS

define = OpFamily("array")

define.op("BatchMatrixBandPart(input: T, num_lower: int64, num_upper: int64) -> (band: T); T: type", shape="unchanged")
define.op("BatchMatrixSetDiag(input: T, diagonal: T) -> (output: T); T: type")
define.op(
    f"BatchToSpace(input: T, crops: Tidx) -> (output: T); T: type; block_size: int >= 2; Tidx: {INDEX} = int32; "
    "!precision(clear)",
    gradient=lambda op, grad: [
        apply_op("SpaceToBatch", input=grad, paddings=op.inputs[1], block_size=op.attr("block_size")),
        None,
    ],
)


@define.op(
    "BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> (output: T); T: type; "
    f"Tblock_shape: {INDEX} = int32; Tcrops: {INDEX} = int32; !precision(clear)",
    gradient=lambda op, grad: [
        apply_op("SpaceToBatchND", input=grad, block_shape=op.inputs[1], paddings=op.inputs[2]),
        None,
        None,
    ],
    exports=("batch_to_space_nd", "manip.batch_to_space_nd"),
)
def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Move blocks of the batch to spatial dimensions, then crop them."""


@define.op(
    "Bitcast(input: T) -> (output: type); T: type in {bfloat16, half, float, double, int64, int32, uint8, "
    "uint16, uint32, uint64, int8, int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}; "
    "type: type in {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, "
    "complex64, complex128, qint8, quint8, qint16, quint16, qint32}",
    gradient="none",
    exports=("bitcast",),
)
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Read the same bytes as elements of another type."""


define.op(f"BroadcastArgs(s0: T, s1: T) -> (r0: T); T: {INDEX} = int32", gradient="none")
define.op(
    f"BroadcastGradientArgs(s0: T, s1: T) -> (r0: T, r1: T); T: {INDEX} = int32",
    shape=[[None], [None]],
    gradient="none",
)
define.op(
    f"BroadcastTo(input: T, shape: Tidx) -> (output: T); T: type; Tidx: {INDEX} = int32; !precision(clear)",
    gradient=lambda op, grad: [reduce_to(op.inputs[0], op.outputs[0], grad, None)[0], None],
)


@define.op(
    f"CheckNumerics(tensor: T) -> (output: T); T: {FLOATS}; message: string; !stateful; !precision(clear)",
    shape="unchanged",
    exports=("check_numerics", "debugging.check_numerics"),
)
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Pass on the same values; a step with NaN or infinity in them fails with `message`."""


define.op(f"CheckNumericsV2(tensor: T) -> (output: T); T: {FLOATS}; message: string; !stateful", shape="unchanged")
define.op(
    "ConcatOffset(concat_dim: int32, shape: N * shape_type) -> (offset: N * shape_type); N: int >= 2; "
    f"shape_type: {INDEX} = int32",
    shape=lambda op: [t.shape for t in op.inputs[1:]],
    gradient="none",
)
define.op(
    "Const() -> (output: dtype); value: tensor; dtype: type",
    shape=lambda op: [TensorShape(op.attrs["value"].tensor.tensor_shape)],
    gradient="none",
)
define.op(
    "DebugGradientIdentity(input: T) -> (output: T); T: type; !uninitialized_input",
    shape="unchanged",
    gradient=lambda op, grad: grad,
)
define.op(
    "DebugGradientRefIdentity(input: ref(T)) -> (output: ref(T)); T: type; !uninitialized_input",
    shape="unchanged",
    gradient=lambda op, grad: grad,
)
define.op("DeepCopy(x: T) -> (y: T); T: type; !stateful", shape="unchanged", gradient=lambda op, grad: grad)


@define.op(
    'DepthToSpace(input: T) -> (output: T); T: type; block_size: int >= 2; data_format: string in {"NHWC", '
    '"NCHW", "NCHW_VECT_C"} = "NHWC"; !precision(clear)',
    gradient=lambda op, grad: apply_op(
        "SpaceToDepth", input=grad, block_size=op.attr("block_size"), data_format=op.attr("data_format")
    ),
    exports=("depth_to_space", "nn.depth_to_space"),
)
def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Move channels to blocks of pixels."""


@define.op(
    "Diag(diagonal: T) -> (output: T); T: type in {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    shape=lambda op: [op.inputs[0].shape.concatenate(op.inputs[0].shape)],
    gradient=lambda op, grad: apply_op("DiagPart", input=grad),
    exports=("diag", "linalg.tensor_diag"),
)
def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Put a tensor on the diagonal of one of twice its rank, zeros elsewhere."""


@define.op(
    "DiagPart(input: T) -> (diagonal: T); T: type in {bfloat16, half, float, double, int32, int64, complex64, "
    "complex128}",
    gradient=lambda op, grad: apply_op("Diag", diagonal=grad),
    exports=("diag_part", "linalg.tensor_diag_part"),
)
def diag_part(input: Any, name: str | None = None) -> Tensor:
    """Take the diagonal of a tensor of even rank."""


define.op(
    "EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
    "truth_indices: int64, truth_values: T, truth_shape: int64) -> (output: float); normalize: bool = true; "
    "T: type",
    gradient="none",
)
define.op("Empty(shape: int32) -> (output: dtype); dtype: type; init: bool = false; !stateful", gradient="none")
define.op(
    "EnsureShape(input: T) -> (output: T); shape: shape; T: type; !precision(clear)",
    shape=lambda op: [op.inputs[0].shape.merge_with(op.attr("shape"))],
    gradient=lambda op, grad: grad,
)


@define.op(
    "ExtractVolumePatches(input: T) -> (patches: T); ksizes: list(int) >= 5; strides: list(int) >= 5; "
    f'T: {REALS}; padding: string in {{"SAME", "VALID"}}',
    exports=("extract_volume_patches",),
)
def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """Take patches of volumes, each flattened into channels."""


@define.op(
    "Fingerprint(data: T, method: string) -> (fingerprint: uint8); T: type", gradient="none", exports=("fingerprint",)
)
def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """Compute a fingerprint of each row's bytes."""


@define.op(
    "GuaranteeConst(input: T) -> (output: T); T: type; !stateful",
    shape="unchanged",
    gradient=lambda op, grad: grad,
    exports=("guarantee_const",),
)
def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """Pass on the same values, promised not to change between steps."""


define.op(
    "HostConst() -> (output: dtype); value: tensor; dtype: type",
    shape=lambda op: [TensorShape(op.attrs["value"].tensor.tensor_shape)],
    gradient="none",
)
define.op(
    "Identity(input: T) -> (output: T); T: type; !precision(clear)", shape="unchanged", gradient=lambda op, grad: grad
)


@define.op(
    "IdentityN(input: list(T)) -> (output: list(T)); T: list(type) >= 1; !precision(clear)",
    shape=lambda op: [t.shape for t in op.inputs],
    gradient=lambda op, *grads: list(grads),
    exports=("identity_n",),
)
def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """Pass on the same values as new tensors, produced together."""


define.op(
    "ImmutableConst() -> (tensor: dtype); dtype: type; shape: shape; memory_region_name: string",
    shape=lambda op: [op.attr("shape")],
)
define.op("InplaceAdd(x: T, i: int32, v: T) -> (y: T); T: type", shape="unchanged")
define.op("InplaceSub(x: T, i: int32, v: T) -> (y: T); T: type", shape="unchanged")
define.op("InplaceUpdate(x: T, i: int32, v: T) -> (y: T); T: type", shape="unchanged")


@define.op(
    f"InvertPermutation(x: T) -> (y: T); T: {INDEX} = int32",
    shape="unchanged",
    gradient="none",
    exports=("invert_permutation", "math.invert_permutation"),
)
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Compute the permutation that undoes the given one."""


define.op("IsResourceHandleRefCounting(handle: resource) -> (result: bool); !stateful", shape=[[]])
define.op(
    f"ListDiff(x: T, y: T) -> (out: T, idx: out_idx); T: type; out_idx: {INDEX} = int32",
    shape=[[None], [None]],
    gradient="none",
)
define.op(
    f"LowerBound(sorted_inputs: T, values: T) -> (output: out_type); T: type; out_type: {INDEX} = int32",
    shape=lambda op: [op.inputs[1].shape],
    gradient="none",
)
define.op(
    f"MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> (band: T); T: type; Tindex: {INDEX} = int64",
    shape="unchanged",
    gradient=lambda op, grad: [
        apply_op("MatrixBandPart", input=grad, num_lower=op.inputs[1], num_upper=op.inputs[2]),
        None,
        None,
    ],
)
define.op(
    "MatrixDiag(diagonal: T) -> (output: T); T: type", gradient=lambda op, grad: apply_op("MatrixDiagPart", input=grad)
)
define.op("MatrixSetDiag(input: T, diagonal: T) -> (output: T); T: type")
define.op("MatrixSetDiagV2(input: T, diagonal: T, k: int32) -> (output: T); T: type")


@define.op(
    "MatrixSetDiagV3(input: T, diagonal: T, k: int32) -> (output: T); T: type; "
    'align: string in {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"',
    exports=("matrix_set_diag", "linalg.set_diag"),
)
def matrix_set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Replace the diagonals `k` of matrices."""


define.op(
    f"MirrorPad(input: T, paddings: Tpaddings) -> (output: T); T: type; Tpaddings: {INDEX} = int32; "
    'mode: string in {"REFLECT", "SYMMETRIC"}; !precision(clear)',
    gradient=lambda op, grad: [
        apply_op("MirrorPadGrad", input=grad, paddings=op.inputs[1], mode=op.attr("mode")),
        None,
    ],
)
define.op(
    f"MirrorPadGrad(input: T, paddings: Tpaddings) -> (output: T); T: type; Tpaddings: {INDEX} = int32; "
    'mode: string in {"REFLECT", "SYMMETRIC"}; !precision(clear)',
    gradient=lambda op, grad: [apply_op("MirrorPad", input=grad, paddings=op.inputs[1], mode=op.attr("mode")), None],
)
define.op(
    "OneHot(indices: TI, depth: int32, on_value: T, off_value: T) -> (output: T); axis: int = -1; T: type; "
    "TI: type in {uint8, int8, int32, int64} = int64; !precision(float16: clear)",
    gradient="none",
)
define.op(
    "OnesLike(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, "
    "uint32, int64, uint64, complex64, complex128, bool}; !precision(clear)",
    shape="unchanged",
    gradient="none",
)
define.op(
    "ParallelConcat(values: N * T) -> (output: T); N: int >= 1; T: type; shape: shape",
    shape=lambda op: [op.attr("shape")],
)
define.op(
    "Placeholder() -> (output: dtype); dtype: type; shape: shape = unknown",
    shape=lambda op: [op.attr("shape")],
    gradient="none",
)
define.op(
    "PlaceholderV2() -> (output: dtype); dtype: type; shape: shape",
    shape=lambda op: [op.attr("shape")],
    gradient="none",
)
define.op(
    "PlaceholderWithDefault(input: dtype) -> (output: dtype); dtype: type; shape: shape",
    shape=lambda op: [op.attr("shape")],
    gradient=lambda op, grad: grad,
)


@define.op(
    'PreventGradient(input: T) -> (output: T); T: type; message: string = ""; !precision(clear)',
    shape="unchanged",
    exports=("prevent_gradient",),
)
def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """Pass on the same values; asking for their gradient is an error."""


define.op("Rank(input: T) -> (output: int32); T: type; !precision(clear)", shape=[[]], gradient="none")
define.op(
    "RefIdentity(input: ref(T)) -> (output: ref(T)); T: type; !uninitialized_input",
    shape="unchanged",
    gradient=lambda op, grad: grad,
)


@define.op(
    f"Reshape(tensor: T, shape: Tshape) -> (output: T); T: type; Tshape: {INDEX} = int32; !precision(clear)",
    renamed={"x": "tensor"},
)
def reshape_to(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Apply a Reshape op."""


define.op(
    "Reverse(tensor: T, dims: bool) -> (output: T); T: type in {uint8, int8, uint16, int16, uint32, int32, "
    "uint64, int64, bool, bfloat16, half, float, double, complex64, complex128, string}; !precision(clear)",
    shape="unchanged",
    gradient=lambda op, grad: [apply_op("Reverse", tensor=grad, dims=op.inputs[1]), None],
)
define.op(
    "ReverseSequence(input: T, seq_lengths: Tlen) -> (output: T); seq_dim: int; batch_dim: int = 0; T: type; "
    f"Tlen: {INDEX} = int64; !precision(clear)",
)
define.op(
    f"ReverseV2(tensor: T, axis: Tidx) -> (output: T); Tidx: {INDEX} = int32; T: type in {{uint8, int8, "
    "uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, complex64, complex128, "
    "string}; !precision(clear)",
    shape="unchanged",
    gradient=lambda op, grad: [apply_op("ReverseV2", tensor=grad, axis=op.inputs[1]), None],
)


@define.op(
    f"Roll(input: T, shift: Tshift, axis: Taxis) -> (output: T); T: type; Tshift: {INDEX}; Taxis: {INDEX}",
    shape="unchanged",
    gradient=lambda op, grad: [apply_op("Roll", input=grad, shift=-op.inputs[1], axis=op.inputs[2]), None, None],
    exports=("roll", "manip.roll"),
)
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shift elements along axes; what leaves at one end enters at the other."""


define.op(
    "ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> (output: T); T: type; "
    'Tindices: type in {int16, int32, int64}; bad_indices_policy: string = ""; !precision(bfloat16: clear)',
    gradient=lambda op, grad: [None, apply_op("GatherNd", params=grad, indices=op.inputs[0]), None],
)
define.op(
    "ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> (output: T); T: type in {float, "
    "double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, "
    f'uint16, complex128, half, uint32, uint64, bool}}; Tindices: {INDEX}; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient=lambda op, grad: [grad, None, apply_op("GatherNd", params=grad, indices=op.inputs[1])],
)
define.op(
    f"Shape(input: T) -> (output: out_type); T: type; out_type: {INDEX} = int32; !precision(clear)",
    shape=lambda op: [[op.inputs[0].shape.rank]],
    gradient="none",
)


@define.op(
    f"ShapeN(input: N * T) -> (output: N * out_type); N: int >= 1; T: type; out_type: {INDEX} = int32; "
    "!precision(clear)",
    shape=lambda op: [[t.shape.rank] for t in op.inputs],
    gradient="none",
    exports=("shape_n",),
)
def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """Get the shapes of several tensors."""


define.op(
    f"Size(input: T) -> (output: out_type); T: type; out_type: {INDEX} = int32; !precision(float16: clear)",
    shape=[[]],
    gradient="none",
)
define.op(
    "Snapshot(input: T) -> (output: T); T: type; !precision(clear)", shape="unchanged", gradient=lambda op, grad: grad
)
define.op(
    f"SpaceToBatch(input: T, paddings: Tpaddings) -> (output: T); T: type; Tpaddings: {INDEX} = int32; "
    "block_size: int >= 2; !precision(clear)",
    gradient=lambda op, grad: [
        apply_op("BatchToSpace", input=grad, crops=op.inputs[1], block_size=op.attr("block_size")),
        None,
    ],
)


@define.op(
    "SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> (output: T); T: type; "
    f"Tblock_shape: {INDEX} = int32; Tpaddings: {INDEX} = int32; !precision(clear)",
    gradient=lambda op, grad: [
        apply_op("BatchToSpaceND", input=grad, block_shape=op.inputs[1], crops=op.inputs[2]),
        None,
        None,
    ],
    exports=("space_to_batch_nd", "manip.space_to_batch_nd"),
)
def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Move blocks of spatial dimensions to the batch, after padding."""


@define.op(
    'SpaceToDepth(input: T) -> (output: T); T: type; block_size: int >= 2; data_format: string in {"NHWC", '
    '"NCHW", "NCHW_VECT_C"} = "NHWC"; !precision(clear)',
    gradient=lambda op, grad: apply_op(
        "DepthToSpace", input=grad, block_size=op.attr("block_size"), data_format=op.attr("data_format")
    ),
    exports=("space_to_depth", "nn.space_to_depth"),
)
def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Move blocks of pixels to channels."""


define.op(
    "Split(split_dim: int32, value: T) -> (output: num_split * T); num_split: int >= 1; T: type; !precision(clear)",
    gradient=lambda op, *grads: [
        None,
        apply_op("ConcatV2", values=list(grads), axis=op.inputs[0]) if len(grads) > 1 else grads[0],
    ],
)


@define.op(
    "StopGradient(input: T) -> (output: T); T: type; !precision(clear)",
    shape="unchanged",
    gradient="none",
    exports=("stop_gradient",),
)
def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """Pass on the same values; gradients do not flow back through them."""


define.op(
    "StridedSliceAssign(ref: ref(T), begin: Index, end: Index, strides: Index, "
    f"value: T) -> (output_ref: ref(T)); T: type; Index: {INDEX}; begin_mask: int = 0; end_mask: int = 0; "
    "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
    shape="unchanged",
)
define.op(
    f"TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; Tindices: {INDEX}; "
    'bad_indices_policy: string = ""',
    shape="unchanged",
    gradient=lambda op, grad: [grad, None, apply_op("GatherNd", params=grad, indices=op.inputs[1])],
)
define.op(
    f"TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; Tindices: {INDEX}; "
    'bad_indices_policy: string = ""',
    shape="unchanged",
)
define.op(
    f"TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; Tindices: {INDEX}; "
    'bad_indices_policy: string = ""',
    shape="unchanged",
)
define.op(
    f"TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; Tindices: {INDEX}; "
    'bad_indices_policy: string = ""',
    shape="unchanged",
    gradient=lambda op, grad: [grad, None, -apply_op("GatherNd", params=grad, indices=op.inputs[1])],
)
define.op(
    "TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
    'Tindices: type in {int16, int32, int64, uint16}; bad_indices_policy: string = ""',
    shape="unchanged",
)
define.op(
    "TensorStridedSliceUpdate(input: T, begin: Index, end: Index, strides: Index, value: T) -> (output: T); "
    f"T: type; Index: {INDEX}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
    "new_axis_mask: int = 0; shrink_axis_mask: int = 0",
    shape="unchanged",
)
define.op(
    "TileGrad(input: T, multiples: int32) -> (output: T); T: type",
    shape=lambda op: [unknown_shape(op.inputs[0].shape.rank)],
)
define.op(f"Unique(x: T) -> (y: T, idx: out_idx); T: type; out_idx: {INDEX} = int32", gradient="none")
define.op(
    f"UniqueV2(x: T, axis: Taxis) -> (y: T, idx: out_idx); T: type; Taxis: {INDEX} = int64; out_idx: {INDEX} = int32",
    gradient="none",
)
define.op(
    f"UniqueWithCounts(x: T) -> (y: T, idx: out_idx, count: out_idx); T: type; out_idx: {INDEX} = int32",
    gradient="none",
)
define.op(
    "UniqueWithCountsV2(x: T, axis: Taxis) -> (y: T, idx: out_idx, count: out_idx); T: type; "
    f"Taxis: {INDEX} = int64; out_idx: {INDEX} = int32",
    gradient="none",
)
define.op(
    "Unpack(value: T) -> (output: num * T); num: int >= 0; T: type; axis: int = 0; !precision(clear) !called(unstack)",
    gradient=lambda op, *grads: apply_op("Pack", values=list(grads), axis=op.attr("axis")),
)


@define.op(
    f"UnravelIndex(indices: Tidx, dims: Tidx) -> (output: Tidx); Tidx: {INDEX} = int32",
    gradient="none",
    exports=("unravel_index",),
)
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Find the coordinates of flat positions in an array of shape `dims`."""


define.op(
    f"UpperBound(sorted_inputs: T, values: T) -> (output: out_type); T: type; out_type: {INDEX} = int32",
    shape=lambda op: [op.inputs[1].shape],
    gradient="none",
)
define.op(
    "Where(input: T) -> (index: int64); T: type in {float, double, int32, uint8, int16, int8, complex64, "
    "int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, "
    "bool} = bool; !precision(clear)",
    shape=lambda op: [[None, op.inputs[0].shape.rank]],
    gradient="none",
)
define.op("ZerosLike(x: T) -> (y: T); T: type; !precision(clear)", shape="unchanged", gradient="none")
