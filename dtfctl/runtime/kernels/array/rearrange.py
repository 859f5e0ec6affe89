"""Moving elements about: transposes, reversals, rolls, tiles, pads, and moves between space, depth and batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import check_size, ints, product, text
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def permutation(perm: Any, rank: int) -> tuple[int, ...]:
    """Check a permutation tensor against a rank; negative entries count from the end."""
    if perm.ndim != 1:
        raise InvalidArgumentError(f"perm must be rank 1, got shape {text(perm.shape)}")
    order = ints(perm)
    if len(order) != rank:
        raise InvalidArgumentError(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(order)}"
        )
    seen = set()
    for d in order:
        if not -rank <= d < rank:
            raise InvalidArgumentError(f"{d} is out of range [0 .. {rank})")
        seen.add(d % rank)
    if len(seen) != rank:
        missing = next(i for i in range(rank) if i not in seen)
        raise InvalidArgumentError(f"{missing} is missing from {{{','.join(map(str, order))}}}.")
    return tuple(d % rank for d in order)


@register_kernel("Transpose", devices=CPU_GPU, host_inputs=("perm",))
def _transpose(k: KernelBuild) -> Kernel:
    return lambda x, perm: x.transpose(permutation(perm, x.ndim))


@register_kernel("ConjugateTranspose", devices=CPU_GPU, host_inputs=("perm",))
def _conjugate_transpose(k: KernelBuild) -> Kernel:
    if k.dtype("T").is_complex:
        return lambda x, perm: x.transpose(permutation(perm, x.ndim)).conj()
    return lambda x, perm: x.transpose(permutation(perm, x.ndim))


@register_kernel("InvertPermutation")
def _invert_permutation(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        if x.ndim != 1:
            raise InvalidArgumentError("invert_permutation expects a 1D vector.")
        n = len(x)
        out = np.full(n, -1, x.dtype)
        if n:
            bad = (x < 0) | (x >= n)
            if bad.any():
                raise InvalidArgumentError(f"{int(x[bad][0])} is not between 0 and {n}")
            out[x] = np.arange(n, dtype=x.dtype)
            if (out < 0).any():
                values, counts = np.unique(x, return_counts=True)
                raise InvalidArgumentError(f"{int(values[counts > 1][0])} is duplicated in the input.")
        return out

    return kernel


@register_kernel("ReverseV2", devices=CPU_GPU, host_inputs=("axis",))
def _reverse_v2(k: KernelBuild) -> Kernel:
    def kernel(x: Any, axis: Any) -> Any:
        if x.ndim == 0:
            return x
        if axis.ndim != 1:
            raise InvalidArgumentError(f"'dims' must be 1-dimension, not {axis.ndim}")
        index: list[Any] = [slice(None)] * x.ndim
        for a in ints(axis):
            if not -x.ndim <= a < x.ndim:
                raise InvalidArgumentError(
                    f"'axis'[{ints(axis).index(a)}] = {a} is out of valid range [0, {x.ndim - 1}"
                )
            if index[a].step is not None:
                raise InvalidArgumentError(f"axis {a % x.ndim} specified more than once.")
            index[a] = slice(None, None, -1)
        return x[tuple(index)]

    return kernel


@register_kernel("Reverse", devices=CPU_GPU, host_inputs=("dims",))
def _reverse(k: KernelBuild) -> Kernel:
    def kernel(x: Any, dims: Any) -> Any:
        if x.ndim == 0:
            return x
        if dims.ndim != 1 or dims.shape[0] != x.ndim:
            raise InvalidArgumentError(
                f"'dims' must have the same number of values as 'input' has dimensions. 'input' has {x.ndim}'dims' "
                f"has {dims.size} values"
            )
        return x[tuple(slice(None, None, -1 if d else None) for d in dims.tolist())]

    return kernel


@register_kernel("ReverseSequence")
def _reverse_sequence(k: KernelBuild) -> Kernel:
    seq_dim, batch_dim = int(k.attr("seq_dim")), int(k.attr("batch_dim"))

    def kernel(x: Any, lengths: Any) -> Any:
        if seq_dim == batch_dim:
            raise InvalidArgumentError(f"batch_dim == seq_dim == {seq_dim}")
        if not -x.ndim <= seq_dim < x.ndim:
            raise InvalidArgumentError(f"seq_dim must be < input rank ( {seq_dim} vs. {x.ndim})")
        if not -x.ndim <= batch_dim < x.ndim:
            raise InvalidArgumentError(f"batch_dim must be < input rank ( {batch_dim} vs. {x.ndim})")
        if lengths.ndim != 1:
            raise InvalidArgumentError(f"seq_lens input must be 1-dim, not {lengths.ndim}")
        batch, n = x.shape[batch_dim], x.shape[seq_dim]
        if lengths.shape[0] != batch:
            raise InvalidArgumentError(
                f"Length of seq_lengths != input.dims({batch_dim}), ({lengths.shape[0]} vs. {batch})"
            )
        if lengths.size and lengths.min() < 0:
            raise InvalidArgumentError(f"seq_lens({int(np.argmax(lengths < 0))}) < 0")
        if lengths.size and lengths.max() > n:
            raise InvalidArgumentError(f"seq_lens({int(np.argmax(lengths > n))}) > input.dims({seq_dim})")
        place = np.arange(n)
        length = lengths.astype(np.intp).reshape(-1, 1)
        index = np.where(place < length, length - 1 - place, place)
        entries = np.arange(batch).reshape(-1, 1)
        first = seq_dim % x.ndim, batch_dim % x.ndim
        if max(first) > 1:
            out = np.moveaxis(x, (batch_dim, seq_dim), (0, 1))[entries, index]
            return np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch_dim, seq_dim)))
        # Rows by one number each: numpy takes three times as long by two.
        numbers = entries * n + index if first == (1, 0) else (index * batch + entries).T
        return x.reshape(batch * n, *x.shape[2:]).take(numbers, axis=0)

    return kernel


@register_kernel("Roll", devices=CPU_GPU, host_inputs=("shift", "axis"))
def _roll(k: KernelBuild) -> Kernel:
    def kernel(x: Any, shift: Any, axis: Any) -> Any:
        if x.ndim < 1:
            raise InvalidArgumentError("input must be 1-D or higher")
        if shift.ndim > 1:
            raise InvalidArgumentError(f"shift must be a scalar or a 1-D vector. Found: {text(shift.shape)}")
        if axis.ndim > 1:
            raise InvalidArgumentError(f"axis must be a scalar or a 1-D vector. Found: {text(axis.shape)}")
        if shift.shape != axis.shape:
            raise InvalidArgumentError(f"shift and axis must have the same size. Found: {shift.size} and {axis.size}")
        for a in ints(axis):
            if not -x.ndim <= a < x.ndim:
                raise InvalidArgumentError(f"axis {a} is out of range")
        return k.xp_for("T").roll(x, ints(shift), ints(axis))

    return kernel


@register_kernel("Tile", devices=CPU_GPU, host_inputs=("multiples",))
def _tile(k: KernelBuild) -> Kernel:
    def kernel(x: Any, multiples: Any) -> Any:
        if multiples.ndim != 1:
            raise InvalidArgumentError(f"Expected multiples to be 1-D, but got shape {text(multiples.shape)}")
        reps = ints(multiples)
        if len(reps) != x.ndim:
            raise InvalidArgumentError(
                f"Expected multiples argument to be a vector of length {x.ndim} but got length {len(reps)}"
            )
        if x.ndim == 0:
            return x
        for i, r in enumerate(reps):
            if r < 0:
                raise InvalidArgumentError(f"Expected multiples[{i}] >= 0, but got {r}")
        check_size([d * r for d, r in zip(x.shape, reps)])
        return k.xp_for("T").tile(x, reps)

    return kernel


@register_kernel("TileGrad")
def _tile_grad(k: KernelBuild) -> Kernel:
    def kernel(x: Any, multiples: Any) -> Any:
        reps = ints(multiples)
        if len(reps) != x.ndim:
            raise InvalidArgumentError(f"Expected multiples argument to be a vector of length {x.ndim}")
        for r, d in zip(reps, x.shape):
            if r <= 0 or d % r:
                raise InvalidArgumentError(f"Expected input_dim to be divisible by multiples, but {d} % {r} != 0")
        split = [n for r, d in zip(reps, x.shape) for n in (r, d // r)]
        return np.add.reduce(x.reshape(split), axis=tuple(range(0, 2 * x.ndim, 2)), dtype=x.dtype)

    return kernel


# --- padding ---


def _paddings(x: Any, paddings: Any) -> list[tuple[int, int]]:
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise InvalidArgumentError(f"paddings must be a matrix with 2 columns: {text(paddings.shape)}")
    if paddings.shape[0] != x.ndim:
        raise InvalidArgumentError(
            f"The first dimension of paddings must be the rank of inputs{text(paddings.shape)} {text(x.shape)}"
        )
    pads = [(int(a), int(b)) for a, b in paddings.tolist()]
    for a, b in pads:
        if a < 0 or b < 0:
            raise InvalidArgumentError(f"Paddings must be non-negative: {a} {b}")
    return pads[: x.ndim]


@register_kernel(("Pad", "PadV2"), devices=CPU_GPU, host_inputs=("paddings",))
def _pad(k: KernelBuild) -> Kernel:
    is_object = k.dtype("T").is_object

    def kernel(x: Any, paddings: Any, value: Any = None) -> Any:
        pads = _paddings(x, paddings)
        if not pads:
            return x
        if value is not None and value.ndim != 0:
            raise InvalidArgumentError(f"constant_values must be a scalar. Found: {text(value.shape)}")
        shape = tuple(d + a + b for d, (a, b) in zip(x.shape, pads))
        check_size(shape)
        if is_object:
            out = object_array([b"" if value is None else value.item()] * product(shape), shape)
        elif value is None:
            out = k.xp.zeros(shape, x.dtype)
        else:
            out = k.xp.full(shape, value, x.dtype)
        out[tuple(slice(a, a + d) for d, (a, _) in zip(x.shape, pads))] = x
        return out

    return kernel


@register_kernel("MirrorPad", devices=CPU_GPU, host_inputs=("paddings",))
def _mirror_pad(k: KernelBuild) -> Kernel:
    reflect = k.text_attr("mode") == "REFLECT"

    def kernel(x: Any, paddings: Any) -> Any:
        pads = _paddings(x, paddings)
        for i, (a, b) in enumerate(pads):
            most = x.shape[i] - 1 if reflect else x.shape[i]
            if a > most or b > most:
                raise InvalidArgumentError(
                    f"paddings must be less than the dimension size: {a}, {b} not less than {x.shape[i]}"
                    if reflect
                    else f"paddings must be no greater than the dimension size: {a}, {b} greater than {x.shape[i]}"
                )
        for axis, (a, b) in enumerate(pads):
            if a == b == 0:
                continue
            n, skip = x.shape[axis], int(reflect)
            left = np.arange(a - 1 + skip, skip - 1, -1)
            right = np.arange(n - 1 - skip, n - 1 - skip - b, -1)
            order = np.concatenate([left, np.arange(n), right]).astype(np.intp)
            x = k.xp.take(x, k.xp.asarray(order), axis=axis)
        return x

    return kernel


@register_kernel("MirrorPadGrad", devices=CPU_GPU, host_inputs=("paddings",))
def _mirror_pad_grad(k: KernelBuild) -> Kernel:
    """Folds the mirrored borders back onto what they mirrored."""
    skip = int(k.text_attr("mode") == "REFLECT")

    def kernel(g: Any, paddings: Any) -> Any:
        for axis, (a, b) in enumerate(_paddings(g, paddings)):
            n = g.shape[axis] - a - b
            if max(a, b) > n - skip:
                raise InvalidArgumentError(
                    f"paddings must be less than the output dimension size: {a}, {b} not less than {n}"
                    if skip
                    else f"paddings must be no greater than the output dimension size: {a}, {b} greater than {n}"
                )
            m = k.xp.moveaxis(g, axis, 0)
            out = k.xp.array(m[a : a + n])
            if a:
                out[skip : skip + a] += m[:a][::-1]
            if b:
                out[n - skip - b : n - skip] += m[a + n :][::-1]
            g = k.xp.moveaxis(out, 0, axis)
        return g

    return kernel


# --- between space, depth and batch ---


def _space_depth(k: KernelBuild, to_depth: bool) -> Kernel:
    block, layout = int(k.attr("block_size")), k.text_attr("data_format", "NHWC")
    if layout == "NCHW_VECT_C":
        raise InvalidArgumentError("Only NHWC and NCHW data_format are supported on CPU", k.node.name)

    def kernel(x: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"Input rank should be 4 instead of {x.ndim}")
        if layout == "NCHW":
            x = x.transpose(0, 2, 3, 1)
        n, h, w, c = x.shape
        if to_depth:
            if h % block or w % block:
                raise InvalidArgumentError(f"Image width {w} and height {h} should be divisible by block_size: {block}")
            y = x.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
            y = y.reshape(n, h // block, w // block, block * block * c)
        else:
            if c % (block * block):
                raise InvalidArgumentError(f"Input depth dimension {c} should be divisible by: {block * block}")
            y = x.reshape(n, h, w, block, block, c // (block * block)).transpose(0, 1, 3, 2, 4, 5)
            y = y.reshape(n, h * block, w * block, c // (block * block))
        return y.transpose(0, 3, 1, 2) if layout == "NCHW" else y

    return kernel


@register_kernel("SpaceToDepth", devices=CPU_GPU)
def _space_to_depth(k: KernelBuild) -> Kernel:
    return _space_depth(k, True)


@register_kernel("DepthToSpace", devices=CPU_GPU)
def _depth_to_space(k: KernelBuild) -> Kernel:
    layout = k.text_attr("data_format", "NHWC")
    if layout != "NHWC" and k.device.device_type == "CPU":
        raise InvalidArgumentError(
            f"No OpKernel was registered to support Op 'DepthToSpace' with data_format {layout} on CPU: use NHWC",
            k.node.name,
        )
    return _space_depth(k, False)


def _block_arguments(x: Any, block: Any, edges: Any, what: str) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    if block.ndim != 1:
        raise InvalidArgumentError(f"block_shape must be one-dimensional, instead got shape {text(block.shape)}")
    m = block.shape[0]
    if x.ndim < 1 + m:
        raise InvalidArgumentError(f"input rank should be >= {1 + m} instead of {x.ndim}")
    if edges.shape != (m, 2):
        raise InvalidArgumentError(f"{what} should have shape [{m}, 2] instead of {text(edges.shape)}")
    sizes = ints(block)
    for i, b in enumerate(sizes):
        if b < 1:
            raise InvalidArgumentError(f"All values in block_shape must be positive, got value, {b} at index {i}.")
    pairs = [(int(a), int(b)) for a, b in edges.tolist()]
    for a, b in pairs:
        if a < 0 or b < 0:
            raise InvalidArgumentError(f"{what.capitalize()} must be non-negative")
    return sizes, pairs


def space_to_batch(x: Any, block: tuple[int, ...], pads: list[tuple[int, int]], xp: Any) -> Any:
    """x [batch, spatial..., rest...] cut into blocks that become batch entries."""
    m = len(block)
    shape = [x.shape[0]]
    for i in range(m):
        padded = x.shape[1 + i] + sum(pads[i])
        if padded % block[i]:
            raise InvalidArgumentError(f"padded_shape[{i}]={padded} is not divisible by block_shape[{i}]={block[i]}")
        shape += [padded // block[i], block[i]]
    rest = x.shape[1 + m :]
    if any(p != (0, 0) for p in pads):
        full = xp.zeros((x.shape[0], *(x.shape[1 + i] + sum(pads[i]) for i in range(m)), *rest), x.dtype)
        full[(slice(None), *(slice(a, a + x.shape[1 + i]) for i, (a, _) in enumerate(pads)))] = x
        x = full
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    y = x.reshape(*shape, *rest).transpose(order)
    return y.reshape(x.shape[0] * product(block), *shape[1::2], *rest)


def batch_to_space(x: Any, block: tuple[int, ...], crops: list[tuple[int, int]]) -> Any:
    """Invert `space_to_batch`, then crop."""
    m, blocks = len(block), product(block)
    if x.shape[0] % blocks:
        raise InvalidArgumentError(
            f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes ({blocks})"
        )
    batch, spatial, rest = x.shape[0] // blocks, x.shape[1 : 1 + m], x.shape[1 + m :]
    y = x.reshape(*block, batch, *spatial, *rest)
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    order += range(2 * m + 1, 2 * m + 1 + len(rest))
    y = y.transpose(order).reshape(batch, *(s * b for s, b in zip(spatial, block)), *rest)
    index: list[Any] = [slice(None)]
    for i, (a, b) in enumerate(crops):
        size = y.shape[1 + i]
        if a + b > size:
            raise InvalidArgumentError(f"cropped_shape[{i}]={size - a - b} must be non-negative")
        index.append(slice(a, size - b))
    return y[tuple(index)]


@register_kernel("SpaceToBatchND", devices=CPU_GPU, host_inputs=("block_shape", "paddings"))
def _space_to_batch_nd(k: KernelBuild) -> Kernel:
    def kernel(x: Any, block_shape: Any, paddings: Any) -> Any:
        block, pads = _block_arguments(x, block_shape, paddings, "paddings")
        return space_to_batch(x, block, pads, k.xp)

    return kernel


@register_kernel("BatchToSpaceND", devices=CPU_GPU, host_inputs=("block_shape", "crops"))
def _batch_to_space_nd(k: KernelBuild) -> Kernel:
    def kernel(x: Any, block_shape: Any, crops: Any) -> Any:
        block, edges = _block_arguments(x, block_shape, crops, "crops")
        return batch_to_space(x, block, edges)

    return kernel


@register_kernel(("SpaceToBatch", "BatchToSpace"), devices=CPU_GPU, host_inputs=("paddings", "crops"))
def _batch_v1(k: KernelBuild) -> Kernel:
    size, to_batch = int(k.attr("block_size")), k.node.op == "SpaceToBatch"
    block = np.array([size, size], np.int32)

    def kernel(x: Any, edges: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"input rank should be 4 instead of {x.ndim}")
        sizes, pairs = _block_arguments(x, block, edges, "paddings" if to_batch else "crops")
        return space_to_batch(x, sizes, pairs, k.xp) if to_batch else batch_to_space(x, sizes, pairs)

    return kernel
