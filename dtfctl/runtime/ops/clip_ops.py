"""Clipping of values and of gradients by their norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.array_ops.creation import ones_like
from dtfctl.runtime.ops.operands import apply_mixed


def _values(t: Any) -> Tensor:
    return t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t)


def _with_values(original: Any, values: Tensor) -> Any:
    if isinstance(original, IndexedSlices):
        return IndexedSlices(values, original.indices, original.dense_shape)
    return values


@overload
def clip_by_value(t: Tensor, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor: ...
@overload
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any: ...
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Replace elements below the minimum or above the maximum by it."""
    with name_scope(name, "clip_by_value") as scope:
        values = _values(t)
        low = apply_op("Minimum", x=values, y=clip_value_max)
        clipped = apply_op("Maximum", scope, x=low, y=clip_value_min)
        clipped.set_shape(values.shape)
        return _with_values(t, clipped)


def _sum_all(t: Tensor, axes: Any = None, keep_dims: bool = False) -> Tensor:
    if axes is None:
        axes = _axes(t)
    if isinstance(axes, int):
        axes = [axes]
    indices = axes if isinstance(axes, Tensor) else constant(axes, dtypes.int32)
    return apply_op("Sum", input=t, reduction_indices=indices, keep_dims=keep_dims)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale `t` so that its L2 norm (over `axes`) is at most `clip_norm`."""
    with name_scope(name, "clip_by_norm") as scope:
        values = _values(t)
        squared = _sum_all(apply_mixed("Mul", values, values), axes, keep_dims=True)
        positive = apply_mixed("Greater", squared, 0)
        safe = apply_op("Select", condition=positive, t=squared, e=ones_like(squared))
        norm = apply_op("Select", condition=positive, t=apply_op("Sqrt", x=safe), e=squared)
        scaled = apply_mixed("Mul", values, clip_norm)
        clipped = apply_mixed("RealDiv", scaled, apply_mixed("Maximum", norm, clip_norm))
        clipped = apply_op("Identity", scope, input=clipped)
        clipped.set_shape(values.shape)
        return _with_values(t, clipped)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor | None:
    """Compute the L2 norm of all tensors together; None entries are left out."""
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise TypeError("t_list should be a sequence")
    with name_scope(name, "global_norm"):
        halves = [apply_op("L2Loss", t=_values(t)) for t in t_list if t is not None]
        if not halves:
            return None
        total = apply_op("Sum", input=apply_op("Pack", "stack", values=halves), reduction_indices=constant([0]))
        two = constant(2.0, total.dtype)
        return apply_op("Sqrt", x=apply_mixed("Mul", total, two), name="global_norm")


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Tensor | None = None, name: str | None = None
) -> tuple[list[Any], Tensor | None]:
    """Scale all tensors by one factor so that their common norm is at most `clip_norm`; give that norm too."""
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    if norm is None:
        return list(t_list), None
    with name_scope(name, "clip_by_global_norm") as scope:
        one = constant(1.0, norm.dtype)
        smallest = apply_op("Minimum", x=apply_mixed("RealDiv", 1.0, norm), y=apply_mixed("RealDiv", one, clip_norm))
        scale = apply_mixed("Mul", clip_norm, smallest)
        # A norm that is not finite makes all gradients NaN: inf - inf is, and adds nothing otherwise.
        scale = apply_mixed("AddV2", scale, apply_mixed("Sub", norm, norm))
        out: list[Any] = []
        for i, t in enumerate(t_list):
            if t is None:
                out.append(None)
                continue
            values = _values(t)
            factor = scale if scale.dtype is values.dtype else apply_op("Cast", x=scale, DstT=values.dtype)
            with context.get_default_graph().colocate_with(values.op):
                clipped = apply_op("Identity", f"{scope}_{i}", input=apply_mixed("Mul", values, factor))
            out.append(_with_values(t, clipped))
        return out, norm


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """Scale `t` so that its L2 norm divided by its size is at most `clip_norm`."""
    with name_scope(name, "clip_by_average_norm") as scope:
        values = _values(t)
        size = apply_op("Cast", x=apply_op("Size", input=values), DstT=values.dtype)
        inverse = apply_op("Mul", x=size, y=apply_op("Rsqrt", x=_sum_all(apply_op("Mul", x=values, y=values))))
        limit = convert_to_tensor(clip_norm, values.dtype)
        one = apply_op("RealDiv", x=constant(1.0, values.dtype), y=limit)
        least = apply_op("Minimum", x=inverse, y=one)
        return apply_op("Mul", scope, x=apply_op("Mul", x=values, y=limit), y=least)


def _axes(t: Tensor) -> Any:
    rank = t.shape.rank
    if rank is None:
        return apply_op("Range", start=0, limit=apply_op("Rank", input=t), delta=1)
    return constant(list(range(rank)), dtypes.int32)
