"""Compiled code as calls on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.parallel import shared_pool
from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.into.threads import threaded
from dtfctl.runtime.kernels.native import kept, machine
from dtfctl.runtime.kernels.native.kept import Compiled

_PARTS_EACH = 2

# Regions that are alike share their code.
_loaded = lru_cache(256)(machine.load)


def call_of(made: Compiled, operands: Sequence[Spec]) -> Callable[..., None]:
    """Make a region's code a call of its operands, outputs and scratch memory."""
    loaded = _loaded(made.image)
    whole = loaded["region"]
    count = len(operands)

    def again(*arrays: Any) -> tuple[Any, ...]:
        """Make operands what the code takes: contiguous arrays of its types."""
        given = []
        for array, (shape, dtype) in zip(arrays, operands):
            if getattr(array, "dtype", None) != dtype or array.shape != shape:
                raise Unfit
            given.append(np.ascontiguousarray(array, dtype).reshape(shape))
        given += arrays[count:]
        if not whole(*given):
            raise Unfit
        return tuple(given)

    def alone(*arrays: Any) -> None:
        if not whole(*arrays):
            again(*arrays)

    size = shared_pool().size
    shared = [kept.is_shared(p.blocks, p.nbytes) for p in made.phases]
    if size < 2 or not any(shared):
        return alone
    part = loaded["part"]
    numbers = [np.array(n, np.int64) for n in range(len(made.phases))]
    bounds = [
        [
            (np.array(p.blocks * n // parts, np.int64), np.array(p.blocks * (n + 1) // parts, np.int64))
            for parts in (min(p.blocks, size * _PARTS_EACH if is_shared else 1),)
            for n in range(parts)
        ]
        for p, is_shared in zip(made.phases, shared)
    ]

    def together(*arrays: Any) -> None:
        for number, ends in zip(numbers, bounds):
            if len(ends) > 1:
                shared_pool().run([partial(_refusing, part, number, *at, *arrays) for at in ends])
            elif not part(number, *ends[0], *arrays):
                # Nothing has been written but what is written again.
                alone(*arrays)
                return

    return threaded(together, alone, size)


def _refusing(part: Callable[..., bool], *values: Any) -> None:
    if not part(*values):
        raise Unfit
