"""Updates of variables by machine code, where it is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.calls import call_of
from dtfctl.runtime.kernels.native.compiler import COMPILER
from dtfctl.runtime.kernels.native.nests import KINDS
from dtfctl.runtime.kernels.native.sketch import OPERAND, Sketch, Step

# How many rates, and how many arrays that are changed.
_SIZES = {"Adam": (5, 3), "Momentum": (3, 2), "RMSProp": (4, 3), "Adagrad": (1, 2), "Ftrl": (3, 3)}


def sketch_of(rule: str, flag: bool, spec: Spec) -> Sketch | None:
    """Return what compiling an update of a variable takes; None where it cannot be compiled.

    Args:
        rule: of `_SIZES`; flag: its flag; spec: of the variable.
    """
    if not machine.is_available() or spec.dtype not in KINDS or 0 in spec.shape:
        return None
    rates, changed = _SIZES[rule]
    given = Spec(spec.shape or (1,), spec.dtype)
    specs = [given, Spec((rates,), spec.dtype), *[given] * changed]
    refs = [(OPERAND, n, 0) for n in range(len(specs))]
    return Sketch([Step(f"_{rule}", {"flag": True} if flag else {}, refs, specs, [given] * changed, {})], [])


def sketch_of_rows(rule: str, flag: bool, rows: int, indices: Spec, grad: Spec) -> Sketch | None:
    """Return what compiling an update of some rows of a variable takes; None where it cannot be compiled.

    Args:
        rule: of `_SIZES`; flag: its flag; rows: how many the variable has.
        indices: a vector; grad: a row for each of them.
    """
    if not machine.is_available() or grad.dtype not in KINDS or 0 in grad.shape or not rows:
        return None
    rates, changed = _SIZES[rule]
    width = prod(grad.shape[1:])
    table = Spec((rows, width), grad.dtype)
    specs = [indices, Spec((indices.shape[0], width), grad.dtype), Spec((rates,), grad.dtype), *[table] * changed]
    refs = [(OPERAND, n, 0) for n in range(len(specs))]
    return Sketch([Step(f"_Rows{rule}", {"flag": True} if flag else {}, refs, specs, [table] * changed, {})], [])


def sketch_of_sums(rows: int, indices: Spec, values: Spec) -> Sketch | None:
    """Return what compiling a sum of rows into a variable takes, in their order; None where it cannot be compiled.

    Args:
        rows: how many the variable has; 0: nobody knows.
        indices: of any shape; values: a row for each of them.
    """
    if not machine.is_available() or values.dtype not in KINDS or 0 in values.shape or not rows:
        return None
    count, width = prod(indices.shape), prod(values.shape[len(indices.shape) :])
    table = Spec((rows, width), values.dtype)
    specs = [Spec((count,), indices.dtype), Spec((count, width), values.dtype), Spec((1,), values.dtype), table]
    refs = [(OPERAND, n, 0) for n in range(len(specs))]
    return Sketch([Step("_AddRows", {}, refs, specs, [table], {})], [])


def rows_by(sketch: Sketch) -> tuple[Callable[..., None], Spec] | None:
    """Return the update of rows of a sketch, and what room it needs.

    The call takes indices, their rows, rates, the arrays that are changed, and the room. It raises `Unfit`, and has
    changed nothing, where an index is not that of a row.

    Raises:
        KeyError: it was not compiled yet.
    """
    made = COMPILER.find(sketch)
    if made is None:
        return None
    specs = sketch.steps[0].specs
    try:
        call = call_of(made, [specs[n] for n in made.operands])
    except OSError as e:
        machine.refused(e)
        return None
    used, room = list(made.operands), Spec((max(made.scratch, 1),), np.dtype(np.uint8))
    return (lambda *arrays: call(*(arrays[n] for n in used), arrays[-1])), room


def update_by(sketch: Sketch) -> Callable[..., None] | None:
    """Return the update of a sketch: of the gradient, the rates and the arrays that are changed.

    Raises:
        KeyError: it was not compiled yet.
    """
    made = COMPILER.find(sketch)
    if made is None:
        return None
    specs = sketch.steps[0].specs
    try:
        call = call_of(made, [specs[n] for n in made.operands])
    except OSError as e:
        machine.refused(e)
        return None
    used, scratch = list(made.operands), _scratch(made.scratch)
    if used == list(range(len(specs))):
        return lambda *arrays: call(*arrays, scratch)
    return lambda *arrays: call(*(arrays[n] for n in used), scratch)


@lru_cache(16)
def _scratch(nbytes: int) -> Any:
    return np.empty(max(nbytes, 1), np.uint8)
