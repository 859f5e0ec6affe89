"""Random ops whose state is a resource variable, the layer under tf.random.Generator (stateful_random_ops).

The state is an int64 vector: the counter's lower and upper half, then the key. The first versions of the ops keep the
algorithm's number in front.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.random.common import bounds, check_algorithm, draw, output_shape
from dtfctl.runtime.kernels.random.philox import RESERVED_PER_OUTPUT, Philox, uniform_int
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text, variable_finder
from dtfctl.runtime.kernels.variable import Variable

_WORDS = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)
_HALF = 0xFFFFFFFFFFFFFFFF
_STATE = 3


def _scalar(value: Any, position: int) -> int:
    if value.ndim:
        raise InvalidArgumentError(f"input {position} (0-based) must have shape [], not {shape_text(value.shape)}")
    return int(value)


def take_state(variable: Variable, blocks: int, algorithm: int | None) -> tuple[Philox, Any]:
    """Move the state on by `blocks`; gives the position it had and the old state vector."""
    with variable.lock:
        state = variable.read()
        if variable.dtype is not dtypes.int64:
            raise InvalidArgumentError(f"dtype of RNG state variable must be int64, not {WIRE_NAME[variable.dtype]}")
        if state.ndim != 1:
            raise InvalidArgumentError(f"RNG state must have one and only one dimension, not {state.ndim}")
        skip = 0
        if algorithm is None:
            if state.size < 1:
                raise InvalidArgumentError("Size of tensor must be at least 1")
            algorithm, skip = int(state[0]), 1
        check_algorithm(algorithm)
        if state.size < skip + _STATE:
            raise InvalidArgumentError(
                f"For the Philox algorithm, the size of state must be at least {skip + _STATE}; got {state.size}"
            )
        low, high, key = (int(v) & _HALF for v in state[skip : skip + _STATE])
        gen = Philox(key, low | high << 64)
        after = gen.skip(blocks).counter
        updated = state.copy()
        updated[skip : skip + 2] = np.array([after & _HALF, after >> 64], np.uint64).view(np.int64)
        variable.assign(updated)
    return gen, state


def _floats(kind: str, version: int) -> Callable[[KernelBuild], Kernel]:
    def factory(k: KernelBuild) -> Kernel:
        find, dtype = variable_finder(k), k.dtype("dtype").np

        def fill(resource: Any, algorithm: int | None, shape: Any) -> Any:
            wanted = output_shape(shape)
            gen, _ = take_state(find(resource), prod(wanted) * RESERVED_PER_OUTPUT, algorithm)
            return draw(kind, gen, wanted, dtype)

        if version == 1:
            return lambda resource, shape: fill(resource, None, shape)
        return lambda resource, algorithm, shape: fill(resource, _scalar(algorithm, 1), shape)

    return factory


register_kernel("StatefulStandardNormal", dtype=FLOATS)(_floats("Normal", 1))
register_kernel("StatefulStandardNormalV2", dtype=FLOATS)(_floats("Normal", 2))
register_kernel("StatefulTruncatedNormal", dtype=FLOATS)(_floats("TruncatedNormal", 2))
register_kernel("StatefulUniform", dtype=FLOATS)(_floats("Uniform", 2))
register_kernel("StatefulUniformFullInt", dtype=_WORDS)(_floats("UniformFullInt", 2))


@register_kernel("StatefulUniformInt", dtype=_WORDS)
def stateful_uniform_int(k: KernelBuild) -> Kernel:
    find, dtype = variable_finder(k), k.dtype("dtype").np

    def kernel(resource: Any, algorithm: Any, shape: Any, minval: Any, maxval: Any) -> Any:
        low, high = bounds(minval, maxval)
        wanted = output_shape(shape)
        gen, _ = take_state(find(resource), prod(wanted) * RESERVED_PER_OUTPUT, _scalar(algorithm, 1))
        return uniform_int(gen, prod(wanted), dtype, low, high).reshape(wanted)

    return kernel


@register_kernel("RngSkip")
def rng_skip(k: KernelBuild) -> Kernel:
    find = variable_finder(k)

    def kernel(resource: Any, algorithm: Any, delta: Any) -> None:
        take_state(find(resource), (_scalar(delta, 2) & _HALF) * RESERVED_PER_OUTPUT & _HALF, _scalar(algorithm, 1))

    return kernel


@register_kernel("RngReadAndSkip")
def rng_read_and_skip(k: KernelBuild) -> Kernel:
    find = variable_finder(k)

    def kernel(resource: Any, algorithm: Any, delta: Any) -> Any:
        blocks = (_scalar(delta, 2) & _HALF) * RESERVED_PER_OUTPUT & _HALF
        _, state = take_state(find(resource), blocks, _scalar(algorithm, 1))
        return state[:_STATE]

    return kernel
