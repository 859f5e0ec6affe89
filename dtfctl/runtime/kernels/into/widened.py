"""Forms for arrays of 16 bits: what they are for float32, of operands that are widened, with results rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.compiled.jit import compiled, loops
from dtfctl.runtime.kernels.into.low_precision import BFLOAT16
from dtfctl.runtime.kernels.into.registry import Into, Maker, Spec
from dtfctl.runtime.kernels.registry import KernelBuild

_FLOAT32 = np.dtype(np.float32)
_LOW = (BFLOAT16, np.dtype(np.float16))
# Bytes of an array below which the usual kernel's one pass costs less, and from which on rounding is compiled.
_LEAST_BYTES, _LEAST_COMPILED = 1 << 14, 1 << 20

_Copy = Callable[[Any, Any], None]


def made_in_float32(maker: Maker, k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    """Make the form that a node has for float32 do for types of 16 bits; None where there is none, or too little."""
    if max((s.nbytes for s in outputs), default=0) < _LEAST_BYTES or not any(map(_is_low, outputs)):
        return None
    into = maker(k, [_wide(s) for s in inputs], [_wide(s) for s in outputs])
    if into is None or not into.fills:
        return None
    # Operands that each row of the result needs all of, as a bias, are no room that is cut by rows.
    rows = outputs[0].shape[:1]
    kept = {n: _widening(s) for n, s in enumerate(inputs) if _is_low(s) and s.shape[:1] == rows and len(s.shape) > 1}
    small = [n for n, s in enumerate(inputs) if _is_low(s) and n not in kept]
    first = len(inputs) + len(into.extras)
    given = {first + n: _rounding(s) for n, s in enumerate(outputs) if _is_low(s)}
    room = (*(_wide(inputs[n]) for n in kept), *(_wide(outputs[n - first]) for n in given))
    count = first + len(outputs)

    def call(*arrays: Any) -> None:
        operands, scratch = list(arrays[:count]), arrays[count:]
        for n in small:
            operands[n] = operands[n].astype(_FLOAT32)
        for (n, widened), wide in zip(kept.items(), scratch):
            widened(operands[n], wide)
            operands[n] = wide
        results = scratch[len(kept) : len(room)]
        for n, wide in zip(given, results):
            operands[n] = wide
        into.call(*operands, *scratch[len(room) :])
        for (n, rounded), wide in zip(given.items(), results):
            rounded(wide, arrays[n])

    return Into(call, into.extras, (*room, *into.scratch), is_guarded=into.is_guarded, by_rows=into.by_rows)


def _is_low(spec: Spec | None) -> bool:
    return spec is not None and spec.dtype in _LOW


def _wide(spec: Any) -> Any:
    return Spec(spec.shape, _FLOAT32) if _is_low(spec) else spec


def _widening(spec: Spec) -> _Copy:
    return _copy(loops.widened_bfloat16, spec, np.uint16, np.uint32)


def _rounding(spec: Spec) -> _Copy:
    return _copy(loops.rounded_to_bfloat16, spec, np.uint32, np.uint16)


def _copy(loop: Callable[[Any, Any], None], spec: Spec, source: type[np.generic], target: type[np.generic]) -> _Copy:
    made = compiled(loop, _FLOAT32, 2 * spec.nbytes, _LEAST_COMPILED) if spec.dtype == BFLOAT16 else None
    if made is None:
        return _assign

    def copy(x: Any, out: Any) -> None:
        if x.flags.c_contiguous and out.flags.c_contiguous:
            made(x.reshape(-1).view(source), out.reshape(-1).view(target))
        else:
            _assign(x, out)

    return copy


def _assign(x: Any, out: Any) -> None:
    out[...] = x
