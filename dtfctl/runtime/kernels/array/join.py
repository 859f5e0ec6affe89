"""Concatenation, stacking and their opposites."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import ints, text
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def _concat(k: KernelBuild, axis: Any, values: tuple[Any, ...], name: str) -> Any:
    if axis.size != 1 or axis.ndim > 1:
        raise InvalidArgumentError(f"{name} tensor should be a scalar integer, but got shape {text(axis.shape)}")
    dim = int(axis.reshape(()))
    first = values[0]
    rank = first.ndim
    if rank == 0 and all(v.ndim == 0 for v in values):
        if dim not in (0, -1):
            raise InvalidArgumentError(
                f"ConcatOp : Expected concatenating dimensions in the range [0, 1), but got {dim}"
            )
        raise InvalidArgumentError("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    if not -rank <= dim < rank and dim:
        raise InvalidArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {dim}"
        )
    if not all(v.ndim for v in values):
        raise InvalidArgumentError("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    dim %= rank
    shape = first.shape
    for i, v in enumerate(values):
        if v.ndim != rank:
            raise InvalidArgumentError(
                f"ConcatOp : Ranks of all input tensors should match: shape[0] = {text(shape)} vs. "
                f"shape[{i}] = {text(v.shape)}"
            )
        if v.shape[:dim] != shape[:dim] or v.shape[dim + 1 :] != shape[dim + 1 :]:
            raise InvalidArgumentError(
                f"ConcatOp : Dimension {next(d for d in range(rank) if d != dim and v.shape[d] != shape[d])} in both "
                f"shapes must be equal: shape[0] = {text(shape)} vs. shape[{i}] = {text(v.shape)}"
            )
    return k.xp_for("T").concatenate(values, axis=dim)


@register_kernel("ConcatV2", devices=CPU_GPU, host_inputs=("axis",))
def _concat_v2(k: KernelBuild) -> Kernel:
    return lambda *args: _concat(k, args[-1], args[:-1], "ConcatOp : Expected concatenating axis")


@register_kernel("Concat", devices=CPU_GPU, host_inputs=("concat_dim",))
def _concat_v1(k: KernelBuild) -> Kernel:
    return lambda *args: _concat(k, args[0], args[1:], "ConcatOp : Expected concat_dim")


def _spaced(dims: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, dims))}]"


@register_kernel("ConcatOffset", devices=CPU_GPU, host_inputs=("concat_dim", "shape"), host_outputs=("offset",))
def _concat_offset(k: KernelBuild) -> Kernel:
    def kernel(concat_dim: Any, *shapes: Any) -> Any:
        if concat_dim.ndim != 0:
            raise InvalidArgumentError(
                f"Concat dim tensor should be a scalar integer, but got shape {text(concat_dim.shape)}"
            )
        for i, s in enumerate(shapes):
            if s.ndim != 1:
                raise InvalidArgumentError(f"input {i} should be a vector, but got shape {text(s.shape)}")
        first = ints(shapes[0])
        rank, axis = len(first), int(concat_dim)
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Concat dim is out of range: {axis} vs. {rank}")
        axis %= rank
        out, offset = [], 0
        for i, s in enumerate(shapes):
            dims = ints(s)
            if len(dims) != rank:
                raise InvalidArgumentError(f"input {i} should contain {rank} elements, but got {len(dims)}")
            for j in range(rank):
                if j != axis and dims[j] != first[j]:
                    raise InvalidArgumentError(
                        f"All dimensions except {axis} must match. Input {i} has shape {_spaced(dims)} and doesn't "
                        "match "
                        f"input 0 with shape {_spaced(first)}."
                    )
            place = np.zeros(rank, s.dtype)
            place[axis] = offset
            offset += dims[axis]
            out.append(place)
        return out

    return kernel


@register_kernel("ParallelConcat", devices=CPU_GPU)
def _parallel_concat(k: KernelBuild) -> Kernel:
    """Inputs of one row each, put below one another."""

    def kernel(*values: Any) -> Any:
        for v in values:
            if v.ndim == 0 or v.shape[0] != 1:
                raise InvalidArgumentError("All values must have a first dimension of 1.")
        return k.xp.concatenate(values, axis=0)

    return kernel


@register_kernel("Pack", devices=CPU_GPU)
def _pack(k: KernelBuild) -> Kernel:
    axis = int(k.attr("axis"))

    def kernel(*values: Any) -> Any:
        first = values[0].shape
        rank = len(first) + 1
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"axis = {axis} not in [{-rank}, {rank})")
        for i, v in enumerate(values):
            if v.shape != first:
                raise InvalidArgumentError(
                    f"Shapes of all inputs must match: values[0].shape = {text(first)} != values[{i}].shape = "
                    f"{text(v.shape)}"
                )
        at = axis % rank
        shape = (*first[:at], 1, *first[at:])
        return k.xp.concatenate([v.reshape(shape) for v in values], axis=at)

    return kernel


@register_kernel("Unpack", devices=CPU_GPU)
def _unpack(k: KernelBuild) -> Kernel:
    axis, num = int(k.attr("axis")), int(k.attr("num"))

    def kernel(x: Any) -> Any:
        if not -x.ndim <= axis < x.ndim:
            raise InvalidArgumentError(f"axis = {axis} not in [{-x.ndim}, {x.ndim})")
        at = axis % x.ndim
        if x.shape[at] != num:
            raise InvalidArgumentError(f"Input shape axis {at} must equal {num}, got shape {text(x.shape)}")
        lead: tuple[Any, ...] = (slice(None),) * at
        return [x[(*lead, i, ...)] for i in range(num)]

    return kernel


def _split_axis(axis: Any, rank: int, name: str = "split_dim") -> int:
    if axis.size != 1:
        raise InvalidArgumentError(f"{name}_tensor must have exactly one element, not {axis.size}")
    value = int(axis.reshape(()))
    if not -rank <= value < rank:
        raise InvalidArgumentError(f"-input rank(-{rank}) <= {name} < input rank ({rank}), but got {value}")
    return value % rank


@register_kernel("Split", devices=CPU_GPU, host_inputs=("split_dim",))
def _split(k: KernelBuild) -> Kernel:
    num = int(k.attr("num_split"))

    def kernel(split_dim: Any, x: Any) -> Any:
        axis = _split_axis(split_dim, x.ndim)
        if num <= 0:
            raise InvalidArgumentError(f"Number of ways to split should be > 0, but got {num}")
        if x.shape[axis] % num:
            raise InvalidArgumentError(
                f"Number of ways to split should evenly divide the split dimension, but got split_dim {axis} (size = "
                f"{x.shape[axis]}) and num_split {num}"
            )
        each = x.shape[axis] // num
        lead: tuple[Any, ...] = (slice(None),) * axis
        return [x[(*lead, slice(i * each, (i + 1) * each), ...)] for i in range(num)]

    return kernel


@register_kernel("SplitV", devices=CPU_GPU, host_inputs=("size_splits", "split_dim"))
def _split_v(k: KernelBuild) -> Kernel:
    num = int(k.attr("num_split"))

    def kernel(x: Any, size_splits: Any, split_dim: Any) -> Any:
        axis = _split_axis(split_dim, x.ndim)
        if size_splits.ndim != 1 or size_splits.shape[0] != num:
            raise InvalidArgumentError(
                "size of the split_tensor must be 1-D and have the same elements as outputs got "
                f"{size_splits.ndim} -D and {size_splits.size} elements"
            )
        sizes = list(ints(size_splits))
        total = x.shape[axis]
        if sizes.count(-1) > 1:
            raise InvalidArgumentError(f"There can only be one -1 in the input size_splits, got {text(sizes)}")
        determined = sum(s for s in sizes if s != -1)
        if (-1 not in sizes and determined != total) or (-1 in sizes and determined > total):
            raise InvalidArgumentError(
                "Determined shape must either match input shape along split_dim exactly if fully specified, or be "
                f"less than the size of the input along split_dim if not fully specified.  Got: {determined}"
            )
        if -1 in sizes:
            sizes[sizes.index(-1)] = total - determined
        for i, s in enumerate(sizes):
            if s < 0:
                raise InvalidArgumentError(f"Split size at index {i} must be >= 0. Got: {s}")
        lead: tuple[Any, ...] = (slice(None),) * axis
        out, start = [], 0
        for s in sizes:
            out.append(x[(*lead, slice(start, start + s), ...)])
            start += s
        return out

    return kernel
