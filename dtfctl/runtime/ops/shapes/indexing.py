"""What shapes, kernels and gradients share: strided slices as numpy indices, and the axes broadcasting added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError

Shape = tuple[int, ...]
Index = tuple[Any, ...]


def _text(shape: Iterable[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _dense_spec(rank: int, n: int, ellipsis: int, new_axis: int) -> list[tuple[str, int, int]]:
    """Find where each part of the result is from: ("new", -1, -1) or ("dim", input dimension, sparse index or -1)."""
    if ellipsis & (ellipsis - 1):
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
    plan: list[tuple[str, int, int]] = []
    full = 0
    seen = False
    for i in range(n):
        if ellipsis >> i & 1:
            seen = True
            after = sum(1 for j in range(i + 1, n) if not new_axis >> j & 1)
            until = max(full, rank - after)
            while full < until:
                plan.append(("dim", full, -1))
                full += 1
        elif new_axis >> i & 1:
            plan.append(("new", -1, -1))
        else:
            if full >= rank:
                raise InvalidArgumentError(f"Index out of range using input dim {full}; input has only {rank} dims")
            plan.append(("dim", full, i))
            full += 1
    if not seen:
        plan += [("dim", d, -1) for d in range(full, rank)]
    return plan


def strided_index(
    shape: Shape,
    begin: Shape,
    end: Shape,
    strides: Shape,
    masks: tuple[int, int, int, int, int],
) -> Index:
    """Build the numpy index that means a StridedSlice of a tensor of `shape`.

    Args:
        masks: begin, end, ellipsis, new axis, shrink axis.

    Raises:
        InvalidArgumentError: a zero stride, an index out of bounds, more indices than dimensions.
    """
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    index: list[Any] = []
    for kind, dim, i in _dense_spec(len(shape), len(begin), ellipsis_mask, new_axis_mask):
        if kind == "new":
            index.append(None)
            continue
        if i < 0:
            index.append(slice(None))
            continue
        size, stride, first, last = shape[dim], strides[i], begin[i], end[i]
        if stride == 0:
            raise InvalidArgumentError(f"strides[{i}] must be non-zero")
        if shrink_mask >> i & 1:
            if stride <= 0:
                raise InvalidArgumentError("only stride 1 allowed on non-range indexing.")
            at = first + size if first < 0 else first
            if not 0 <= at < size:
                raise InvalidArgumentError(f"slice index {at} of dimension {dim} out of bounds.")
            index.append(at)
            continue
        low, high = (0, size) if stride > 0 else (-1, size - 1)
        b = (low if stride > 0 else high) if begin_mask >> i & 1 else min(max(_forward(first, size), low), high)
        e = (high if stride > 0 else low) if end_mask >> i & 1 else min(max(_forward(last, size), low), high)
        if (e - b) * stride <= 0:
            index.append(slice(0, 0))
        else:
            index.append(slice(b, None if e < 0 else e, stride))
    return (*index, ...)


def _forward(i: int, size: int) -> int:
    return i + size if i < 0 else i


def broadcast_gradient_axes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Find the axes over which to sum the gradient of each broadcast argument (TensorFlow's, 1 vs 1 included).

    Raises:
        InvalidArgumentError: the shapes do not broadcast.
    """
    if a == b:
        return [], []
    n = max(len(a), len(b))
    x, y = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    r0: list[int] = []
    r1: list[int] = []
    for i, (p, q) in enumerate(zip(x, y)):
        if p == q:
            if p == 1:
                r0.append(i)
                r1.append(i)
        elif p == 1:
            r0.append(i)
        elif q == 1:
            r1.append(i)
        else:
            raise InvalidArgumentError(f"Incompatible shapes: {_text(a)} vs. {_text(b)}")
    return r0, r1
