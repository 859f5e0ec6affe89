"""Memory that a plan for known shapes hands from value to value."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec

_ALIGNMENT = 64


class Block:
    """A piece of memory; the planner hands it from value to value."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory
        self.users = 1

    def array(self, spec: Spec) -> np.ndarray[Any, Any]:
        return self.memory[: spec.nbytes].view(spec.dtype).reshape(spec.shape)

    def share(self) -> Block:
        self.users += 1
        return self


class Memory:
    """What the plans of a partition have their values in: those for other shapes use the same, as one runs at a time.

    What no plan uses any more is not kept.
    """

    def __init__(self) -> None:
        self._pieces: list[weakref.ref[np.ndarray[Any, Any]]] = []

    def pool(self) -> Pool:
        """Make the pool of another plan."""
        pieces = [piece for ref in self._pieces if (piece := ref()) is not None]
        self._pieces = [weakref.ref(piece) for piece in pieces]
        return Pool(self, pieces)

    def make(self, nbytes: int) -> np.ndarray[Any, Any]:
        raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
        # Arrays in it refer to the one that has the memory, so that is what is alive as long as they are.
        self._pieces.append(weakref.ref(raw))
        return _aligned(raw)

    @property
    def nbytes(self) -> int:
        """Bytes that plans hold."""
        return sum(piece.nbytes for ref in self._pieces if (piece := ref()) is not None)


def _aligned(raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + raw.nbytes - _ALIGNMENT]


class Pool:
    """Blocks no value of a plan is in at the moment."""

    def __init__(self, memory: Memory, pieces: list[np.ndarray[Any, Any]]) -> None:
        self._memory = memory
        self._free = [Block(_aligned(piece)) for piece in pieces]

    def take(self, nbytes: int) -> Block:
        """Take the smallest free block that is not much too large, or a new one."""
        fitting = [b for b in self._free if nbytes <= b.memory.nbytes <= 2 * nbytes + 4096]
        if not fitting:
            return Block(self._memory.make(nbytes))
        best = min(fitting, key=lambda b: b.memory.nbytes)
        self._free.remove(best)
        best.users = 1
        return best

    def give(self, block: Block) -> None:
        block.users -= 1
        if not block.users:
            self._free.append(block)
