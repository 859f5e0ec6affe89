"""Compiled loops as steps of tapes (kernels/native/tape.py), in parts of their rows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InternalError
from dtfctl.runtime.kernels.compiled.jit import code_of, kind_of, packed_kind
from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine, tape
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.tape import Part, Step, described, divided

# Where an array's arguments have where it is.
_PLACE = 4 * 8


def loop_step(
    loop: Callable[..., None], arrays: Sequence[Spec], more: Sequence[Any], outputs: int, is_by_rows: bool = True
) -> Callable[[], Step | None]:
    """Make what makes a loop of `loops` a step; it gives None where there are no tapes.

    Args:
        arrays: what the loop gets first, contiguous, of which the last `outputs` are written. more: what it gets then:
            numbers, and specs of arrays to compute in.
        is_by_rows: whether each row of what is written follows from the same rows of the others.
    """
    return partial(_made, loop.__name__, tuple(arrays), tuple(more), outputs, is_by_rows)


def _made(name: str, arrays: Sequence[Spec], more: Sequence[Any], outputs: int, is_by_rows: bool) -> Step | None:
    code = tape.image()
    try:
        loop = code_of(name, [kind_of(given) for given in (*arrays, *more)])
    except InternalError:
        return None
    if code is None or loop is None or len(arrays) > machine.MOST_OF_STEP:
        return None
    made = _Loop(code, loop, arrays, more, outputs)
    rows = arrays[-1].shape[0] if is_by_rows else 1
    entry, words, held = made.of_rows(0, rows, rows)
    return Step(
        entry, words, arrays, len(arrays) - outputs, cut=partial(made.cut, rows) if rows > 1 else None, held=held
    )


class _Loop:
    def __init__(self, code: Image, loop: Image, arrays: Sequence[Spec], more: Sequence[Any], outputs: int) -> None:
        self._arrays, self._more, self._outputs = arrays, more, outputs
        self._entry, self._held = machine.entry(code, "loop")
        self._address, self._memory = machine.entry(loop, "loop")

    def of_rows(self, first: int, end: int, rows: int) -> tuple[int, Any, Any]:
        """Make the loop over some rows of so many: entry, words, and what is to be held."""
        packed = b""
        places = []
        for n, spec in enumerate(self._arrays):
            shape = (spec.shape[0] * (end - first) // rows, *spec.shape[1:])
            places.append((len(packed) + _PLACE, n, spec.nbytes * first // rows))
            packed += _packed(shape, spec.dtype, 0)
        rooms = []
        for given in self._more:
            if isinstance(given, Spec):
                rooms.append(np.empty(given.shape, given.dtype))
                packed += _packed(given.shape, given.dtype, rooms[-1].ctypes.data)
            else:
                packed += struct.pack(packed_kind(kind_of(given)), given)
        memory = np.frombuffer(packed, np.uint8).copy()
        points = np.array([(memory.ctypes.data + at, n, offset) for at, n, offset in places], np.int64)
        own = [self._address, memory.ctypes.data, len(points), points.ctypes.data]
        words = machine.table_of(machine.numbers_of(own, described(self._arrays, self._outputs)))
        return self._entry, words, (self._held, self._memory, memory, points, rooms)

    def cut(self, rows: int, count: int) -> list[list[Part]]:
        parts = []
        for first, end in divided(rows, count):
            entry, words, held = self.of_rows(first, end, rows)
            touched = [
                (n, s.nbytes * first // rows, s.nbytes * end // rows, n >= len(self._arrays) - self._outputs)
                for n, s in enumerate(self._arrays)
            ]
            parts.append(Part(entry, words, (end - first) / rows, touched, held))
        return [parts]


def _packed(shape: Sequence[int], dtype: np.dtype[Any], at: int) -> bytes:
    """Pack what a loop gets of a contiguous array: who holds it, whose it is, sizes, where it is, shape and strides."""
    strides = [prod(shape[n + 1 :]) * dtype.itemsize for n in range(len(shape))]
    numbers = (0, 0, prod(shape), dtype.itemsize, at, *shape, *strides)
    return struct.pack("q" * len(numbers), *numbers)
