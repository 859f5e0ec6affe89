"""RandomIndexShuffle: where an index goes in a pseudorandom permutation, without making the permutation.

The permutation is a Simon block cipher (Beaulieu et al., 2013) over just enough bits, walked until it lands in range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.pieces import array_of, each, listed
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_CONSTANT = 0xFFFFFFFC
_SEQUENCE = 0x7369F885192C0EF5
_FEWEST_BITS = 16
# Among fewer, sixteen steps and more lead out of range before one that is in it.
_WALKS_FAR = 1 << (_FEWEST_BITS - 4)


def _left(x: Any, by: int, width: int) -> Any:
    return ((x << by) | (x >> (width - by))) & ((1 << width) - 1)


def _right(x: Any, by: int, width: int) -> Any:
    return _left(x, width - by, width)


def _round_keys(key: Sequence[int], rounds: int, width: int) -> list[int]:
    mask = (1 << width) - 1
    keys, bits = [part & mask for part in key], _SEQUENCE & mask
    for i in range(3, rounds):
        mixed = _right(keys[i - 1], 3, width) ^ _right(keys[i - 1], 4, width)
        keys.append((_CONSTANT & mask) ^ (bits & 1) ^ keys[i - 3] ^ mixed)
        bits >>= 1
    return keys


def _encrypt(value: Any, keys: list[int], width: int) -> Any:
    """Encrypt an int, or each of an array."""

    def mix(x: Any) -> Any:
        return (_left(x, 1, width) & _left(x, 8, width)) ^ _left(x, 2, width)

    mask = (1 << width) - 1
    high, low = (value >> width) & mask, value & mask
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        high ^= mix(low) ^ first
        low ^= mix(high) ^ second
    return (high << width) | low


@lru_cache(16)
def _all_of_the_fewest_bits(key: tuple[int, ...], rounds: int) -> list[int]:
    width = _FEWEST_BITS // 2
    values = np.arange(1 << _FEWEST_BITS, dtype=np.uint32)
    ends: list[int] = _encrypt(values, _round_keys(key, rounds, width), width).tolist()
    return ends


def index_shuffle(index: int, key: Sequence[int], max_index: int, rounds: int) -> int:
    """Find where `index` stands among [0, max_index] when shuffled under `key`, three 32-bit numbers."""
    if max_index == 0:
        return 0
    bits = math.ceil(math.log2(max_index))
    width = max(bits + bits % 2, _FEWEST_BITS) // 2
    if max_index < _WALKS_FAR:
        ends = _all_of_the_fewest_bits(tuple(key), rounds)
        while (index := ends[index]) > max_index:
            pass
        return index
    keys = _round_keys(key, rounds, width)
    while True:
        index = _encrypt(index, keys, width)
        if index <= max_index:
            return index


@register_kernel("RandomIndexShuffle", pieces=True, dtype=(dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64))
def random_index_shuffle(k: KernelBuild) -> Kernel:
    rounds, dtype = int(k.attr("rounds")), k.dtype("dtype").np
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be even and at least 4, got {rounds}", k.node.name)

    def kernel(index: Any, seed: Any, max_index: Any) -> Any:
        count = max(index.size, max_index.size, seed.size // 3)
        if index.shape not in ((), (count,)):
            raise InvalidArgumentError(f"Index must be a scalar or vector, got shape {text(index.shape)}")
        if seed.shape not in ((3,), (count, 3)):
            raise InvalidArgumentError(
                f"Seed must be a vector of size [3] or a matrix of size [{count}, 3] but got {text(seed.shape)}."
            )
        if max_index.shape not in ((), (count,)):
            raise InvalidArgumentError(
                f"Maxval must be a scalar or a vector of the same size as index but got {text(max_index.shape)}"
            )
        indices, most = (list(each(np.broadcast_to(x, (count,)))) for x in (index, max_index))
        keys = [[part & 0xFFFFFFFF for part in row] for row in listed(np.broadcast_to(seed, (count, 3)))]
        for i, m in each(zip(indices, most, strict=True)):
            if i < 0:
                raise InvalidArgumentError(f"index must be >= 0 but was {i}")
            if m < 0:
                raise InvalidArgumentError(f"max_index must be >= 0 but was {m}")
            if m < i:
                raise InvalidArgumentError(f"max_index must be >= index, but {m} < {i}")
        out = [index_shuffle(i, key, m, rounds) for i, key, m in each(zip(indices, keys, most, strict=True))]
        alone = index.ndim == max_index.ndim == 0 and seed.ndim == 1
        return array_of(out, dtype, () if alone else (count,))

    return kernel
