"""Ops about shapes: asking for, changing and broadcasting them, and tensors filled with one value."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import broadcast_shape, check_size, ints, product, shape_of, text
from dtfctl.runtime.kernels.promises import LIKE_FIRST, SHAPES, Promises, ShapeFrom
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.ops.shapes.indexing import broadcast_gradient_axes


def _check_fits(n: int, dtype: np.dtype[Any], what: str) -> None:
    if n > np.iinfo(dtype).max:
        raise InvalidArgumentError(f"{what} output was {dtype.name} but value {n} does not fit")


_OF_SHAPES = Promises(lets_go=True, shape_from=SHAPES, of_shapes=True)


@register_kernel("Shape", devices=CPU_GPU, host_outputs=("output",), promises=_OF_SHAPES)
def _shape(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np
    return lambda x: np.array(x.shape, out)


@register_kernel("ShapeN", devices=CPU_GPU, host_outputs=("output",), promises=_OF_SHAPES)
def _shape_n(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np
    return lambda *xs: [np.array(x.shape, out) for x in xs]


@register_kernel("Size", devices=CPU_GPU, host_outputs=("output",), promises=_OF_SHAPES)
def _size(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np

    def kernel(x: Any) -> Any:
        _check_fits(x.size, out, "Size")
        return np.array(x.size, out)

    return kernel


@register_kernel("Rank", devices=CPU_GPU, host_outputs=("output",), promises=_OF_SHAPES)
def _rank(k: KernelBuild) -> Kernel:
    return lambda x: np.array(x.ndim, np.int32)


def _inferred(shape: tuple[int, ...], dims: list[int], unknown: int) -> int:
    """Infer the unknown size of an empty tensor: what is left when zeros on both sides are not counted."""
    have = product(d for d in shape if d)
    want = product(d for i, d in enumerate(dims) if d and i != unknown)
    return have // want if want and have % want == 0 else 0


def _view(*shape_values: str) -> Promises:
    return Promises(shape_from=ShapeFrom(shape_values), is_view=True)


# numpy's limit; TensorFlow's is 253.
MAX_RANK = 64


@register_kernel("Reshape", devices=CPU_GPU, host_inputs=("shape",), promises=_view("shape"))
def _reshape(k: KernelBuild) -> Kernel:
    def kernel(x: Any, shape: Any) -> Any:
        dims = shape.reshape(-1).tolist()  # a scalar counts as a vector, as in graphs of old
        if shape.ndim > 1:
            raise InvalidArgumentError(f"sizes input must be 1-D, not {text(shape.shape)}")
        if len(dims) > MAX_RANK:
            raise InvalidArgumentError(f"too many dimensions: must be <= {MAX_RANK}, but received {len(dims)}")
        unknown = -1
        known = 1
        for i, d in enumerate(dims):
            if d == -1:
                if unknown != -1:
                    raise InvalidArgumentError(f"Only one input size may be -1, not both {unknown} and {i}")
                unknown = i
            elif d < 0:
                raise InvalidArgumentError(f"Size {i} must be non-negative, not {d}")
            else:
                known *= d
        if unknown != -1:
            if known == 0:
                if x.size == 0:
                    dims[unknown] = _inferred(x.shape, dims, unknown)
                    return x.reshape(dims)
                raise InvalidArgumentError(
                    "reshape cannot infer the missing input size for an empty tensor unless all specified input "
                    "sizes are non-zero"
                )
            if x.size % known:
                raise InvalidArgumentError(
                    f"Input to reshape is a tensor with {x.size} values, but the requested shape requires a multiple "
                    f"of {known}"
                )
            dims[unknown] = x.size // known
        elif known != x.size:
            raise InvalidArgumentError(
                f"Input to reshape is a tensor with {x.size} values, but the requested shape has {known}"
            )
        return x.reshape(dims)

    return kernel


@register_kernel("Squeeze", devices=CPU_GPU, promises=_view())
def _squeeze(k: KernelBuild) -> Kernel:
    chosen = tuple(k.attr("squeeze_dims") or ())

    def kernel(x: Any) -> Any:
        if not chosen:
            return x.reshape([d for d in x.shape if d != 1])
        drop = set()
        for axis in chosen:
            if not -x.ndim <= axis < x.ndim:
                raise InvalidArgumentError(f"Tried to squeeze dim index {axis} for tensor with {x.ndim} dimensions.")
            axis %= x.ndim
            if x.shape[axis] != 1:
                raise InvalidArgumentError(
                    f"Can not squeeze dim[{axis}], expected a dimension of 1, got {x.shape[axis]}"
                )
            drop.add(axis)
        return x.reshape([d for i, d in enumerate(x.shape) if i not in drop])

    return kernel


@register_kernel("ExpandDims", devices=CPU_GPU, host_inputs=("dim",), promises=_view("dim"))
def _expand_dims(k: KernelBuild) -> Kernel:
    def kernel(x: Any, dim: Any) -> Any:
        if dim.size != 1:
            raise InvalidArgumentError("'dim' must be a tensor with a single value")
        axis = int(dim.reshape(()))
        if not -1 - x.ndim <= axis <= x.ndim:
            raise InvalidArgumentError(f"Tried to expand dim index {axis} for tensor with {x.ndim} dimensions.")
        axis = axis + x.ndim + 1 if axis < 0 else axis
        return x.reshape(*x.shape[:axis], 1, *x.shape[axis:])

    return kernel


@register_kernel("BroadcastTo", devices=CPU_GPU, host_inputs=("shape",))
def _broadcast_to(k: KernelBuild) -> Kernel:
    def kernel(x: Any, shape: Any) -> Any:
        target = ints(shape)
        if x.shape == target:
            return x
        check_size(target)
        if x.ndim > len(target):
            raise InvalidArgumentError(
                f"Rank of input ({x.ndim}) must be no greater than rank of output shape ({len(target)})."
            )
        try:
            return k.xp.broadcast_to(x, target).copy()
        except ValueError:
            raise InvalidArgumentError(
                f"Unable to broadcast tensor of shape {text(x.shape)} to tensor of shape {text(target)}"
            ) from None

    return kernel


@register_kernel("BroadcastArgs")
def _broadcast_args(k: KernelBuild) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        for i, s in enumerate((a, b)):
            if s.ndim != 1:
                raise InvalidArgumentError(f"In[{i}] must be a vector.{text(s.shape)}")
        return np.array(broadcast_shape(ints(a), ints(b)), a.dtype)

    return kernel


@register_kernel("BroadcastGradientArgs", devices=CPU_GPU, host_inputs=("s0", "s1"), host_outputs=("r0", "r1"))
def _broadcast_gradient_args(k: KernelBuild) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        for i, s in enumerate((a, b)):
            if s.ndim != 1:
                raise InvalidArgumentError(f"In[{i}] must be a vector.{text(s.shape)}")
        r0, r1 = broadcast_gradient_axes(tuple(a.tolist()), tuple(b.tolist()))
        return np.array(r0, a.dtype), np.array(r1, a.dtype)

    return kernel


@register_kernel("Fill", devices=CPU_GPU, host_inputs=("dims",))
def _fill(k: KernelBuild) -> Kernel:
    is_object = k.dtype("T").is_object

    def kernel(dims: Any, value: Any) -> Any:
        if dims.ndim > 1:
            raise InvalidArgumentError(f"dims must be a vector, got shape {text(dims.shape)}")
        if value.shape not in ((), (1,)):
            raise InvalidArgumentError(f"value must be a scalar, got shape {text(value.shape)}")
        shape = ints(dims)
        value = value.reshape(())
        for d in shape:
            if d < 0:
                raise InvalidArgumentError(f"Dimension {d} must be >= 0")
        check_size(shape)
        if is_object:
            return object_array([value.item()] * product(shape), shape)
        return k.xp.full(shape, value, value.dtype)

    return kernel


def _zero_items(k: KernelBuild, x: Any) -> Any:
    if k.dtype("T") is dtypes.string:
        return object_array([b""] * x.size, x.shape)
    out = np.empty(x.shape, object)
    for position in np.ndindex(x.shape):
        zeros = getattr(x[position], "zeros_like_variant", None)
        if zeros is None:
            raise InvalidArgumentError(f"ZerosLike of a {type(x[position]).__name__} is not supported")
        out[position] = zeros()
    return out


@register_kernel("ZerosLike", devices=CPU_GPU, promises=LIKE_FIRST)
def _zeros_like(k: KernelBuild) -> Kernel:
    if k.dtype("T").is_object:
        return lambda x: _zero_items(k, x)
    xp = k.xp
    return lambda x: xp.zeros(x.shape, x.dtype)


@register_kernel("OnesLike", devices=CPU_GPU, promises=LIKE_FIRST)
def _ones_like(k: KernelBuild) -> Kernel:
    xp = k.xp
    return lambda x: xp.ones(x.shape, x.dtype)


@register_kernel("Empty", devices=CPU_GPU, host_inputs=("shape",))
def _empty(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype")

    def kernel(shape: Any) -> Any:
        dims = shape_of(shape)
        if dtype.is_object:
            return object_array([b""] * product(dims), dims)
        return k.xp.zeros(dims, dtype.np)

    return kernel
