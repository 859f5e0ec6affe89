"""Memory that a plan for known shapes hands from value to value."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec

_ALIGNMENT = 64


class Block:
    """A piece of memory; the planner hands it from value to value."""

    def __init__(self, nbytes: int) -> None:
        raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        self.memory = raw[start : start + nbytes]
        self.users = 1

    def array(self, spec: Spec) -> np.ndarray[Any, Any]:
        return self.memory[: spec.nbytes].view(spec.dtype).reshape(spec.shape)

    def share(self) -> Block:
        self.users += 1
        return self


class Pool:
    """Blocks no value is in at the moment."""

    def __init__(self) -> None:
        self._free: list[Block] = []

    def take(self, nbytes: int) -> Block:
        """Take the smallest free block that is not much too large, or a new one."""
        fitting = [b for b in self._free if nbytes <= b.memory.nbytes <= 2 * nbytes + 4096]
        if not fitting:
            return Block(nbytes)
        best = min(fitting, key=lambda b: b.memory.nbytes)
        self._free.remove(best)
        best.users = 1
        return best

    def give(self, block: Block) -> None:
        block.users -= 1
        if not block.users:
            self._free.append(block)
