"""Stateless random ops: the same seed, or key and counter, always gives the same numbers (stateless_random_ops)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.kernels.random.common import draw, draw_int, from_key_counter, output_shape, stateless_seed
from dtfctl.runtime.kernels.random.philox import uniform_full_int
from dtfctl.runtime.kernels.random.stateful_seeds import shuffle_order
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel

_WORDS = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)
_KINDS = ("Uniform", "Normal", "TruncatedNormal", "UniformFullInt")


def _op(kind: str, version: str = "") -> str:
    return f"Stateless{kind}{version}" if kind == "TruncatedNormal" else f"StatelessRandom{kind}{version}"


def _kind(op: str) -> str:
    return next(kind for kind in reversed(_KINDS) if kind in op)


def _v1(k: KernelBuild) -> Kernel:
    kind, dtype = _kind(k.node.op), k.dtype("dtype").np
    return lambda shape, seed: draw(kind, stateless_seed(seed), output_shape(shape), dtype)


def _v2(k: KernelBuild) -> Kernel:
    kind, dtype = _kind(k.node.op), k.dtype("dtype").np

    def kernel(shape: Any, key: Any, counter: Any, alg: Any) -> Any:
        return draw(kind, from_key_counter(key, counter, alg), output_shape(shape), dtype)

    return kernel


for _name in _KINDS:
    _types = _WORDS if _name == "UniformFullInt" else FLOATS
    register_kernel(_op(_name), dtype=_types)(_v1)
    register_kernel(_op(_name, "V2"), dtype=_types)(_v2)


@register_kernel("StatelessRandomUniformInt", dtype=_WORDS)
def stateless_uniform_int(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np
    return lambda shape, seed, low, high: draw_int(stateless_seed(seed), output_shape(shape), dtype, low, high)


@register_kernel("StatelessRandomUniformIntV2", dtype=_WORDS)
def stateless_uniform_int_v2(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np

    def kernel(shape: Any, key: Any, counter: Any, alg: Any, low: Any, high: Any) -> Any:
        return draw_int(from_key_counter(key, counter, alg), output_shape(shape), dtype, low, high)

    return kernel


@register_kernel("StatelessShuffle")
def stateless_shuffle(k: KernelBuild) -> Kernel:
    def kernel(value: Any, key: Any, counter: Any, alg: Any) -> Any:
        gen = from_key_counter(key, counter, alg)
        if value.size <= 1 or value.shape[0] <= 1:
            return value
        return value[shuffle_order(gen, value.shape[0])]

    return kernel


def _key_counter(seed: Any) -> tuple[Any, Any]:
    gen = stateless_seed(seed)
    halves = [gen.counter & 0xFFFFFFFFFFFFFFFF, gen.counter >> 64]
    return np.array([gen.key], np.uint64), np.array(halves, np.uint64)


@register_kernel("StatelessRandomGetKeyCounter")
def get_key_counter(k: KernelBuild) -> Kernel:
    return _key_counter


@register_kernel("StatelessRandomGetKeyCounterAlg")
def get_key_counter_alg(k: KernelBuild) -> Kernel:
    return lambda seed: (*_key_counter(seed), np.int32(1))


@register_kernel("StatelessRandomGetAlg")
def get_alg(k: KernelBuild) -> Kernel:
    return lambda: np.int32(1)


@register_kernel("NonDeterministicInts", dtype=_WORDS)
def non_deterministic_ints(k: KernelBuild) -> Kernel:
    import secrets

    from dtfctl.runtime.kernels.random.philox import Philox

    dtype = k.dtype("dtype").np

    def kernel(shape: Any) -> Any:
        wanted = output_shape(shape)
        gen = Philox(secrets.randbits(64), secrets.randbits(128))
        return uniform_full_int(gen, int(np.prod(wanted)), dtype).reshape(wanted)

    return kernel
