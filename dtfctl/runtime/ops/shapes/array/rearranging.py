"""Static shapes of ops that move, repeat or pad: transposes, tiles, blocks of space, patches."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.array.axes import checked_axis


@register_shape("Transpose", "ConjugateTranspose")
def _transpose(op: Operation) -> Any:
    dims, perm = op.inputs[0].shape.dims_or_none, computed_value(op.inputs[1])
    if perm is None:
        rank = len(dims) if dims is not None else op.inputs[1].shape.num_elements()
        return [unknown_shape(rank)]
    if dims is None:
        return [unknown_shape(perm.size)]
    if perm.size != len(dims):
        raise ValueError(f"Dimension must be {len(dims)} but is {perm.size} for '{op.name}' (op: '{op.type}')")
    return [[dims[checked_axis(p, len(dims), op)] for p in perm.tolist()]]


@register_shape("Tile")
def _tile(op: Operation) -> Any:
    dims, multiples = op.inputs[0].shape.dims_or_none, constant_value_as_shape(op.inputs[1]).dims_or_none
    if dims is None:
        return [unknown_shape(None if multiples is None else len(multiples))]
    if multiples is None:
        return [unknown_shape(len(dims))]
    if len(multiples) != len(dims):
        raise ValueError(f"Shape must be rank {len(dims)} but is rank {len(multiples)} for '{op.name}' (op: 'Tile')")
    value = computed_value(op.inputs[1])
    if value is not None and value.size and value.min() < -1:
        raise ValueError(f"Expected multiples to be >= 0, but got {int(value.min())} for '{op.name}' (op: 'Tile')")
    return [[None if d is None or m is None else d * m for d, m in zip(dims, multiples)]]


@register_shape("Pad", "PadV2", "MirrorPad", "MirrorPadGrad")
def _pad(op: Operation) -> Any:
    dims, pads = op.inputs[0].shape.dims_or_none, computed_value(op.inputs[1])
    if dims is None:
        rows = op.inputs[1].shape.dims_or_none
        return [unknown_shape(None if rows is None or rows[0] is None else rows[0])]
    if pads is None:
        return [_padded_in_part(dims, op)]
    if pads.shape[0] != len(dims):
        raise ValueError(
            f"Shape must be rank {pads.shape[0]} but is rank {len(dims)} for '{op.name}' (op: '{op.type}')"
        )
    if pads.size and pads.min() < 0:
        raise ValueError(f"Paddings must be non-negative, got {int(pads.min())} for '{op.name}' (op: '{op.type}')")
    sign = -1 if op.type == "MirrorPadGrad" else 1
    return [[None if d is None else d + sign * int(p.sum()) for d, p in zip(dims, pads)]]


def _padded_in_part(dims: Any, op: Operation) -> Any:
    """Tell the axes whose paddings are known, where others are computed."""
    packed = op.inputs[1].op
    if packed.type != "Pack" or packed.attr("axis") or len(packed.inputs) != len(dims):
        return unknown_shape(len(dims))
    ends = [constant_value_as_shape(row).dims_or_none for row in packed.inputs]
    sign = -1 if op.type == "MirrorPadGrad" else 1
    added = [None if pair is None or None in pair else sum(n for n in pair if n is not None) for pair in ends]
    return [None if d is None or more is None else d + sign * more for d, more in zip(dims, added)]


@register_shape("SpaceToDepth", "DepthToSpace")
def _space_depth(op: Operation) -> Any:
    dims = op.inputs[0].shape.with_rank(4).dims_or_none
    assert dims is not None
    block, layout = op.attr("block_size"), op.attr("data_format")
    n, h, w, c = dims if layout == b"NHWC" else (dims[0], dims[2], dims[3], dims[1])

    def scaled(d: int | None, by: int, up: bool) -> int | None:
        return None if d is None else d * by if up else d // by

    grow = op.type == "DepthToSpace"
    h, w, c = scaled(h, block, grow), scaled(w, block, grow), scaled(c, block * block, not grow)
    return [[n, h, w, c] if layout == b"NHWC" else [n, c, h, w]]


@register_shape("SpaceToBatchND", "BatchToSpaceND", "SpaceToBatch", "BatchToSpace")
def _space_batch(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    edges = computed_value(op.inputs[-1])
    if op.type.endswith("ND"):
        value = computed_value(op.inputs[1])
        block = None if value is None else value.tolist()
    else:
        block = [op.attr("block_size")] * 2
    if dims is None:
        return [TensorShape(None)]
    if block is None or edges is None:
        return [unknown_shape(len(dims))]
    out = list(dims)
    into_batch = op.type.startswith("Space")
    for i, b in enumerate(block):
        batch, size, edge = out[0], out[i + 1], int(edges[i].sum())
        if into_batch:
            out[0] = None if batch is None else batch * b
            out[i + 1] = None if size is None else (size + edge) // b
        else:
            out[0] = None if batch is None else batch // b
            out[i + 1] = None if size is None else size * b - edge
    return [out]


@register_shape("ExtractImagePatches", "ExtractVolumePatches")
def _patches(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    sizes, strides = op.attr("ksizes"), op.attr("strides")
    rates = op.attr("rates") or (1,) * len(sizes)
    out: list[int | None] = [dims[0]]
    volume = 1
    for d, size, stride, rate in zip(dims[1:-1], sizes[1:-1], strides[1:-1], rates[1:-1]):
        extent = (size - 1) * rate + 1
        volume *= size
        if d is None:
            out.append(None)
        else:
            out.append(-(-d // stride) if op.attr("padding") == b"SAME" else -(-(d - extent + 1) // stride))
    last = dims[-1]
    return [[*out, None if last is None else last * volume]]


@register_shape("ReverseSequence")
def _reverse_sequence(op: Operation) -> Any:
    """Take the batch of the rows or of their lengths, whichever knows it."""
    shape, rows = op.inputs[0].shape, op.inputs[1].shape.with_rank(1)[0]
    if shape.rank is None:
        return [shape]
    batch, along = int(op.attr("batch_dim")), int(op.attr("seq_dim"))
    if max(batch, along) >= shape.rank:
        raise ValueError(f"batch_dim and seq_dim must be < input rank: {batch}, {along} vs. {shape.rank} ('{op.name}')")
    dims = list(shape)
    dims[batch] = dims[batch].merge_with(rows)
    return [TensorShape(dims)]
