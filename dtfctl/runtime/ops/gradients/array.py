"""Gradients of the array family: those TensorFlow builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import not_differentiable, register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.math import reduce_to

not_differentiable(
    "BroadcastArgs",
    "BroadcastGradientArgs",
    "ConcatOffset",
    "Const",
    "EditDistance",
    "Empty",
    "Fingerprint",
    "HostConst",
    "InvertPermutation",
    "ListDiff",
    "LowerBound",
    "OneHot",
    "OnesLike",
    "Placeholder",
    "PlaceholderV2",
    "Rank",
    "Shape",
    "ShapeN",
    "Size",
    "StopGradient",
    "Unique",
    "UniqueV2",
    "UniqueWithCounts",
    "UniqueWithCountsV2",
    "UnravelIndex",
    "UpperBound",
    "Where",
    "ZerosLike",
    "Bitcast",
    "QuantizeV2",
)


@register_gradient("Identity", "RefIdentity", "PlaceholderWithDefault", "EnsureShape", "Snapshot", "GuaranteeConst")
@register_gradient("DebugGradientIdentity", "DebugGradientRefIdentity", "DeepCopy")
def _pass(op: Operation, grad: Any) -> Any:
    return grad


@register_gradient("IdentityN")
def _identity_n(op: Operation, *grads: Tensor) -> Any:
    return list(grads)


@register_gradient("PreventGradient")
def _prevent(op: Operation, grad: Tensor) -> Any:
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.text_attr('message')!r}")


@register_gradient("CheckNumerics")
def _check_numerics(op: Operation, grad: Tensor) -> Any:
    message = "Not a number (NaN) or infinity (Inf) values detected in gradient."
    return apply_op("CheckNumerics", tensor=grad, message=message)


@register_gradient("CheckNumericsV2")
def _check_numerics_v2(op: Operation, grad: Tensor) -> Any:
    message = "Not a number (NaN) or infinity (Inf) values detected in gradient."
    return apply_op("CheckNumericsV2", tensor=grad, message=message)


def _reshape_like(grad: Any, x: Tensor) -> Tensor:
    if isinstance(grad, IndexedSlices):
        grad = convert_to_tensor(grad)
    return apply_op("Reshape", tensor=grad, shape=array_ops.shape(x))  # type: ignore[no-any-return]


@register_gradient("Reshape", "ExpandDims")
def _reshape(op: Operation, grad: Any) -> Any:
    return [_reshape_like(grad, op.inputs[0]), None]


@register_gradient("Squeeze")
def _squeeze(op: Operation, grad: Any) -> Any:
    return _reshape_like(grad, op.inputs[0])


@register_gradient("Fill")
def _fill(op: Operation, grad: Tensor) -> Any:
    return [None, math_ops.reduce_sum(grad)]


@register_gradient("BroadcastTo")
def _broadcast_to(op: Operation, grad: Tensor) -> Any:
    return [reduce_to(op.inputs[0], op.outputs[0], grad, None)[0], None]


@register_gradient("Pack")
def _pack(op: Operation, grad: Tensor) -> Any:
    return array_ops.unstack(grad, num=len(op.inputs), axis=op.attr("axis"))


@register_gradient("Unpack")
def _unpack(op: Operation, *grads: Tensor) -> Any:
    return apply_op("Pack", values=list(grads), axis=op.attr("axis"))


@register_gradient("ConcatV2", "Concat")
def _concat(op: Operation, grad: Any) -> Any:
    """Slices of the gradient; of row slices (IndexedSlices) the matching parts."""
    first = op.type == "Concat"
    axis = op.inputs[0] if first else op.inputs[-1]
    parts = op.inputs[1:] if first else op.inputs[:-1]
    if isinstance(grad, IndexedSlices):
        out = _concat_of_slices(grad, axis, parts)
    else:
        known = constant_value(axis)
        if known is not None and all(p.shape.is_fully_defined() for p in parts):
            at = int(known) % len(parts[0].shape.known())
            sizes = [p.shape.known()[at] for p in parts]
            out = apply_op(
                "SplitV", value=grad, size_splits=constant(sizes, dtypes.int64), split_dim=at, num_split=len(parts)
            )
        else:
            rank = array_ops.rank(parts[0])
            at_tensor = apply_op("FloorMod", x=math_ops.cast(axis, dtypes.int32), y=rank)
            shapes = apply_op("ShapeN", input=parts)
            offsets = apply_op("ConcatOffset", concat_dim=at_tensor, shape=shapes)
            out = [apply_op("Slice", input=grad, begin=b, size=s) for b, s in zip(offsets, shapes)]
    return [None, *out] if first else [*out, None]


def _concat_of_slices(grad: IndexedSlices, axis: Tensor, parts: Sequence[Tensor]) -> list[Any]:
    known = constant_value(axis)
    if known is None:
        raise TypeError("Can only compute IndexedSlices gradient with statically-known concat_dim")
    at = int(known)
    rank = grad.values.shape.rank
    if at < 0:
        if rank is None:
            raise TypeError("Can only compute IndexedSlices gradient with known rank for a negative concat_dim")
        at %= rank
    out: list[Any] = []
    start: Any = constant(0, grad.indices.dtype.base_dtype)
    if at > 0:
        position: Any = constant(0, dtypes.int32)
        for part in parts:
            shape = apply_op("Shape", input=part)
            begin = array_ops.concat(
                [
                    constant([0] * at, dtypes.int32),
                    array_ops.expand_dims(position, 0),
                    constant([0] * ((rank or at + 1) - at - 1), dtypes.int32),
                ],
                0,
            )
            size = array_ops.concat(
                [
                    constant([-1] * at, dtypes.int32),
                    shape[at : at + 1],
                    constant([-1] * ((rank or at + 1) - at - 1), dtypes.int32),
                ],
                0,
            )
            values = apply_op("Slice", input=grad.values, begin=begin, size=size)
            out.append(IndexedSlices(values, grad.indices, shape))
            position = position + shape[at]
        return out
    for part in parts:
        shape = apply_op("Shape", input=part)
        count = math_ops.cast(shape[0], grad.indices.dtype)
        end = start + count
        inside = math_ops.logical_and(math_ops.greater_equal(grad.indices, start), math_ops.less(grad.indices, end))
        chosen = array_ops.squeeze(apply_op("Where", input=inside), axis=[1])
        rows = array_ops.gather(grad.indices, chosen) - start
        out.append(IndexedSlices(array_ops.gather(grad.values, chosen), rows, shape))
        start = end
    return out


@register_gradient("Split")
def _split(op: Operation, *grads: Tensor) -> Any:
    return [None, apply_op("ConcatV2", values=list(grads), axis=op.inputs[0]) if len(grads) > 1 else grads[0]]


@register_gradient("SplitV")
def _split_v(op: Operation, *grads: Tensor) -> Any:
    joined = apply_op("ConcatV2", values=list(grads), axis=op.inputs[2]) if len(grads) > 1 else grads[0]
    return [joined, None, None]


@register_gradient("Slice")
def _slice(op: Operation, grad: Tensor) -> Any:
    x, begin = op.inputs[0], op.inputs[1]
    have = apply_op("Shape", input=op.outputs[0], out_type=begin.dtype.base_dtype)
    whole = apply_op("Shape", input=x, out_type=begin.dtype.base_dtype)
    before = array_ops.expand_dims(begin, 1)
    after = array_ops.expand_dims(whole - have - begin, 1)
    paddings = array_ops.concat([before, after], 1)
    return [apply_op("Pad", input=grad, paddings=paddings), None, None]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@register_gradient("StridedSlice")
def _strided_slice(op: Operation, grad: Tensor) -> Any:
    x, begin, end, strides = op.inputs
    shape = apply_op("Shape", input=x, out_type=begin.dtype.base_dtype)
    out = apply_op(
        "StridedSliceGrad",
        shape=shape,
        begin=begin,
        end=end,
        strides=strides,
        dy=grad,
        **{m: op.attr(m) for m in _MASKS},
    )
    return [out, None, None, None]


@register_gradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, grad: Tensor) -> Any:
    _, begin, end, strides = op.inputs[:4]
    out = apply_op("StridedSlice", input=grad, begin=begin, end=end, strides=strides, **{m: op.attr(m) for m in _MASKS})
    return [None, None, None, None, out]


@register_gradient("TensorStridedSliceUpdate")
def _tensor_strided_slice_update(op: Operation, grad: Tensor) -> Any:
    _, begin, end, strides, value = op.inputs
    masks = {m: op.attr(m) for m in _MASKS}
    dv = apply_op("StridedSlice", input=grad, begin=begin, end=end, strides=strides, **masks)
    dx = apply_op(
        "TensorStridedSliceUpdate",
        input=grad,
        begin=begin,
        end=end,
        strides=strides,
        value=array_ops.zeros_like(dv),
        **masks,
    )
    return [dx, None, None, None, reduce_to(value, dv, dv, None)[0]]


# --- gather and scatter ---


@register_gradient("Gather")
def _gather(op: Operation, grad: Tensor) -> Any:
    params, indices = op.inputs
    return [_rows_gradient(params, indices, grad), None]


def _rows_gradient(params: Tensor, indices: Tensor, grad: Any) -> IndexedSlices:
    with grad.graph.colocate_with(params.op):
        shape = apply_op("Shape", input=params, out_type=dtypes.int64)
    shape = apply_op("Cast", x=shape, DstT=dtypes.int32)
    count = array_ops.expand_dims(array_ops.size(indices), 0)
    wanted = array_ops.concat([count, shape[1:]], 0)
    values = apply_op("Reshape", tensor=convert_to_tensor(grad), shape=wanted)
    return IndexedSlices(values, apply_op("Reshape", tensor=indices, shape=count), shape)


@register_gradient("GatherV2")
def _gather_v2(op: Operation, grad: Tensor) -> Any:
    params, indices, axis = op.inputs
    batch = int(op.attr("batch_dims") or 0)
    if batch < 0:
        batch += indices.shape.rank or 0
    known = constant_value(axis)
    if known is not None and int(known) == 0 and batch == 0:
        return [_rows_gradient(params, indices, grad), None, None]
    rank = params.shape.rank
    if known is None or rank is None:
        raise ValueError("The gradient of a gather needs a constant axis and params of known rank")
    at = int(known) % rank
    shape = array_ops.shape(params)
    if batch:
        return [_batch_gather_gradient(params, indices, at, batch, grad), None, None]
    # Bring the gathered dimension to the front, sum there, and put it back.
    index_rank = indices.shape.rank
    if index_rank is None:
        raise ValueError("The gradient of a gather needs indices of known rank")
    total = rank - 1 + index_rank
    perm = [*range(at, at + index_rank), *range(at), *range(at + index_rank, total)]
    moved = array_ops.transpose(grad, perm)
    rest = array_ops.concat([shape[:at], shape[at + 1 :]], 0)
    flat = apply_op("Reshape", tensor=moved, shape=array_ops.concat([constant([-1], dtypes.int32), rest], 0))
    summed = math_ops.unsorted_segment_sum(flat, array_ops.reshape(indices, [-1]), shape[at])
    back = [*range(1, at + 1), 0, *range(at + 1, rank)]
    return [array_ops.transpose(summed, back), None, None]


def _batch_gather_gradient(params: Tensor, indices: Tensor, at: int, batch: int, grad: Tensor) -> Tensor:
    """Batches become further segments of one big sum."""
    rank, index_rank = params.shape.rank, indices.shape.rank
    if rank is None or index_rank is None:
        raise ValueError("The gradient of a batched gather needs arguments of known rank")
    shape = array_ops.shape(params)
    extra = index_rank - batch
    total = rank - 1 + index_rank - batch
    # [batch, indices, outer, inner]
    perm = [*range(batch), *range(at, at + extra), *range(batch, at), *range(at + extra, total)]
    moved = array_ops.transpose(grad, perm)
    rest = array_ops.concat([shape[batch:at], shape[at + 1 :]], 0)
    flat = apply_op("Reshape", tensor=moved, shape=array_ops.concat([constant([-1], dtypes.int32), rest], 0))
    batches = apply_op("Prod", input=shape[:batch], reduction_indices=[0])
    limit = math_ops.cast(shape[at], indices.dtype)
    offset = math_ops.cast(math_ops.range(batches), indices.dtype) * limit
    rows = apply_op("Reshape", tensor=indices, shape=array_ops.stack([batches, -1])) + array_ops.expand_dims(offset, 1)
    summed = math_ops.unsorted_segment_sum(flat, array_ops.reshape(rows, [-1]), batches * shape[at])
    whole = array_ops.concat([shape[:batch], shape[at : at + 1], rest], 0)
    summed = apply_op("Reshape", tensor=summed, shape=whole)
    back = [*range(batch), *range(batch + 1, at + 1), batch, *range(at + 1, rank)]
    return array_ops.transpose(summed, back)


@register_gradient("GatherNd")
def _gather_nd(op: Operation, grad: Tensor) -> Any:
    params, indices = op.inputs
    shape = apply_op("Shape", input=params, out_type=indices.dtype.base_dtype)
    if indices.shape.rank == 2 and indices.shape[-1].value == 1:
        return [IndexedSlices(grad, array_ops.squeeze(indices, axis=-1), shape), None]
    return [apply_op("ScatterNd", indices=indices, updates=grad, shape=shape), None]


@register_gradient("ScatterNd")
def _scatter_nd(op: Operation, grad: Tensor) -> Any:
    return [None, apply_op("GatherNd", params=grad, indices=op.inputs[0]), None]


@register_gradient("TensorScatterUpdate")
def _tensor_scatter_update(op: Operation, grad: Tensor) -> Any:
    _, indices, updates = op.inputs
    kept = apply_op("TensorScatterUpdate", tensor=grad, indices=indices, updates=array_ops.zeros_like(updates))
    return [kept, None, apply_op("GatherNd", params=grad, indices=indices)]


@register_gradient("TensorScatterAdd", "ScatterNdNonAliasingAdd")
def _tensor_scatter_add(op: Operation, grad: Tensor) -> Any:
    return [grad, None, apply_op("GatherNd", params=grad, indices=op.inputs[1])]


@register_gradient("TensorScatterSub")
def _tensor_scatter_sub(op: Operation, grad: Tensor) -> Any:
    return [grad, None, -apply_op("GatherNd", params=grad, indices=op.inputs[1])]


@register_gradient("TensorScatterMax", "TensorScatterMin")
def _tensor_scatter_extremum(op: Operation, grad: Tensor) -> Any:
    tensor, indices, updates = op.inputs
    out = op.outputs[0]
    from_tensor = math_ops.cast(math_ops.equal(tensor, out), grad.dtype)
    chosen = math_ops.cast(math_ops.equal(updates, apply_op("GatherNd", params=out, indices=indices)), grad.dtype)
    count = apply_op("TensorScatterAdd", tensor=from_tensor, indices=indices, updates=chosen)
    share = grad / count
    return [share * from_tensor, None, chosen * apply_op("GatherNd", params=share, indices=indices)]


# --- rearranging ---


@register_gradient("Transpose")
def _transpose(op: Operation, grad: Tensor) -> Any:
    return [array_ops.transpose(grad, _inverse(op.inputs[1])), None]


@register_gradient("ConjugateTranspose")
def _conjugate_transpose(op: Operation, grad: Tensor) -> Any:
    return [array_ops.transpose(grad, _inverse(op.inputs[1]), conjugate=True), None]


def _inverse(perm: Tensor) -> Any:
    known = constant_value(perm)
    if known is not None:
        return np.argsort(np.mod(known, len(known))).astype(known.dtype) if known.size else known
    return array_ops.invert_permutation(perm)


@register_gradient("ReverseV2")
def _reverse_v2(op: Operation, grad: Tensor) -> Any:
    return [apply_op("ReverseV2", tensor=grad, axis=op.inputs[1]), None]


@register_gradient("Reverse")
def _reverse(op: Operation, grad: Tensor) -> Any:
    return [apply_op("Reverse", tensor=grad, dims=op.inputs[1]), None]


@register_gradient("ReverseSequence")
def _reverse_sequence(op: Operation, grad: Tensor) -> Any:
    out = apply_op(
        "ReverseSequence",
        input=grad,
        seq_lengths=op.inputs[1],
        seq_dim=op.attr("seq_dim"),
        batch_dim=op.attr("batch_dim"),
    )
    return [out, None]


@register_gradient("Roll")
def _roll(op: Operation, grad: Tensor) -> Any:
    return [apply_op("Roll", input=grad, shift=-op.inputs[1], axis=op.inputs[2]), None, None]


@register_gradient("Tile")
def _tile(op: Operation, grad: Any) -> Any:
    x, multiples = op.inputs
    grad = convert_to_tensor(grad)
    shape = apply_op("Shape", input=x, out_type=multiples.dtype.base_dtype)
    split = array_ops.reshape(array_ops.transpose(array_ops.stack([multiples, shape]), [1, 0]), [-1])
    rank = x.shape.rank
    if rank is not None:
        axes: Any = np.arange(0, 2 * rank, 2, dtype=np.int32)
    else:
        axes = math_ops.range(0, array_ops.size(split), 2)
    out = apply_op("Sum", input=apply_op("Reshape", tensor=grad, shape=split), reduction_indices=axes)
    return [out, None]


@register_gradient("Pad", "PadV2")
def _pad(op: Operation, grad: Tensor) -> Any:
    x, paddings = op.inputs[0], op.inputs[1]
    begin = array_ops.reshape(paddings[:, 0:1], [-1])
    size = apply_op("Shape", input=x, out_type=begin.dtype.base_dtype)
    inner = apply_op("Slice", input=grad, begin=begin, size=size)
    if op.type == "Pad":
        return [inner, None]
    return [inner, None, math_ops.reduce_sum(grad) - math_ops.reduce_sum(inner)]


@register_gradient("MirrorPad")
def _mirror_pad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("MirrorPadGrad", input=grad, paddings=op.inputs[1], mode=op.attr("mode")), None]


@register_gradient("MirrorPadGrad")
def _mirror_pad_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("MirrorPad", input=grad, paddings=op.inputs[1], mode=op.attr("mode")), None]


@register_gradient("SpaceToDepth")
def _space_to_depth(op: Operation, grad: Tensor) -> Any:
    return apply_op("DepthToSpace", input=grad, block_size=op.attr("block_size"), data_format=op.attr("data_format"))


@register_gradient("DepthToSpace")
def _depth_to_space(op: Operation, grad: Tensor) -> Any:
    return apply_op("SpaceToDepth", input=grad, block_size=op.attr("block_size"), data_format=op.attr("data_format"))


@register_gradient("SpaceToBatchND")
def _space_to_batch_nd(op: Operation, grad: Tensor) -> Any:
    return [apply_op("BatchToSpaceND", input=grad, block_shape=op.inputs[1], crops=op.inputs[2]), None, None]


@register_gradient("BatchToSpaceND")
def _batch_to_space_nd(op: Operation, grad: Tensor) -> Any:
    return [apply_op("SpaceToBatchND", input=grad, block_shape=op.inputs[1], paddings=op.inputs[2]), None, None]


@register_gradient("SpaceToBatch")
def _space_to_batch(op: Operation, grad: Tensor) -> Any:
    return [apply_op("BatchToSpace", input=grad, crops=op.inputs[1], block_size=op.attr("block_size")), None]


@register_gradient("BatchToSpace")
def _batch_to_space(op: Operation, grad: Tensor) -> Any:
    return [apply_op("SpaceToBatch", input=grad, paddings=op.inputs[1], block_size=op.attr("block_size")), None]


# --- diagonals ---


@register_gradient("Diag")
def _diag(op: Operation, grad: Tensor) -> Any:
    return apply_op("DiagPart", input=grad)


@register_gradient("DiagPart")
def _diag_part(op: Operation, grad: Tensor) -> Any:
    return apply_op("Diag", diagonal=grad)


@register_gradient("MatrixDiag")
def _matrix_diag(op: Operation, grad: Tensor) -> Any:
    return apply_op("MatrixDiagPart", input=grad)


@register_gradient("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    part = array_ops.matrix_diag_part(grad, k=op.inputs[1], align=align)
    return [part, None, None, None, None]


@register_gradient("MatrixDiagPart")
def _matrix_diag_part(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return apply_op("MatrixSetDiag", input=array_ops.zeros_like(x), diagonal=grad)


@register_gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    out = array_ops.matrix_set_diag(array_ops.zeros_like(op.inputs[0]), grad, k=op.inputs[1], align=align)
    return [out, None, None]


@register_gradient("MatrixSetDiag")
def _matrix_set_diag(op: Operation, grad: Tensor) -> Any:
    part = apply_op("MatrixDiagPart", input=grad)
    zeros = array_ops.zeros_like(op.inputs[1])
    return [apply_op("MatrixSetDiag", input=grad, diagonal=zeros), part]


@register_gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    diagonal, k = op.inputs[1], op.inputs[2]
    part = array_ops.matrix_diag_part(grad, k=k, align=align)
    rest = array_ops.matrix_set_diag(grad, array_ops.zeros_like(diagonal), k=k, align=align)
    return [rest, part, None]


@register_gradient("MatrixBandPart")
def _matrix_band_part(op: Operation, grad: Tensor) -> Any:
    return [apply_op("MatrixBandPart", input=grad, num_lower=op.inputs[1], num_upper=op.inputs[2]), None, None]


# --- quantization, patches ---


@register_gradient("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def _straight_through(op: Operation, grad: Tensor) -> Any:
    return [grad] + [None] * (len(op.inputs) - 1)


@register_gradient("QuantizeAndDequantizeV4")
def _quantize_and_dequantize_v4(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return apply_op(
        "QuantizeAndDequantizeV4Grad", gradients=grad, input=x, input_min=low, input_max=high, axis=op.attr("axis")
    )


@register_gradient("FakeQuantWithMinMaxArgs")
def _fake_quant_args(op: Operation, grad: Tensor) -> Any:
    return apply_op(
        "FakeQuantWithMinMaxArgsGradient",
        gradients=grad,
        inputs=op.inputs[0],
        **{a: op.attr(a) for a in ("min", "max", "num_bits", "narrow_range")},
    )


@register_gradient("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_vars(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return apply_op(
        f"{op.type}Gradient",
        gradients=grad,
        inputs=x,
        min=low,
        max=high,
        num_bits=op.attr("num_bits"),
        narrow_range=op.attr("narrow_range"),
    )


@register_gradient("ExtractImagePatches")
def _extract_image_patches(op: Operation, grad: Tensor) -> Any:
    """Every pixel collects from the patches it was copied to, found by extracting the pixels' numbers."""
    x = op.inputs[0]
    shape = apply_op("Shape", input=x)
    pixels = apply_op("Prod", input=shape[1:3], reduction_indices=[0])
    numbers = apply_op(
        "Reshape",
        tensor=math_ops.cast(math_ops.range(1, pixels + 1), dtypes.int64),
        shape=array_ops.concat([constant([1], dtypes.int32), shape[1:3], constant([1], dtypes.int32)], 0),
    )
    attrs = {a: op.attr(a) for a in ("ksizes", "strides", "rates")}
    found = apply_op("ExtractImagePatches", images=numbers, padding=op.attr("padding"), **attrs)
    where = apply_op("Reshape", tensor=found, shape=[-1])
    depth = shape[3]
    per_image = apply_op("Reshape", tensor=grad, shape=array_ops.stack([shape[0], -1, depth]))
    moved = array_ops.transpose(per_image, [1, 0, 2])
    summed = math_ops.unsorted_segment_sum(moved, where, pixels + 1)[1:]
    back = array_ops.transpose(summed, [1, 0, 2])
    return apply_op("Reshape", tensor=back, shape=shape)
