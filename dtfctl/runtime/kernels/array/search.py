"""Unique, Where, OneHot, sorted look-ups, edit distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import ints, product, text
from dtfctl.runtime.kernels.array.scatter import distinct
from dtfctl.runtime.kernels.pieces import array_of, each, listed, look, update_at
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def unique_in_order(x: Any) -> tuple[Any, Any, Any]:
    """(first occurrence, index into it of each item, count) of a vector's distinct items, in order of appearance."""
    if x.dtype == object:
        seen: dict[Any, int] = {}
        inverse = array_of([seen.setdefault(v, len(seen)) for v in each(x)], np.int64)
        first = np.full(len(seen), len(x), np.int64)
        update_at(np.minimum, first, inverse, np.arange(len(x)))
        return first, inverse, np.bincount(inverse, minlength=len(seen))
    found = distinct(x)
    if found is not None:
        first, inverse = found
        return first, inverse, np.bincount(inverse, minlength=len(first))
    _, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return _reorder(first, inverse.reshape(-1), counts)


def _reorder(first: Any, inverse: Any, counts: Any) -> tuple[Any, Any, Any]:
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse], counts[order]


@register_kernel(("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2"), pieces=True)
def _unique(k: KernelBuild) -> Kernel:
    out, with_counts = k.dtype("out_idx").np, "WithCounts" in k.node.op

    def kernel(x: Any, axis: Any = None) -> Any:
        at = 0
        if axis is not None and axis.ndim != 1:
            raise InvalidArgumentError("axis expects a 1D vector.")
        if axis is not None and axis.size:
            if axis.size != 1:
                raise InvalidArgumentError("axis does not support input tensors larger than 1 elements")
            at = int(axis[0])
            if not -x.ndim <= at < x.ndim:
                raise InvalidArgumentError(f"axis has to be between [0, {x.ndim})")
            at %= x.ndim
        elif x.ndim != 1:
            raise InvalidArgumentError("unique expects a 1D vector.")
        if x.ndim == 1:
            first, inverse, counts = unique_in_order(x)
            y = x[first]
        else:
            rows = np.moveaxis(x, at, 0)
            flat = rows.reshape(rows.shape[0], -1)
            if flat.shape[0] == 0:
                first, inverse, counts = (np.zeros(0, np.int64),) * 3
            elif flat.dtype == object or flat.shape[1] == 0:
                keys = object_array([tuple(r) for r in listed(flat)], (flat.shape[0],))
                first, inverse, counts = unique_in_order(keys)
            else:
                _, f, i, c = np.unique(
                    flat, axis=0, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
                )
                first, inverse, counts = _reorder(f, i.reshape(-1), c)
            y = np.take(x, first, axis=at)
        result = (y, inverse.astype(out), counts.astype(out))
        return result if with_counts else result[:2]

    return kernel


@register_kernel("ListDiff", pieces=True)
def _list_diff(k: KernelBuild) -> Kernel:
    out_idx = k.dtype("out_idx").np

    def kernel(x: Any, y: Any) -> Any:
        for name, v in (("x", x), ("y", y)):
            if v.ndim != 1:
                raise InvalidArgumentError(f"{name} should be a 1D vector.")
        if x.dtype == object:
            unwanted = set(each(y))
            keep = array_of([v not in unwanted for v in each(x)], np.bool_)
        else:
            keep = ~np.isin(x, y)
        where = np.flatnonzero(keep)
        return x[where], where.astype(out_idx)

    return kernel


@register_kernel("Where")
def _where(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        if x.ndim == 0:
            raise InvalidArgumentError("WhereOp : Unhandled input dimensions: 0")
        return np.argwhere(x).astype(np.int64, copy=False)

    return kernel


@register_kernel("OneHot")
def _one_hot(k: KernelBuild) -> Kernel:
    axis_attr = int(k.attr("axis"))

    def kernel(indices: Any, depth: Any, on: Any, off: Any) -> Any:
        rank = indices.ndim + 1
        if axis_attr != -1 and not 0 <= axis_attr < rank:
            raise InvalidArgumentError(f"Expected axis to be -1 or between [0, {rank}).  But received: {axis_attr}")
        for name, t in (("depth", depth), ("on_value", on), ("off_value", off)):
            if t.ndim != 0:
                raise InvalidArgumentError(f"{name} must be a scalar, but got: {text(t.shape)}")
        n = int(depth)
        if n < 0:
            raise InvalidArgumentError(f"depth must be non-negative, got: {n}")
        flat = indices.reshape(-1)
        if on.dtype == object:
            out = object_array([off.item()] * (flat.size * n), (flat.size, n))
            on_value: Any = on.item()
        else:
            out, on_value = np.full((flat.size, n), off, on.dtype), on
        valid = np.flatnonzero((flat >= 0) & (flat < n))
        out[valid, flat[valid]] = on_value
        out = out.reshape(*indices.shape, n)
        return out if axis_attr == -1 else np.moveaxis(out, -1, axis_attr)

    return kernel


@register_kernel("UnravelIndex")
def _unravel_index(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, dims: Any) -> Any:
        if indices.ndim > 1:
            raise InvalidArgumentError("The indices can only be scalar or vector.")
        if dims.ndim != 1:
            raise InvalidArgumentError("The indices can only be 1-D")
        shape = ints(dims)
        if 0 in shape:
            raise InvalidArgumentError("Input dims cannot contain a dim of zero")
        if any(d < 0 for d in shape):
            raise InvalidArgumentError(f"Input dims cannot be negative. Got dims {shape}")
        if product(shape) > np.iinfo(dims.dtype).max:
            raise InvalidArgumentError(f"Input dims product is causing integer overflow: {shape}")
        if indices.size and (indices.min() < 0 or indices.max() >= product(shape)):
            raise InvalidArgumentError("index is out of bound as with dims")
        if not shape:
            return np.zeros((0, *indices.shape), indices.dtype)
        parts = np.unravel_index(indices, shape)
        return np.stack([np.asarray(p) for p in parts]).astype(indices.dtype)

    return kernel


@register_kernel(("LowerBound", "UpperBound"))
def _bound(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np
    side: Any = "left" if k.node.op == "LowerBound" else "right"

    def kernel(rows: Any, values: Any) -> Any:
        if rows.ndim != 2 or values.ndim != 2:
            raise InvalidArgumentError(
                "sorted input argument must be a matrix" if rows.ndim != 2 else "values argument must be a matrix"
            )
        if rows.shape[0] != values.shape[0]:
            raise InvalidArgumentError(
                f"Leading dim_size of both tensors must match. {rows.shape[0]} vs. {values.shape[0]}"
            )
        result = np.empty(values.shape, out)
        for i in range(rows.shape[0]):
            result[i] = np.searchsorted(rows[i], values[i], side=side)
        return result

    return kernel


def _levenshtein(a: list[Any], b: list[Any]) -> int:
    if len(a) < len(b):
        a, b = b, a
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        look()
        current = [i]
        for j, y in enumerate(each(b), 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


def _groups(indices: Any, values: Any, rank: int) -> dict[tuple[int, ...], list[Any]]:
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(listed(indices[:, : rank - 1]), each(values)):
        found.setdefault(tuple(place), []).append(value)
    return found


@register_kernel("EditDistance", pieces=True)
def _edit_distance(k: KernelBuild) -> Kernel:
    """Levenshtein distance between the innermost sequences of two sparse tensors."""
    normalize = bool(k.attr("normalize"))

    def kernel(hi: Any, hv: Any, hs: Any, ti: Any, tv: Any, ts: Any) -> Any:
        for name, i, v, s in (("hypothesis", hi, hv, hs), ("truth", ti, tv, ts)):
            if i.ndim != 2:
                raise InvalidArgumentError(f"{name}_indices should be a matrix, but got shape: {text(i.shape)}")
            if v.ndim != 1:
                raise InvalidArgumentError(f"{name}_values should be a vector, but got shape: {text(v.shape)}")
            if s.ndim != 1:
                raise InvalidArgumentError(f"{name}_shape should be a vector, but got shape: {text(s.shape)}")
            if v.shape[0] != i.shape[0]:
                raise InvalidArgumentError(
                    f"{name}_values.NumElements != {name}_indices.dim_size(0), {v.shape[0]} vs {i.shape[0]}"
                )
            if i.shape[1] != s.shape[0]:
                raise InvalidArgumentError(f"{name}_shape should have {i.shape[1]} elements, got {s.shape[0]}")
        if hs.shape != ts.shape:
            raise InvalidArgumentError(
                f"hypothesis_shape.NumElements != truth_shape.NumElements, {hs.size} vs {ts.size}"
            )
        rank = hs.shape[0]
        if rank < 1:
            raise InvalidArgumentError("truth_shape and hypothesis_shape must have at least one element")
        shape = tuple(int(max(a, b)) for a, b in zip(hs[:-1], ts[:-1]))
        if product(shape) == 0:
            raise InvalidArgumentError(f"Got output shape {text(shape)} which has 0 elements")
        strides = [product(shape[i + 1 :]) for i in range(len(shape))]
        out = np.zeros(shape, np.float32)
        truth, hypothesis = _groups(ti, tv, rank), _groups(hi, hv, rank)
        for place in each(set(truth) | set(hypothesis)):
            t, h = truth.get(place, []), hypothesis.get(place, [])
            if any(not 0 <= p < d for p, d in zip(place, shape)):
                at = sum(p * stride for p, stride in zip(place, strides))
                raise InternalError(
                    f"Got an inner product {at} which would require writing to outside of the buffer for the output "
                    f"tensor (max elements {out.size})"
                )
            if normalize:
                out[place] = _levenshtein(t, h) / len(t) if t else np.inf
            else:
                out[place] = _levenshtein(t, h)
        return out

    return kernel
