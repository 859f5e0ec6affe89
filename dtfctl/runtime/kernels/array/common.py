"""What many kernels need: shapes as tuples and as TensorFlow prints them, checks, arrays from items."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_scalar

Array = Any
Shape = tuple[int, ...]


def ints(tensor: Array) -> Shape:
    """List the elements of an integer tensor as Python ints."""
    return tuple(np.asarray(tensor).reshape(-1).tolist())


def text(shape: Iterable[int]) -> str:
    """Write a shape as TensorFlow prints it: [2,3]."""
    return f"[{','.join(map(str, shape))}]"


def product(shape: Iterable[int]) -> int:
    return math.prod(shape)


def require(condition: Any, message: str) -> None:
    """Raise InvalidArgumentError unless the condition holds (for checks whose message costs nothing to build)."""
    if not condition:
        raise InvalidArgumentError(message)


def as_array(value: Any, dtype: Any = object) -> Array:
    """Make an array again of an item that numpy took out of a 0-d object array."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if dtype is object:
        return object_scalar(value)
    return np.asarray(value, dtype) if isinstance(value, (bool, int, float, complex)) else value


def shape_of(tensor: Array, what: str = "shape") -> Shape:
    """Read the dimensions of a shape tensor.

    Raises:
        InvalidArgumentError: it is no vector or holds a negative dimension.
    """
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"{what} must be a vector, got shape {text(tensor.shape)}")
    dims = tuple(tensor.tolist())
    for d in dims:
        if d < 0:
            raise InvalidArgumentError(f"Dimension {d} must be >= 0")
    check_size(dims)
    return dims


def check_size(dims: Sequence[int]) -> None:
    """Raise InvalidArgumentError when a tensor of these dimensions cannot exist."""
    size = 1
    for d in dims:
        size *= d
        if size >= 2**63:
            raise InvalidArgumentError(f"Encountered overflow when multiplying {text(dims)}, result: -1")


def scalar(tensor: Array, what: str) -> Any:
    """Read the one item of a 0-d tensor.

    Raises:
        InvalidArgumentError: the tensor is of another rank.
    """
    if tensor.ndim != 0:
        raise InvalidArgumentError(f"{what} must be a scalar, but received tensor of shape: {text(tensor.shape)}")
    return tensor.item()


def vector(tensor: Array, what: str) -> Shape:
    """Read the items of an integer vector as Python ints.

    Raises:
        InvalidArgumentError: the tensor is of another rank.
    """
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"{what} must be a vector, but received tensor of shape: {text(tensor.shape)}")
    return ints(tensor)


def axis_of(axis: int, rank: int, message: str = "") -> int:
    """Make a possibly negative axis nonnegative.

    Raises:
        InvalidArgumentError: it is outside [-rank, rank); `message` may hold {axis} and {rank}.
    """
    if not -rank <= axis < rank:
        form = message or "Expected dimension in the range [{low}, {rank}), but got {axis}"
        raise InvalidArgumentError(form.format(axis=axis, rank=rank, low=-rank))
    return axis + rank if axis < 0 else axis


def broadcast_shape(a: Shape, b: Shape) -> Shape:
    """Find the shape two shapes broadcast to.

    Raises:
        InvalidArgumentError: they do not.
    """
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise InvalidArgumentError(f"Incompatible shapes: {text(a)} vs. {text(b)}") from None


def check_indices(indices: Array, limit: int, name: str = "indices") -> None:
    """Raise InvalidArgumentError naming the first index outside [0, limit)."""
    if indices.size == 0:
        return
    if indices.min() < 0 or indices.max() >= limit:
        flat = indices.reshape(-1)
        where = int(np.flatnonzero((flat < 0) | (flat >= limit))[0])
        position = ",".join(map(str, np.unravel_index(where, indices.shape))) if indices.ndim else ""
        shown = f"[{position}]" if position else ""
        raise InvalidArgumentError(f"{name}{shown} = {int(flat[where])} is not in [0, {limit})")


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function compute half and bfloat16 arguments in float32, and round its result back."""

    def kernel(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        return function(*(a.astype(np.float32) for a in arrays)).astype(dtype)

    return kernel


def is_low_precision(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type is float16, bfloat16 or one of the float8 types."""
    return dtype.itemsize <= 2 and dtype.kind in "fV"
