"""Moving elements: transposing, reversing, repeating, padding, blocks to and from channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.array_ops.creation import sequence_mask
from dtfctl.runtime.ops.array_ops.gathering import boolean_mask, gather
from dtfctl.runtime.ops.array_ops.joining import concat, stack
from dtfctl.runtime.ops.array_ops.shapes import expand_dims, index_tensor, rank, reshape, shape
from dtfctl.runtime.ops.array_ops.slicing import strided_slice
from dtfctl.runtime.ops.op_defs.array import batch_to_space_nd, space_to_batch_nd


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeat a tensor `multiples` times along each axis."""
    return apply_op("Tile", name, input=input, multiples=index_tensor(multiples))


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Repeat each element `repeats` times (a number, or one for each position along the axis)."""
    with name_scope(name, "Repeat"):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = reshape(x, [-1]), 0
        counts = convert_to_tensor(repeats, dtypes.int32)
        if axis < 0 and x.shape.rank is None:
            raise ValueError(f"axis={axis} may only be negative if the rank of what is repeated is known")
        if x.shape.rank == 0:
            x = reshape(x, [1])
        if counts.shape.num_elements() == 1 and x.shape.dims_or_none is not None:
            return _repeated_alike(x, reshape(counts, []), axis)
        length = strided_slice(shape(x), [axis], [axis + 1], [1], shrink_axis_mask=1)
        counts = apply_op("BroadcastTo", input=counts, shape=stack([length]))
        longest = apply_op("Maximum", x=apply_op("Max", input=counts, reduction_indices=[0]), y=0)
        mask = sequence_mask(counts, longest)
        places = tile(expand_dims(apply_op("Range", start=0, limit=length, delta=1), 1), stack([1, longest]))
        out = gather(x, boolean_mask(places, mask), axis=axis)
        known, dims = constant_value(counts), x.shape.dims_or_none
        if known is not None and dims is not None:
            sizes = list(dims)
            sizes[axis] = int(known.clip(0).sum())
            out.set_shape(sizes)
        return out


def _repeated_alike(x: Tensor, count: Tensor, axis: int) -> Tensor:
    """Repeat each element as often: a new axis beside its own is tiled, and becomes one with it."""
    dims: list[Any] = x.shape.as_list()
    axis = axis + len(dims) if axis < 0 else axis
    if not 0 <= axis < len(dims):
        raise ValueError(f"axis={axis} is out of bounds: expected {-len(dims)} <= axis < {len(dims)}")
    known = constant_value(count)
    times: list[Any] = [1] * (len(dims) + 1)
    times[axis + 1] = count if known is None else max(int(known), 0)
    tiled = tile(expand_dims(x, axis + 1), times if known is not None else stack(times))
    if None in dims:
        sizes = shape(x)
        dims = [
            strided_slice(sizes, [i], [i + 1], [1], shrink_axis_mask=1) if d is None else d for i, d in enumerate(dims)
        ]
    dims[axis] = dims[axis] * times[axis + 1]
    return reshape(tiled, dims if all(isinstance(d, int) for d in dims) else stack(dims))


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Put axes in another order; reversed when perm is None."""
    with name_scope(name) as scope:
        x = convert_to_tensor(a)
        op_type = "ConjugateTranspose" if conjugate and x.dtype.is_complex else "Transpose"
        if perm is None:
            known = x.shape.rank
            if known is not None:
                perm = np.arange(known - 1, -1, -1, dtype=np.int32)
            else:
                last = apply_op("Sub", x=rank(x), y=1)
                perm = apply_op("Sub", x=last, y=apply_op("Range", start=0, limit=rank(x), delta=1))
        return apply_op(op_type, scope, x=x, perm=index_tensor(perm))


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """Swap the last two axes, conjugated if wanted."""
    with name_scope(name):
        x = convert_to_tensor(a)
        known = x.shape.rank
        if known is None:
            n = rank(x)
            perm: Any = concat([apply_op("Range", start=0, limit=n - 2, delta=1), stack([n - 1, n - 2])], 0)
        else:
            if known < 2:
                raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2. Found: {x.shape}")
            perm = [*range(known - 2), known - 1, known - 2]
        return transpose(x, perm, conjugate=conjugate)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the order of elements along axes."""
    return apply_op("ReverseV2", name, tensor=tensor, axis=index_tensor(axis))


reverse_v2 = reverse


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Reverse the first `seq_lengths` elements of each row."""
    seq = seq_dim if seq_axis is None else seq_axis
    batch = batch_dim if batch_axis is None else batch_axis
    return apply_op("ReverseSequence", name, input=input, seq_lengths=seq_lengths, seq_dim=seq, batch_dim=batch or 0)


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Put a border of a constant, or of the mirrored edge, around a tensor."""
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and np.isscalar(constant_values) and constant_values == 0:
            return apply_op("Pad", name, input=tensor, paddings=paddings)
        return apply_op("PadV2", name, input=tensor, paddings=paddings, constant_values=constant_values)
    if mode in ("REFLECT", "SYMMETRIC"):
        return apply_op("MirrorPad", name, input=tensor, paddings=paddings, mode=mode)
    raise ValueError(f"Value of argument `mode` expected to be one of CONSTANT, REFLECT, SYMMETRIC. Received {mode}")


def space_to_batch(
    input: Any, paddings: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """Apply `space_to_batch_nd` to images with square blocks."""
    return space_to_batch_nd(input, [block_size] * 2 if block_shape is None else block_shape, paddings, name)


def batch_to_space(input: Any, crops: Any, block_size: int, name: str | None = None, block_shape: Any = None) -> Tensor:
    """Apply `batch_to_space_nd` to images with square blocks."""
    return batch_to_space_nd(input, [block_size] * 2 if block_shape is None else block_shape, crops, name)


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """Take patches of images, each flattened into channels."""
    return apply_op(
        "ExtractImagePatches",
        name,
        images=images,
        ksizes=ksizes if sizes is None else sizes,
        strides=strides,
        rates=rates,
        padding=padding,
    )


def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """Take patches of images, each flattened into channels."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Find (paddings, crops) that make an input divisible into blocks; computed while building, from known values."""
    sizes, blocks = (
        np.asarray(v) if known is None else known
        for v, known in ((v, constant_value(v) if isinstance(v, Tensor) else None) for v in (input_shape, block_shape))
    )
    base = np.zeros((len(blocks), 2), np.int32) if base_paddings is None else np.asarray(base_paddings)
    full = sizes + base.sum(axis=1)
    extra = (-full) % blocks
    paddings = np.stack([base[:, 0], base[:, 1] + extra], axis=1).astype(np.int32)
    crops = np.stack([np.zeros_like(extra), extra], axis=1).astype(np.int32)
    with name_scope(name, "required_space_to_batch_paddings"):
        return constant(paddings, name="paddings"), constant(crops, name="crops")
