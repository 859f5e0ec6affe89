"""Codecs that keep every element, in 16 bits, 8 or one."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dtfctl.runtime.compression.codec import Bytes, Floats, Shape, register_codec, require, split

# Fewer elements are not worth two means.
_FEW = 64
# Which of a word's two halves has its upper bits.
_UPPER = 1 if sys.byteorder == "little" else 0


@register_codec
@dataclass(frozen=True)
class Float16:
    """IEEE half precision: 11 bits of each element are kept. A tensor that has one beyond 65,504 is sent as it is."""

    name: ClassVar[str] = "float16"

    def state_size(self, shape: Shape) -> int:
        return 0

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        if max(float(values.max()), -float(values.min())) > float(np.finfo(np.float16).max):
            return None
        return [values.astype(np.float16)]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        return values

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        (halves,) = split(payload, (math.prod(shape), np.float16))
        return np.asarray(halves, np.float32)


@register_codec
@dataclass(frozen=True)
class BFloat16:
    """The upper half of each element, rounded: 8 bits of it, and all of its range."""

    name: ClassVar[str] = "bfloat16"

    def state_size(self, shape: Shape) -> int:
        return 0

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        bits = values.view(np.uint32)
        # To nearest, and of two that are as near to the even one.
        rounded = bits >> 16
        rounded &= 1
        rounded += 0x7FFF
        rounded += bits
        return [np.ascontiguousarray(rounded.view(np.uint16)[_UPPER::2])]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        return values

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        (halves,) = split(payload, (math.prod(shape), np.uint16))
        bits = halves.astype(np.uint32)
        bits <<= 16
        floats: Floats = bits.view(np.float32)
        return floats


@register_codec
@dataclass(frozen=True)
class Int8:
    """Each block's greatest magnitude is 127 steps (block-wise quantisation: QSGD, Alistarh et al. 2017, with fixed
    rounding; Dettmers et al. 2022). Every element is at most half a step off.

    Args:
        block: elements that share a scale.
    """

    block: int = 256
    name: ClassVar[str] = "int8"

    def __post_init__(self) -> None:
        require(self.block >= 8, f"int8: block={self.block} is too small: a scale is worth four elements")

    def state_size(self, shape: Shape) -> int:
        return 0

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        blocks = _blocks(values, self.block)
        scales = np.maximum(blocks.max(axis=1), -blocks.min(axis=1))
        scales /= 127
        inverse = np.zeros_like(scales)
        # A scale below the least normal number has no inverse; what it would scale is sent as zero.
        np.divide(1, scales, out=inverse, where=scales > np.finfo(np.float32).tiny)
        steps = blocks * inverse[:, None]
        np.rint(steps, out=steps)
        return [scales, steps.astype(np.int8).reshape(-1)[: values.size]]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        return values

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        count = math.prod(shape)
        blocks = -(-count // self.block)
        scales, steps = split(payload, (blocks, np.float32), (count, np.int8))
        out: Floats = np.empty(blocks * self.block, np.float32)
        out[:count] = steps
        out[count:] = 0
        out.reshape(blocks, self.block)[...] *= scales[:, None]
        return out[:count]


@register_codec
@dataclass(frozen=True)
class OneBit:
    """Each element is told by its sign and stands for the mean of its block's elements of that sign; what that misses
    is added to the next tensor (1-bit SGD: Seide et al. 2014; its convergence: Karimireddy et al. 2019).

    Args:
        block: elements that share two means.
    """

    block: int = 1024
    name: ClassVar[str] = "onebit"

    def __post_init__(self) -> None:
        require(self.block >= 64, f"onebit: block={self.block} is too small: two means are worth 64 signs")

    def state_size(self, shape: Shape) -> int:
        return math.prod(shape)

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        if values.size < _FEW:
            return None
        np.add(before, values, out=after)
        blocks = _blocks(after, self.block)
        positive = blocks > 0
        # Sums of booleans, and choices by them, take several times as long.
        counts = np.bitwise_count(np.packbits(positive, axis=1)).sum(axis=1, dtype=np.float32)
        sums = np.maximum(blocks, 0).sum(axis=1, dtype=np.float32)
        rest = blocks.sum(axis=1, dtype=np.float32) - sums
        sizes = np.full(len(blocks), self.block, np.float32)
        if len(sizes):
            sizes[-1] -= blocks.size - values.size
        means = np.stack([rest / np.maximum(sizes - counts, 1), sums / np.maximum(counts, 1)])
        bits = np.packbits(positive.reshape(-1)[: values.size])
        after -= _by_signs(positive, means).reshape(-1)[: values.size]
        return [means, bits]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        owed = before + values if values.size >= _FEW else values
        after[...] = 0
        return owed

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        count = math.prod(shape)
        blocks = -(-count // self.block)
        means, bits = split(payload, (2 * blocks, np.float32), (-(-count // 8), np.uint8))
        signs = np.zeros(blocks * self.block, np.uint8)
        signs[:count] = np.unpackbits(bits, count=count)
        return _by_signs(signs.reshape(blocks, self.block), means.reshape(2, blocks)).reshape(-1)[:count]


def _by_signs(signs: Any, means: Floats) -> Floats:
    """Put the second mean of its block where a sign is 1, and the first where it is 0."""
    low, high = np.ascontiguousarray(means).view(np.uint32)
    # Their bits by arithmetic: a choice by random signs takes three times as long.
    chosen = signs.astype(np.uint32)
    chosen *= (low ^ high)[:, None]
    chosen ^= low[:, None]
    values: Floats = chosen.view(np.float32)
    return values


def _blocks(values: Floats, block: int) -> Floats:
    """View flat values as rows of a block each; of a copy with zeros at its end where they do not fill the last."""
    rest = -values.size % block
    if rest:
        values = np.concatenate([values, np.zeros(rest, np.float32)])
    return values.reshape(-1, block)
