"""Random ops with seeds as attributes: each run goes on where the last one stopped (TensorFlow's random_op)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.promises import LEAVES_STATE
from dtfctl.runtime.kernels.random.common import bounds, draw, generator_of, output_shape
from dtfctl.runtime.kernels.random.philox import Philox, WordStream, uniform_int
from dtfctl.runtime.kernels.registry import FLOATS, INDICES, Kernel, KernelBuild, register_kernel

_KIND = {"RandomUniform": "Uniform", "RandomStandardNormal": "Normal", "TruncatedNormal": "TruncatedNormal"}


@register_kernel(tuple(_KIND), promises=LEAVES_STATE, dtype=FLOATS)
def random_floats(k: KernelBuild) -> Kernel:
    generator, kind, dtype = generator_of(k), _KIND[k.node.op], k.dtype("dtype").np

    def kernel(shape: Any) -> Any:
        wanted = output_shape(shape)
        return draw(kind, generator.reserve_outputs(prod(wanted)), wanted, dtype)

    return kernel


@register_kernel("RandomUniformInt", promises=LEAVES_STATE, Tout=INDICES)
def random_uniform_int(k: KernelBuild) -> Kernel:
    generator, dtype = generator_of(k), k.dtype("Tout").np

    def kernel(shape: Any, minval: Any, maxval: Any) -> Any:
        for name, value in (("minval", minval), ("maxval", maxval)):
            if value.ndim:
                raise InvalidArgumentError(f"{name} must be 0-D, got shape {list(value.shape)}")
        wanted = output_shape(shape)
        if 0 in wanted:
            return np.zeros(wanted, dtype)
        low, high = bounds(minval, maxval)
        gen = generator.reserve_outputs(prod(wanted))
        return uniform_int(gen, prod(wanted), dtype, low, high).reshape(wanted)

    return kernel


def shuffle_order(gen: Philox, size: int) -> Any:
    """TensorFlow's Fisher-Yates: a permutation of range(size) made with size - 1 words."""
    words = gen.words((size + 2) // 4 + 1).reshape(-1)[: size - 1].astype(np.int64)
    steps = (words % np.arange(size, 1, -1)).tolist()
    order = list(range(size))
    for i, step in enumerate(steps):
        j = i + step
        order[i], order[j] = order[j], order[i]
    return order


@register_kernel("RandomShuffle")
def random_shuffle(k: KernelBuild) -> Kernel:
    generator = generator_of(k)

    def kernel(value: Any) -> Any:
        if value.size <= 1 or value.shape[0] <= 1:
            return value
        size = value.shape[0]
        return value[shuffle_order(generator.reserve_words(size - 1), size)]

    return kernel


__all__ = ["WordStream", "random_floats", "random_shuffle", "random_uniform_int", "shuffle_order"]
