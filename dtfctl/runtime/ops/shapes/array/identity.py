"""Static shapes of ops whose result has the shape of an input, and of those that say their shape in an attribute."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape


@register_shape(
    "CheckNumerics",
    "CheckNumericsV2",
    "DebugGradientIdentity",
    "DebugGradientRefIdentity",
    "DeepCopy",
    "FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxArgsGradient",
    "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
    "GuaranteeConst",
    "Identity",
    "InplaceAdd",
    "InplaceSub",
    "InplaceUpdate",
    "InvertPermutation",
    "MatrixBandPart",
    "BatchMatrixBandPart",
    "MatrixSetDiag",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
    "BatchMatrixSetDiag",
    "OnesLike",
    "PreventGradient",
    "QuantizeAndDequantize",
    "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV3",
    "QuantizeAndDequantizeV4",
    "RefIdentity",
    "Reverse",
    "ReverseSequence",
    "ReverseV2",
    "Roll",
    "Snapshot",
    "StopGradient",
    "TensorScatterAdd",
    "TensorScatterMax",
    "TensorScatterMin",
    "TensorScatterSub",
    "TensorScatterUpdate",
    "ScatterNdNonAliasingAdd",
    "TensorStridedSliceUpdate",
    "ZerosLike",
    "Dequantize",
)
def _unchanged(op: Operation) -> Any:
    return [op.inputs[0].shape]


@register_shape("IdentityN")
def _identity_n(op: Operation) -> Any:
    return [t.shape for t in op.inputs]


@register_shape("Const", "HostConst")
def _const(op: Operation) -> Any:
    return [TensorShape(op.attrs["value"].tensor.tensor_shape)]


@register_shape("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "ImmutableConst")
def _placeholder(op: Operation) -> Any:
    return [op.attr("shape")]


@register_shape("EnsureShape")
def _ensure_shape(op: Operation) -> Any:
    return [op.inputs[0].shape.merge_with(op.attr("shape"))]


@register_shape("Bitcast")
def _bitcast(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    have, want = op.inputs[0].dtype.size, dtypes.as_dtype(op.outputs[0].dtype).size
    if dims is None:
        return [TensorShape(None)]
    if have == want:
        return [dims]
    return [[*dims, have // want] if have > want else dims[:-1]]


@register_shape("Fingerprint")
def _fingerprint(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [[None if dims is None else dims[0], 8]]
