"""Compiled code as calls on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.parallel import PARTS_EACH, shared_pool
from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.into.threads import threaded
from dtfctl.runtime.kernels.native import kept, machine
from dtfctl.runtime.kernels.native.kept import Compiled

# Regions that are alike share their code.
_loaded = lru_cache(256)(machine.load)


def call_of(made: Compiled, operands: Sequence[Spec]) -> Callable[..., None]:
    """Make a region's code a call of its operands, outputs and scratch memory."""
    loaded = _loaded(made.image, made.numbers)
    whole = loaded["region"]
    count = len(operands)

    def fitting(arrays: Sequence[Any]) -> list[Any]:
        """Make operands what the code takes: contiguous arrays of its types."""
        given = []
        for array, (shape, dtype) in zip(arrays, operands):
            if getattr(array, "dtype", None) != dtype or array.shape != shape:
                raise Unfit
            given.append(np.ascontiguousarray(array, dtype).reshape(shape))
        return [*given, *arrays[count:]]

    def alone(*arrays: Any) -> None:
        if not whole(*arrays) and not whole(*fitting(arrays)):
            raise Unfit

    size = shared_pool().size
    shared = [kept.is_shared(p.blocks, p.nbytes) for p in made.phases]
    if size < 2 or not any(shared):
        return alone
    part = loaded["part"]
    numbers = [np.array(n, np.int64) for n in range(len(made.phases))]
    bounds = [
        [
            (np.array(p.blocks * n // parts, np.int64), np.array(p.blocks * (n + 1) // parts, np.int64))
            for parts in (min(p.blocks, size * PARTS_EACH if is_shared else 1),)
            for n in range(parts)
        ]
        for p, is_shared in zip(made.phases, shared)
    ]

    def phase(number: Any, ends: list[Any], arrays: Sequence[Any]) -> bool:
        if len(ends) == 1:
            return bool(part(number, *ends[0], *arrays))
        try:
            shared_pool().run([partial(_refusing, part, number, *at, *arrays) for at in ends])
        except Unfit:
            return False
        return True

    def together(*arrays: Any) -> None:
        for number, ends in zip(numbers, bounds):
            if not phase(number, ends, arrays):
                # Nothing has been written but what is written again.
                arrays = tuple(fitting(arrays))
                if not phase(number, ends, arrays):
                    raise Unfit

    return threaded(together, alone, size, claimed=together)


def _refusing(part: Callable[..., bool], *values: Any) -> None:
    if not part(*values):
        raise Unfit
