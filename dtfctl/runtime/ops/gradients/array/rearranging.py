"""Gradients of what moves elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops


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


@register_gradient("ExtractImagePatches", "ExtractVolumePatches")
def _extract_patches(op: Operation, grad: Tensor) -> Any:
    """Add up for every pixel the patches it was copied to, found by extracting the pixels' numbers."""
    x = op.inputs[0]
    argument, known = ("images", ("rates",)) if op.type == "ExtractImagePatches" else ("input", ())
    shape = apply_op("Shape", input=x)
    pixels = apply_op("Prod", input=shape[1:-1], reduction_indices=[0])
    numbers = apply_op(
        "Reshape",
        tensor=math_ops.cast(math_ops.range(1, pixels + 1), dtypes.int64),
        shape=array_ops.concat([constant([1], dtypes.int32), shape[1:-1], constant([1], dtypes.int32)], 0),
    )
    attrs: dict[str, Any] = {a: op.attr(a) for a in ("ksizes", "strides", "padding", *known)}
    attrs[argument] = numbers
    found = apply_op(op.type, **attrs)
    where = apply_op("Reshape", tensor=found, shape=[-1])
    per_image = apply_op("Reshape", tensor=grad, shape=array_ops.stack([shape[0], -1, shape[-1]]))
    moved = array_ops.transpose(per_image, [1, 0, 2])
    summed = math_ops.unsorted_segment_sum(moved, where, pixels + 1)[1:]
    back = array_ops.transpose(summed, [1, 0, 2])
    return apply_op("Reshape", tensor=back, shape=shape)
