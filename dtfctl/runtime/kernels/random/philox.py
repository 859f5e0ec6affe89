"""Philox 4x32-10 (Salmon et al. 2011) and the distributions drawn from it, laid out as TensorFlow lays them out.

A generator is a 128-bit counter and a 64-bit key; each counter value gives one block of four 32-bit words.
Distributions map blocks to groups of outputs, so any output can be computed by itself: everything here is vectorised
over blocks.
Float results follow TensorFlow bit for bit up to the last bit of log, sin and cos.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = Any

_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLY_A, _MULTIPLY_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_A, _WEYL_B = 0x9E3779B9, 0xBB67AE85
_SHIFT = np.uint64(32)
# Blocks computed together; the working set of ten rounds then stays in the second-level cache.
_CHUNK = 1 << 13
_MASK128 = (1 << 128) - 1

# TensorFlow reserves this many samples for each output of a distribution that draws a varying number.
RESERVED_PER_OUTPUT = 256
_TRUNCATE = 2.0


@dataclass(frozen=True)
class Philox:
    """A position in a stream.

    Attributes:
        key: 64 bits.
        counter: 128 bits; the next block's.
    """

    key: int
    counter: int

    @classmethod
    def from_seeds(cls, seed: int, seed2: int) -> Philox:
        """TensorFlow's generator for the attributes `seed` and `seed2`."""
        return cls(seed & 0xFFFFFFFFFFFFFFFF, (seed2 & 0xFFFFFFFFFFFFFFFF) << 64)

    @classmethod
    def from_stateless_seed(cls, seed0: int, seed1: int) -> Philox:
        """Make the generator of a stateless op's two-element seed: the seed is scrambled by the cipher itself."""
        counter = (seed0 & 0xFFFFFFFFFFFFFFFF) | (seed1 & 0xFFFFFFFFFFFFFFFF) << 64
        words = [int(w) for w in cls(0x02461E293EC8F720, counter).words(1)[0]]
        return cls(words[0] | words[1] << 32, (words[2] | words[3] << 32) << 64)

    def skip(self, blocks: int) -> Philox:
        return Philox(self.key, (self.counter + blocks) & _MASK128)

    def words(self, count: int) -> Array:
        """Compute the next `count` blocks: uint32 (count, 4)."""
        return self.words_at(np.arange(count, dtype=np.uint64))

    def words_at(self, offsets: Array) -> Array:
        """Blocks at the given distances from this position: uint32 (n, 4)."""
        out = np.empty((offsets.size, 4), np.uint32)
        low, high = np.uint64(self.counter & 0xFFFFFFFFFFFFFFFF), self.counter >> 64
        with np.errstate(over="ignore"):
            for begin in range(0, offsets.size, _CHUNK):
                part = offsets[begin : begin + _CHUNK]
                lower = part + low
                carried = lower < low
                c0, c1 = lower & _MASK, lower >> _SHIFT
                c2 = np.full(part.size, high & 0xFFFFFFFF, np.uint64)
                c3 = np.full(part.size, high >> 32, np.uint64)
                if carried.any():
                    above = (high + 1) & 0xFFFFFFFFFFFFFFFF
                    c2[carried], c3[carried] = above & 0xFFFFFFFF, above >> 32
                _rounds(c0, c1, c2, c3, self.key, out[begin : begin + part.size])
        return out


def _rounds(c0: Array, c1: Array, c2: Array, c3: Array, key: int, out: Array) -> None:
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = c0 * _MULTIPLY_A
        p1 = c2 * _MULTIPLY_B
        np.right_shift(p1, _SHIFT, out=c0)
        c0 ^= c1
        c0 ^= np.uint64(k0)
        np.right_shift(p0, _SHIFT, out=c2)
        c2 ^= c3
        c2 ^= np.uint64(k1)
        np.bitwise_and(p1, _MASK, out=c1)
        np.bitwise_and(p0, _MASK, out=c3)
        k0, k1 = (k0 + _WEYL_A) & 0xFFFFFFFF, (k1 + _WEYL_B) & 0xFFFFFFFF
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = c0, c1, c2, c3


class GuardedPhilox:
    """The generator of a stateful random op: each run takes its share of the stream and moves on."""

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            # Nothing was asked for, so runs must differ: take entropy from the system.
            import secrets

            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self._lock = threading.Lock()
        self._next = Philox.from_seeds(seed, seed2)

    def reserve(self, blocks: int) -> Philox:
        """Take the current position; the next caller starts `blocks` later."""
        with self._lock:
            current = self._next
            self._next = current.skip(blocks)
        return current

    def reserve_outputs(self, count: int) -> Philox:
        return self.reserve(count * RESERVED_PER_OUTPUT)

    def reserve_words(self, count: int) -> Philox:
        """Room for `count` 32-bit words (TensorFlow's ReserveSamples32)."""
        return self.reserve((count + 3) // 4)


def to_float32(words: Array) -> Array:
    """[0, 1) with 23 bits."""
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def to_float64(first: Array, second: Array) -> Array:
    """[0, 1) with 52 bits, the upper 20 from `first`."""
    bits = (first.astype(np.uint64) & np.uint64(0xFFFFF)) << _SHIFT | second | np.uint64(1023 << 52)
    return bits.view(np.float64) - 1.0


def to_half(words: Array) -> Array:
    return ((words & np.uint32(0x3FF)) | np.uint32(15 << 10)).astype(np.uint16).view(np.float16) - np.float16(1)


def to_bfloat16(words: Array) -> Array:
    bits = ((words & np.uint32(0x7F)) | np.uint32(127 << 7)).astype(np.uint16)
    return (bits.view(ml_dtypes.bfloat16).astype(np.float32) - 1).astype(ml_dtypes.bfloat16)


def to_uint64(words: Array) -> Array:
    """Pairs of words (n, 4) -> (2 n,), the first of each pair the lower half."""
    return words[:, 0::2].astype(np.uint64).reshape(-1) | words[:, 1::2].astype(np.uint64).reshape(-1) << _SHIFT


def box_muller_float32(first: Array, second: Array) -> tuple[Array, Array]:
    """Compute two standard normals from two words each.

    The angle's sine and cosine are computed in double, which rounds to what a good single-precision library gives.
    """
    u1 = np.maximum(to_float32(first), np.float32(1.0e-7))
    v1 = (2.0 * math.pi * to_float32(second).astype(np.float64)).astype(np.float32).astype(np.float64)
    radius = np.sqrt(np.float32(-2) * np.log(u1.astype(np.float64)).astype(np.float32))
    return np.sin(v1).astype(np.float32) * radius, np.cos(v1).astype(np.float32) * radius


def box_muller_float64(words: Array) -> tuple[Array, Array]:
    """Compute two standard normals from blocks (n, 4)."""
    u1 = np.maximum(to_float64(words[..., 0], words[..., 1]), 1.0e-7)
    v1 = 2 * math.pi * to_float64(words[..., 2], words[..., 3])
    radius = np.sqrt(-2.0 * np.log(u1))
    return np.sin(v1) * radius, np.cos(v1) * radius


def _by_parts(
    draw: Callable[[Philox, int, np.dtype[Any]], Array], gen: Philox, size: int, dtype: np.dtype[Any], apart: int = 1
) -> Array:
    """Draw `size` outputs part by part: what is computed on the way stays in the second-level cache.

    Args:
        apart: blocks from the first of a block's outputs to that of the next.
    """
    a_block = 2 if dtype == np.float64 else 4
    part = a_block * _CHUNK
    if size <= part:
        return draw(gen, size, dtype)
    out = np.empty(size, dtype)
    for begin in range(0, size, part):
        filled = out[begin : begin + part]
        filled[...] = draw(gen.skip(begin // a_block * apart), filled.size, dtype)
    return out


def uniform(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    """`size` floats in [0, 1)."""
    return _by_parts(_uniform, gen, size, dtype)


def _uniform(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    if dtype == np.float64:
        words = gen.words((size + 1) // 2).reshape(-1, 2)
        return to_float64(words[:, 0], words[:, 1])[:size]
    words = gen.words((size + 3) // 4).reshape(-1)[:size]
    if dtype == np.float32:
        return to_float32(words)
    return to_half(words) if dtype == np.float16 else to_bfloat16(words)


def uniform_full_int(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    """`size` integers over the type's whole range."""
    if dtype.itemsize == 8:
        return to_uint64(gen.words((size + 1) // 2))[:size].view(dtype)
    return gen.words((size + 3) // 4).reshape(-1)[:size].view(dtype)


def uniform_int(gen: Philox, size: int, dtype: np.dtype[Any], low: int, high: int) -> Array:
    """`size` integers in [low, high), by remainder as TensorFlow does."""
    bits = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")
    span = (high - low) % (1 << bits)
    values = uniform_full_int(gen, size, unsigned) % unsigned.type(span)
    with np.errstate(over="ignore"):
        return (values + unsigned.type(low % (1 << bits))).view(dtype)


def normal(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    """`size` standard normals."""
    return _by_parts(_normal, gen, size, dtype)


def _normal(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    if dtype == np.float64:
        first, second = box_muller_float64(gen.words((size + 1) // 2))
        return np.stack([first, second], axis=-1).reshape(-1)[:size]
    words = gen.words((size + 3) // 4).reshape(-1, 2)
    first, second = box_muller_float32(words[:, 0], words[:, 1])
    return np.stack([first, second], axis=-1).reshape(-1)[:size].astype(dtype, copy=False)


def truncated_normal(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    """`size` standard normals, those beyond two standard deviations drawn again."""
    return _by_parts(
        _truncated_normal, gen, size, dtype, apart=RESERVED_PER_OUTPUT // (2 if dtype == np.float64 else 1)
    )


def _truncated_normal(gen: Philox, size: int, dtype: np.dtype[Any]) -> Array:
    group = 2 if dtype == np.float64 else 4
    groups = -(-size // group)
    stride = group * RESERVED_PER_OUTPUT // 4
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    out = np.empty((groups, group), wide)
    filled = np.zeros(groups, np.int64)
    active = np.arange(groups)
    done_blocks, step = 0, 2
    while active.size:
        offsets = active[:, None] * stride + np.arange(done_blocks, done_blocks + step)
        words = gen.words_at(offsets.reshape(-1).astype(np.uint64))
        if wide == np.float64:
            first, second = box_muller_float64(words)
        else:
            pairs = words.reshape(-1, 2)
            first, second = box_muller_float32(pairs[:, 0], pairs[:, 1])
        candidates = np.stack([first, second], axis=-1).reshape(active.size, -1)
        accepted = np.abs(candidates) < _TRUNCATE
        place = np.cumsum(accepted, axis=1) - 1 + filled[active][:, None]
        rows, columns = np.nonzero(accepted & (place < group))
        out[active[rows], place[rows, columns]] = candidates[rows, columns]
        filled[active] += accepted.sum(axis=1)
        active = active[filled[active] < group]
        done_blocks += step
    return out.reshape(-1)[:size].astype(dtype, copy=False)


class WordStream:
    """One word after the other, for algorithms that draw a varying number (TensorFlow's SingleSampleAdapter)."""

    def __init__(self, gen: Philox, ahead: int = 16) -> None:
        self._gen = gen
        self._ahead = ahead
        self._words: list[int] = []
        self._at = 0

    def next(self) -> int:
        if self._at == len(self._words):
            self._words = self._gen.words(self._ahead).reshape(-1).tolist()
            self._gen = self._gen.skip(self._ahead)
            self._ahead = min(self._ahead * 2, 4096)
            self._at = 0
        word = self._words[self._at]
        self._at += 1
        return word

    def next_float32(self) -> float:
        """[0, 1) with 23 bits."""
        return (self.next() & 0x7FFFFF) / float(1 << 23)

    def next_float64(self) -> float:
        first, second = self.next(), self.next()
        return ((first & 0xFFFFF) << 32 | second) / float(1 << 52)

    def below(self, limit: int) -> int:
        """TensorFlow's SimplePhilox::Uniform64 and Uniform: an integer in [0, limit)."""
        return self.next() % limit
