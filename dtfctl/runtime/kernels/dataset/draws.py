"""Random choices of a pass over a dataset, kept so that a restored pass makes them again."""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.kernels.data_flow.philox import PhiloxSampler

_MASK = 2**64 - 1
_PACKED = struct.Struct("<5Q")


@dataclass(frozen=True)
class Draw:
    """Two seeds, and where the generator stood after giving them: its own seeds and position."""

    seeds: tuple[int, int]
    after: tuple[int, int, int]

    def packed(self) -> bytes:
        return _PACKED.pack(*(value & _MASK for value in (*self.seeds, *self.after)))

    @classmethod
    def unpacked(cls, data: bytes) -> list[Draw]:
        """Read the draws in `data`, a whole number of `packed` ones.

        Raises:
            ValueError: it is none.
        """
        try:
            return [cls((a, b), (c, d, e)) for a, b, c, d, e in _PACKED.iter_unpack(data)]
        except struct.error as e:
            raise ValueError(str(e)) from e


class SeedGenerator(Resource):
    """Seeds for each pass: new ones when reshuffling, else always the same."""

    type_name = "SeedGenerator"

    def __init__(self, seed: int, seed2: int, reshuffle: bool) -> None:
        self._sampler = PhiloxSampler(seed, seed2)
        self._reshuffle = reshuffle
        self._lock = threading.Lock()

    def draw(self) -> Draw:
        with self._lock:
            sampler = self._sampler
            seeds = (sampler.next(), sampler.next()) if self._reshuffle else (sampler.seed, sampler.seed2)
            return Draw(seeds, (sampler.seed, sampler.seed2, sampler.position))

    def where(self) -> tuple[int, int, int]:
        with self._lock:
            return self._sampler.seed, self._sampler.seed2, self._sampler.position

    def stand(self, after: tuple[int, int, int]) -> None:
        """Go on as from there."""
        with self._lock:
            self._sampler = PhiloxSampler(after[0], after[1])
            self._sampler.restart(after[2])


class Draws:
    """What one pass drew, in order; the first of it may be known from an earlier pass."""

    def __init__(self, known: Iterable[Draw] = ()) -> None:
        self._known = deque(known)
        self._made: list[Draw] = []
        self._before: dict[SeedGenerator, tuple[int, int, int]] = {}
        self._over = False
        self._lock = threading.Lock()

    def sampler(self, generator: SeedGenerator) -> PhiloxSampler:
        """Make a stream of samples with the next seeds of `generator`, or with those known."""
        with self._lock:
            if self._over:
                return PhiloxSampler(0, 0)
            self._before.setdefault(generator, generator.where())
            if self._known:
                draw = self._known.popleft()
                generator.stand(draw.after)
            else:
                draw = generator.draw()
            self._made.append(draw)
        return PhiloxSampler(*draw.seeds)

    def rewind(self) -> None:
        """Let the generators stand where the pass found them, for another one to follow it; this one is over."""
        with self._lock:
            self._over = True
            for generator, before in self._before.items():
                generator.stand(before)

    def made(self) -> list[Draw]:
        with self._lock:
            return list(self._made)
