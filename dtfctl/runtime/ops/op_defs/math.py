"""Entries of the rest of the math family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import FLOATS, INDEX, NUMBERS, QUANTIZED, REALS

define = OpFamily("math")

define.op(
    f"AccumulateNV2(inputs: N * T) -> (sum: T); N: int >= 1; T: {NUMBERS}; shape: shape; !commutative aggregate",
    shape="merged",
    gradient=lambda op, grad: [grad] * len(op.inputs),
)
define.op(
    "AddN(inputs: N * T) -> (sum: T); N: int >= 1; T: type in {float, double, int32, uint8, int16, int8, "
    "complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, "
    "uint64, variant}; !commutative aggregate; !precision(infer)",
    shape="merged",
    gradient=lambda op, grad: [grad] * len(op.inputs),
)
define.op(
    f"All(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = false; Tidx: {INDEX} = int32",
    gradient="none",
)
define.op(
    f"Any(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = false; Tidx: {INDEX} = int32",
    gradient="none",
)
define.op(
    f"ApproximateEqual(x: T, y: T) -> (z: bool); T: {NUMBERS}; tolerance: float = 9.999999747378752e-06; !commutative",
    shape="merged",
    gradient="none",
)
define.op(
    "ArgMax(input: T, dimension: Tidx) -> (output: output_type); T: type in {float, double, int32, uint8, "
    "int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, qint32, qint16, quint16, "
    "bool}; Tidx: type in {int16, int32, int64} = int32; output_type: type in {int16, uint16, int32, "
    "int64} = int64; !precision(clear)",
    gradient="none",
)
define.op(
    "ArgMin(input: T, dimension: Tidx) -> (output: output_type); T: type in {float, double, int32, uint8, "
    "int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, qint32, qint16, quint16, "
    f"bool}}; Tidx: {INDEX} = int32; output_type: {INDEX} = int64; !precision(clear)",
    gradient="none",
)


@define.op("Betainc(a: T, b: T, x: T) -> (z: T); T: type in {float, double}", exports=("betainc", "math.betainc"))
def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the regularized incomplete beta integral."""


define.op(
    "Bincount(arr: int32, size: int32, weights: T) -> (bins: T); T: type in {int32, int64, float, double}",
    gradient="none",
)


@define.op(f"Cross(a: T, b: T) -> (product: T); T: {REALS}", exports=("cross", "linalg.cross", "math.cross"))
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Compute cross products of vectors of three elements."""


define.op(
    f"DenseBincount(input: Tidx, size: Tidx, weights: T) -> (output: T); Tidx: {INDEX}; T: type in {{int32, "
    "int64, float, double}; binary_output: bool = false",
    gradient="none",
)
define.op(
    "Equal(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true; !commutative; !precision(clear)",
    gradient="none",
)
define.op(
    "HistogramFixedWidth(values: T, value_range: T, nbins: int32) -> (out: dtype); T: type in {int32, int64, "
    f"float, double}}; dtype: {INDEX} = int32",
    gradient="none",
)
define.op(f"LinSpace(start: T, stop: T, num: Tidx) -> (output: T); T: {FLOATS}; Tidx: {INDEX} = int32", gradient="none")
define.op(
    "NotEqual(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true; !commutative; "
    "!precision(clear)",
    gradient="none",
)
define.op(
    "QuantizeDownAndShrinkRange(input: Tinput, input_min: float, input_max: float) -> (output: out_type, "
    f"output_min: float, output_max: float); Tinput: {QUANTIZED}; out_type: {QUANTIZED}",
    shape=lambda op: [op.inputs[0].shape, [], []],
)
define.op(
    "Range(start: Tidx, limit: Tidx, delta: Tidx) -> (output: Tidx); Tidx: type in {bfloat16, half, float, "
    "double, int8, int16, int32, int64, uint16, uint32, uint64} = int32; !called(range)",
    gradient="none",
)
define.op(
    "RequantizationRange(input: Tinput, input_min: float, input_max: float) -> (output_min: float, "
    f"output_max: float); Tinput: {QUANTIZED}",
    shape=[[], []],
)
define.op(
    "Requantize(input: Tinput, input_min: float, input_max: float, requested_output_min: float, "
    "requested_output_max: float) -> (output: out_type, output_min: float, output_max: float); "
    f"Tinput: {QUANTIZED}; out_type: {QUANTIZED}",
    shape=lambda op: [op.inputs[0].shape, [], []],
)


@define.op(
    "SobolSample(dim: int32, num_results: int32, skip: int32) -> (samples: dtype); dtype: type in {float, "
    "double} = float",
    exports=("math.sobol_sample",),
)
def sobol_sample(
    dim: Any, num_results: Any, skip: Any = 0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Make points of the Sobol sequence, [num_results, dim]."""
