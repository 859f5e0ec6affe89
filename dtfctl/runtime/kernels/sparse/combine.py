"""Sparse tensors with sparse ones: sums, extrema, concatenation, splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import ints, text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse import common


def _same_shape(a_shape: Any, b_shape: Any) -> None:
    if a_shape.shape != b_shape.shape:
        raise InvalidArgumentError(
            f"Ranks of input tensors must match, but saw ranks: {a_shape.size} and {b_shape.size}"
        )
    for i, (p, q) in enumerate(zip(ints(a_shape), ints(b_shape))):
        if p != q:
            raise InvalidArgumentError(f"Operands' shapes do not match: got {p} and {q} for dimension {i}")


def _union(ai: Any, av: Any, bi: Any, bv: Any, dims: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Sorted union of two index sets: (indices, a's values there, b's values there, which of the two are present)."""
    fa, fb = common.linear(ai, dims), common.linear(bi, dims)
    flat = np.union1d(fa, fb)
    left, right = np.zeros(len(flat), av.dtype), np.zeros(len(flat), bv.dtype)
    left[np.searchsorted(flat, fa)] = av
    right[np.searchsorted(flat, fb)] = bv
    return common.unravel(flat, dims), left, right, flat


@register_kernel("SparseAdd")
def _sparse_add(k: KernelBuild) -> Kernel:
    """Add two sparse tensors; where both have a value, a sum whose magnitude is below `thresh` is left out."""

    def kernel(ai: Any, av: Any, ashape: Any, bi: Any, bv: Any, bshape: Any, thresh: Any) -> Any:
        dims = common.check(ai, av, ashape, "a")
        common.check(bi, bv, bshape, "b")
        _same_shape(ashape, bshape)
        if thresh.ndim != 0:
            raise InvalidArgumentError(f"The magnitude threshold must be a scalar: got shape {text(thresh.shape)}")
        indices, left, right, flat = _union(ai, av, bi, bv, dims)
        total = left + right
        both = np.isin(flat, common.linear(ai, dims)) & np.isin(flat, common.linear(bi, dims))
        keep = ~both | (np.abs(total) >= thresh)
        return indices[keep], total[keep], ashape

    return kernel


@register_kernel("SparseAddGrad")
def _sparse_add_grad(k: KernelBuild) -> Kernel:
    def kernel(grad: Any, ai: Any, bi: Any, si: Any) -> Any:
        if ai.ndim != 2 or bi.ndim != 2 or si.ndim != 2:
            raise InvalidArgumentError(
                f"Input indices should be matrices but received shapes: {text(ai.shape)} and {text(bi.shape)}"
            )
        if grad.ndim != 1:
            raise InvalidArgumentError(
                f"Input backprop_val_grad should be a vector but received shape: {text(grad.shape)}"
            )
        if not ai.shape[1] == bi.shape[1] == si.shape[1]:
            raise InvalidArgumentError("The densified operands should have the same ndims.")
        if grad.shape[0] != si.shape[0]:
            raise InvalidArgumentError("# elements of backprop_val_grad and # rows of sum_indices should match")
        every = np.concatenate([ai, bi, si])
        dims = tuple((every.max(axis=0) + 1).tolist()) if len(every) else (0,) * ai.shape[1]
        fs = common.linear(si, dims)
        order = np.argsort(fs, kind="stable")
        sorted_fs = fs[order]

        def pick(indices: Any) -> Any:
            out = np.zeros(len(indices), grad.dtype)
            if len(fs) and len(indices):
                flat = common.linear(indices, dims)
                at = np.minimum(np.searchsorted(sorted_fs, flat), len(fs) - 1)
                found = sorted_fs[at] == flat
                out[found] = grad[order[at[found]]]
            return out

        return pick(ai), pick(bi)

    return kernel


@register_kernel(("SparseSparseMaximum", "SparseSparseMinimum"))
def _extremum(k: KernelBuild) -> Kernel:
    function = np.maximum if k.node.op.endswith("Maximum") else np.minimum

    def kernel(ai: Any, av: Any, ashape: Any, bi: Any, bv: Any, bshape: Any) -> Any:
        dims = common.validate(ai, av, ashape)
        common.validate(bi, bv, bshape)
        if not dims:
            raise InvalidArgumentError("Tensors must not be empty")
        if ashape.shape != bshape.shape:
            raise InvalidArgumentError(
                f"Operands do not have the same ranks; got shapes: {list(dims)} and {bshape.tolist()}"
            )
        for i, (p, q) in enumerate(zip(dims, ints(bshape))):
            if p != q:
                raise InvalidArgumentError(f"Operands' shapes do not match: got {p} and {q} for dimension {i}")
        indices, left, right, _ = _union(ai, av, bi, bv, dims)
        return indices, function(left, right)

    return kernel


@register_kernel("SparseConcat")
def _sparse_concat(k: KernelBuild) -> Kernel:
    dim_attr, n = int(k.attr("concat_dim")), int(k.attr("N"))

    def kernel(*args: Any) -> Any:
        indices, values, shapes = args[:n], args[n : 2 * n], args[2 * n :]
        first = common.check(indices[0], values[0], shapes[0])
        rank = len(first)
        if not -rank <= dim_attr < rank:
            raise InvalidArgumentError(f"Concat dimension must be in range [{-rank}, {rank}), got {dim_attr}")
        dim = dim_attr % rank
        moved, offset = [], 0
        for i in range(n):
            dims = common.check(indices[i], values[i], shapes[i])
            if len(dims) != rank:
                raise InvalidArgumentError(
                    f"Ranks of all input tensors must match: expected {rank} but got {len(dims)} at position {i}"
                )
            for j in range(rank):
                if j != dim and dims[j] != first[j]:
                    raise InvalidArgumentError(
                        f"Input shapes must match: expected {first[j]} for dimension {j} but got {dims[j]} at "
                        f"position {i}"
                    )
            part = indices[i].copy()
            part[:, dim] += offset
            offset += dims[dim]
            moved.append(part)
        out_indices, out_values = np.concatenate(moved), np.concatenate(values)
        order = common.order_of(out_indices)
        shape = np.array(first, np.int64)
        shape[dim] = offset
        return out_indices[order], out_values[order], shape

    return kernel


@register_kernel("SparseSplit")
def _sparse_split(k: KernelBuild) -> Kernel:
    """Leading parts take one more row where the dimension does not divide evenly."""
    n = int(k.attr("num_split"))

    def kernel(split_dim: Any, indices: Any, values: Any, shape: Any) -> Any:
        if split_dim.size != 1:
            raise InvalidArgumentError(f"axis should be a scalar, got shape {list(split_dim.shape)}")
        dims = common.check(indices, values, shape)
        axis = int(split_dim.reshape(()))
        if not -len(dims) <= axis < len(dims):
            raise InvalidArgumentError(f"axis should be in range [{-len(dims)}, {len(dims)}), got {axis}")
        axis %= len(dims)
        common.in_bounds(indices, dims)
        size = dims[axis]
        if not 1 <= n <= size:
            raise InvalidArgumentError(
                f"Input num_split should be between 1 and the splitting dimension size ({size}), got {n}"
            )
        each, extra = divmod(size, n)
        out_i, out_v, out_s, start = [], [], [], 0
        for part in range(n):
            length = each + (part < extra)
            inside = (indices[:, axis] >= start) & (indices[:, axis] < start + length)
            rows = indices[inside]
            rows[:, axis] -= start
            out_shape = np.array(dims, np.int64)
            out_shape[axis] = length
            out_i.append(rows)
            out_v.append(values[inside])
            out_s.append(out_shape)
            start += length
        return [*out_i, *out_v, *out_s]

    return kernel
