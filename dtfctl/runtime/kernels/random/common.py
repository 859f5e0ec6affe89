"""Arguments random ops share: output shapes, seeds, algorithms, bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.random.philox import (
    GuardedPhilox,
    Philox,
    normal,
    truncated_normal,
    uniform,
    uniform_full_int,
    uniform_int,
)
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.state.common import shape_text

Draw = Callable[[Philox, int, np.dtype[Any]], Any]

DRAWS: dict[str, Draw] = {
    "Uniform": uniform,
    "Normal": normal,
    "StandardNormal": normal,
    "TruncatedNormal": truncated_normal,
    "UniformFullInt": uniform_full_int,
}
_PHILOX, _THREEFRY, _AUTO = 1, 2, 3


def output_shape(tensor: Any) -> tuple[int, ...]:
    """Read the shape a shape tensor asks for.

    Raises:
        InvalidArgumentError: it is no vector, or has a negative or too large dimension.
    """
    if tensor.dtype.kind not in "iu":
        raise InvalidArgumentError(f"shape must be a vector of {{int32,int64}}, got one of {tensor.dtype}")
    if tensor.ndim != 1:
        if tensor.ndim == 0 and int(tensor) == -1:
            raise InvalidArgumentError("Cannot convert -1 to a shape")
        raise InvalidArgumentError(f"shape must be a vector of {{int32,int64}}, got shape {shape_text(tensor.shape)}")
    shape = tuple(int(d) for d in tensor)
    for d in shape:
        if d < 0:
            raise InvalidArgumentError(f"Dimension {d} must be >= 0")
    if prod(shape) >= 1 << 40:
        raise InvalidArgumentError(
            f"Shape {shape_text(shape)} has too many elements: encountered overflow when multiplying its dimensions"
        )
    return shape


def ends_with_batch(
    shape: Any, names: Sequence[str], parameters: Sequence[Any]
) -> tuple[list[Any], int, tuple[int, ...]]:
    """Parameters of distributions, broadcast against each other, which the last dimensions of an output are for.

    Returns:
        Each parameter flat, how many samples each distribution gives, and the output's shape.

    Raises:
        InvalidArgumentError: the parameters do not broadcast, or the output's shape does not end with theirs.
    """
    try:
        together = np.broadcast_arrays(*parameters)
    except ValueError:
        shapes = " vs. ".join(shape_text(p.shape) for p in parameters)
        listed = ", ".join(names) if len(names) > 2 else " and ".join(names)
        raise InvalidArgumentError(f"{listed} must have compatible batch dimensions: {shapes}") from None
    if shape.ndim != 1:
        raise InvalidArgumentError(f"Input shape should be a vector, got shape: {shape_text(shape.shape)}")
    wanted = output_shape(shape)
    batch = together[0].shape
    if len(batch) > len(wanted) or wanted[len(wanted) - len(batch) :] != batch:
        raise InvalidArgumentError("Shape passed in must end with broadcasted shape.")
    return [p.reshape(-1) for p in together], prod(wanted[: len(wanted) - len(batch)]), wanted


def generator_of(k: KernelBuild) -> GuardedPhilox:
    """Make the generator a node's `seed` and `seed2` name."""
    return GuardedPhilox(k.attr("seed", 0), k.attr("seed2", 0))


def stateless_seed(seed: Any) -> Philox:
    if seed.shape != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {shape_text(seed.shape)}")
    return Philox.from_stateless_seed(int(seed[0]), int(seed[1]))


def from_key_counter(key: Any, counter: Any, alg: Any) -> Philox:
    """Make the generator of a V2 stateless op's inputs."""
    if alg.ndim:
        raise InvalidArgumentError(f"algorithm must be of shape [], not {shape_text(alg.shape)}")
    check_algorithm(int(alg), stateless=True)
    if key.shape != (1,):
        raise InvalidArgumentError(f"key must have shape [1], not {shape_text(key.shape)}")
    if counter.ndim != 1 or counter.shape[0] < 2:
        raise InvalidArgumentError(
            "counter must be a vector with length at least 2 for the Philox algorithm, got shape "
            f"{shape_text(counter.shape)}"
        )
    return Philox(int(key[0]), int(counter[0]) | int(counter[1]) << 64)


def check_algorithm(algorithm: int, stateless: bool = False) -> None:
    if algorithm == _THREEFRY and not stateless:
        raise UnimplementedError("Non-XLA devices don't support the ThreeFry algorithm.")
    if algorithm not in (_PHILOX, _AUTO):
        raise InvalidArgumentError(f"Unsupported algorithm id: {algorithm}")


def bounds(minval: Any, maxval: Any) -> tuple[int, int]:
    """Scalars minval < maxval as ints."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        if value.ndim:
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value.shape)}")
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    return low, high


def draw_int(gen: Philox, shape: tuple[int, ...], dtype: np.dtype[Any], minval: Any, maxval: Any) -> Any:
    """Integers of `shape` in [minval, maxval); bounds are not looked at for an empty shape."""
    size = prod(shape)
    if size == 0:
        return np.zeros(shape, dtype)
    low, high = bounds(minval, maxval)
    return uniform_int(gen, size, dtype, low, high).reshape(shape)


def draw(kind: str, gen: Philox, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    size = prod(shape)
    return DRAWS[kind](gen, size, dtype).reshape(shape) if size else np.zeros(shape, dtype)
