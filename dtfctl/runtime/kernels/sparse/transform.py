"""One sparse tensor: reordering, reshaping, slicing, reducing, filling empty rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.kernels.array.common import ints, is_low_precision, product, text
from dtfctl.runtime.kernels.array.scatter import group_starts
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse import common


@register_kernel("SparseReorder")
def _reorder(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        common.same_number(indices, values, shape)
        dims = common.check(indices, values, shape)
        common.in_bounds(indices, dims)
        order = common.order_of(indices)
        return indices[order], values[order]

    return kernel


@register_kernel("SparseReshape")
def _reshape(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, shape: Any, new_shape: Any) -> Any:
        if indices.ndim != 2:
            raise InvalidArgumentError(f"Input indices should be a matrix but received shape {text(indices.shape)}")
        if shape.ndim != 1:
            raise InvalidArgumentError(f"Input shape should be a vector but received shape {text(shape.shape)}")
        if new_shape.ndim != 1:
            raise InvalidArgumentError(f"Target shape should be a vector but received shape {text(new_shape.shape)}")
        if indices.shape[1] != shape.shape[0]:
            raise InvalidArgumentError(
                f"Input tensor rank must match input shape length. Got {indices.shape[1]} and {shape.shape[0]}"
            )
        dims, wanted = ints(shape), list(ints(new_shape))
        size = product(dims)
        if wanted.count(-1) > 1:
            first = wanted.index(-1)
            raise InvalidArgumentError(
                f"only one output dimension may be -1, not both {first} and {wanted.index(-1, first + 1)}"
            )
        known = product(d for d in wanted if d != -1)
        for i, d in enumerate(wanted):
            if d < -1:
                raise InvalidArgumentError(f"size {i} must be non-negative, not {d}")
        if -1 in wanted:
            if known == 0:
                raise InvalidArgumentError(
                    "reshape cannot infer the missing input size for an empty tensor unless all specified input "
                    "sizes are non-zero"
                )
            if size % known:
                raise InvalidArgumentError(
                    f"Input to reshape is a SparseTensor with {size} dense values, but the requested shape requires a "
                    f"multiple of {known}. input_shape={text(dims)} output_shape={text(wanted)}"
                )
            wanted[wanted.index(-1)] = size // known
        elif known != size:
            raise InvalidArgumentError(
                f"Input to reshape is a tensor with {size} dense values, but the requested shape has {known}. "
                f"input_shape={text(dims)} output_shape={text(wanted)}"
            )
        target = tuple(wanted)
        out = (
            common.unravel(common.linear(indices, dims), target)
            if size
            else np.zeros((len(indices), len(target)), np.int64)
        )
        return out, np.array(target, np.int64)

    return kernel


@register_kernel("SparseSlice")
def _slice(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
        common.same_number(indices, values, shape)
        dims = common.check(indices, values, shape)
        for name, t in (("start", start), ("size", size)):
            if t.ndim != 1:
                raise InvalidArgumentError(f"Input {name} should be a vector but received shape {text(t.shape)}")
            if t.shape[0] != len(dims):
                raise InvalidArgumentError(
                    f"Expected {name} to be a vector of length {len(dims)} but got length {t.shape[0]}"
                )
        common.in_bounds(indices, dims)
        if (size < 0).any():
            raise InvalidArgumentError(f"The size of a sparse slice must not be negative, got {size.tolist()}")
        end = np.where(size > shape - np.maximum(start, 0), shape, start + np.minimum(size, shape + 1))
        inside = ((indices >= start) & (indices < end)).all(axis=1)
        out_shape = np.maximum(np.minimum(end, shape) - start, 0)
        out_shape = np.where(start >= shape, 0, out_shape).astype(np.int64)
        return indices[inside] - start, values[inside], out_shape

    return kernel


@register_kernel("SparseSliceGrad")
def _slice_grad(k: KernelBuild) -> Kernel:
    def kernel(grad: Any, indices: Any, start: Any, out_indices: Any) -> Any:
        if indices.ndim != 2 or out_indices.ndim != 2:
            raise InvalidArgumentError(
                f"Input and output indices should be matrices but received shapes: {text(indices.shape)} and "
                f"{text(out_indices.shape)}"
            )
        if grad.ndim != 1:
            raise InvalidArgumentError(
                f"Input backprop_val_grad should be a vector but received shape: {text(grad.shape)}"
            )
        if start.ndim != 1:
            raise InvalidArgumentError(f"The input_start should be a vector but received shape {text(start.shape)}")
        if indices.shape[1] != out_indices.shape[1]:
            raise InvalidArgumentError(
                f"The input and output should have the same ndims: got: {indices.shape[1]} and {out_indices.shape[1]}"
            )
        if grad.shape[0] != out_indices.shape[0]:
            raise InvalidArgumentError("# elements of backprop_val_grad and # rows of output_indices should match")
        result = np.zeros(len(indices), grad.dtype)
        moved = out_indices + start
        every = np.concatenate([indices, moved])
        if not len(moved):
            return result
        dims = tuple((every.max(axis=0) + 1).tolist())
        flat, wanted = common.linear(indices, dims), common.linear(moved, dims)
        order = np.argsort(flat, kind="stable")
        at = np.searchsorted(flat[order], wanted)
        found = at < len(flat)
        found[found] = flat[order][at[found]] == wanted[found]
        if not found.all():
            used = int(found.sum())
            raise InternalError(
                f"Elements of backprop_val_grad aren't all propagated. Num elements:{len(grad)}, used: {used}"
            )
        result[order[at]] = grad
        return result

    return kernel


def _axes(reduction_axes: Any, rank: int) -> list[int]:
    axes = []
    if np.ndim(reduction_axes) > 1:
        raise InvalidArgumentError(
            f"Expected reduction_axes to be a scalar or a vector; got shape: {text(reduction_axes.shape)}"
        )
    for a in np.asarray(reduction_axes).reshape(-1).tolist():
        if not -rank <= a < rank:
            raise InvalidArgumentError(f"Invalid reduction dimension {a}, for input with {rank} dimensions.")
        if a % rank not in axes:
            axes.append(a % rank)
    return axes


@register_kernel(("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"))
def _reduce(k: KernelBuild) -> Kernel:
    is_max, sparse = "Max" in k.node.op, k.node.op.endswith("Sparse")
    keep = bool(k.attr("keep_dims"))
    ufunc: Any = np.maximum if is_max else np.add

    def kernel(indices: Any, values: Any, shape: Any, reduction_axes: Any) -> Any:
        dims = common.check(indices, values, shape)
        rank = len(dims)
        axes = _axes(reduction_axes, rank)
        rest = [i for i in range(rank) if i not in axes]
        rest_dims = tuple(dims[i] for i in rest)
        out_dims = tuple(1 if i in axes else dims[i] for i in range(rank)) if keep else rest_dims
        common.in_bounds(indices, dims)
        flat = common.linear(indices[:, rest], rest_dims)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        low = is_low_precision(values.dtype)
        if len(ordered):
            starts = group_starts(ordered)
            rows = values[order].astype(np.float32) if low else values[order]
            reduced = ufunc.reduceat(rows, starts, dtype=rows.dtype).astype(values.dtype, copy=False)
            where = ordered[starts]
        else:
            reduced, where = values[:0], ordered
        if not sparse:
            out = np.zeros(product(rest_dims), values.dtype)
            out[where] = reduced
            return out.reshape(out_dims)
        place = common.unravel(where, rest_dims)
        if keep:
            full = np.zeros((len(where), rank), np.int64)
            full[:, rest] = place
            place = full
        return place, reduced, np.array(out_dims, np.int64)

    return kernel


def fill_empty_rows(rows: Any, nrows: int) -> tuple[Any, Any, Any, Any]:
    """Find where every row ends up when empty rows get one default entry.

    Returns:
        (source position or -1 for a default, row) of each output entry, the empty-row flags, and for every input entry
        its output position.
    """
    counts = np.bincount(rows, minlength=nrows)
    empty = counts == 0
    order = np.argsort(rows, kind="stable")
    all_rows = np.concatenate([rows[order], np.flatnonzero(empty)])
    source = np.concatenate([order, np.full(int(empty.sum()), -1, np.int64)])
    final = np.argsort(all_rows, kind="stable")
    source, out_rows = source[final], all_rows[final]
    reverse = np.empty(len(rows), np.int64)
    real = source >= 0
    reverse[source[real]] = np.flatnonzero(real)
    return source, out_rows, empty, reverse


@register_kernel("SparseFillEmptyRows")
def _fill_empty_rows(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, shape: Any, default: Any) -> Any:
        if shape.ndim != 1:
            raise InvalidArgumentError(f"dense_shape must be a vector, saw: {text(shape.shape)}")
        if indices.ndim != 2:
            raise InvalidArgumentError(f"indices must be a matrix, saw: {text(indices.shape)}")
        if values.ndim != 1:
            raise InvalidArgumentError(f"values must be a vector, saw: {text(values.shape)}")
        if indices.shape[0] != values.shape[0]:
            raise InvalidArgumentError(
                f"The length of `values` ({values.shape[0]}) must match the first dimension of `indices` "
                f"({indices.shape[0]})."
            )
        if indices.shape[1] != shape.shape[0]:
            raise InvalidArgumentError(
                f"The length of `dense_shape` ({shape.shape[0]}) must match the second dimension of `indices` "
                f"({indices.shape[1]})."
            )
        if default.ndim != 0:
            raise InvalidArgumentError(f"default_value must be a scalar, saw: {text(default.shape)}")
        if shape.shape[0] == 0:
            raise InvalidArgumentError("Dense shape cannot be empty.")
        nrows = int(shape[0])
        if nrows == 0:
            if len(indices):
                raise InvalidArgumentError(
                    f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {len(indices)}"
                )
            return np.zeros((0, shape.shape[0]), np.int64), values, np.zeros(0, np.bool_), np.zeros(0, np.int64)
        rows = indices[:, 0]
        if len(rows) and (rows.min() < 0 or rows.max() >= nrows):
            i = int(np.flatnonzero((rows < 0) | (rows >= nrows))[0])
            raise InvalidArgumentError(f"indices({i}, 0) is invalid: {int(rows[i])} >= {nrows}")
        source, out_rows, empty, reverse = fill_empty_rows(rows, nrows)
        real = source >= 0
        out_indices = np.zeros((len(source), indices.shape[1]), np.int64)
        out_indices[:, 0] = out_rows
        out_indices[real] = indices[source[real]]
        out_values = np.empty(len(source), values.dtype)
        out_values[:] = default.item() if values.dtype == object else default
        out_values[real] = values[source[real]]
        return out_indices, out_values, empty, reverse

    return kernel


@register_kernel(("SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"))
def _fill_empty_rows_grad(k: KernelBuild) -> Kernel:
    def kernel(reverse: Any, grad: Any) -> Any:
        if reverse.ndim != 1:
            raise InvalidArgumentError(f"reverse_index_map must be a vector, saw: {text(reverse.shape)}")
        if grad.ndim != 1:
            raise InvalidArgumentError(f"grad_values must be a vector, saw: {text(grad.shape)}")
        if len(reverse) and (reverse.min() < 0 or reverse.max() >= len(grad)):
            i = int(np.flatnonzero((reverse < 0) | (reverse >= len(grad)))[0])
            raise InvalidArgumentError(
                f"Elements in reverse index must be in [0, {len(grad)}) but got {int(reverse[i])}"
            )
        unused = np.ones(len(grad), np.bool_)
        unused[reverse] = False
        return grad[reverse], np.add.reduce(grad[unused], dtype=grad.dtype)

    return kernel
