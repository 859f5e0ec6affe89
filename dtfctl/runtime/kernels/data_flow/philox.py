"""The Philox 4x32-10 generator read one 32-bit sample at a time, as shuffles of queues and datasets consume it.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011); seeded as TensorFlow seeds PhiloxRandom.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

_BLOCK = 64
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox_block(key: int, low: int, high: int, count: int) -> Any:
    """`count` consecutive outputs, uint32 [count, 4], from the 128-bit counter (high, low) on."""
    start = (high << 64) | low
    counters = [(start + i) & ((1 << 128) - 1) for i in range(count)]
    c = [np.array([(v >> (32 * i)) & 0xFFFFFFFF for v in counters], np.uint64) for i in range(4)]
    k0, k1 = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = _M0 * c[0], _M1 * c[2]
        c = [
            (p1 >> _SHIFT) ^ c[1] ^ np.uint64(k0),
            p1 & _MASK,
            (p0 >> _SHIFT) ^ c[3] ^ np.uint64(k1),
            p0 & _MASK,
        ]
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack(c, 1).astype(np.uint32)


class PhiloxSampler:
    """A stream of 32-bit samples.

    Args:
        seed, seed2: when both are 0, random ones are taken.
    """

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self.seed, self.seed2 = seed, seed2
        self._key, self._high = seed & (2**64 - 1), seed2 & (2**64 - 1)
        self.restart()

    def restart(self, position: int = 0) -> None:
        """Continue after `position` samples of the stream."""
        self.position = position
        self._low = position // 4
        self._samples: list[int] = []
        self._index = 0
        if position % 4:
            self._fill()
            self._index = position % 4

    def _fill(self) -> None:
        self._samples = philox_block(self._key, self._low, self._high, _BLOCK).reshape(-1).tolist()
        self._low += _BLOCK
        self._index = 0

    def next(self) -> int:
        """Draw the next sample, in [0, 2**32)."""
        if self._index == len(self._samples):
            self._fill()
        value = self._samples[self._index]
        self._index += 1
        self.position += 1
        return value
