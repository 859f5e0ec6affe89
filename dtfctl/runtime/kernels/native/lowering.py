"""What ops are as loops: an entry for each.

    @lowers("Mul")
    def _(op: Op) -> list[Value]:

A lowering takes views of a node's inputs and returns views of its outputs; `Unsupported` where the node is of a kind
or type that it has no loops for, and is left to its kernel. What it knows of the node is its `Step` (sketch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native.nests import KINDS, Loops, Number, Unsupported, Value, View
from dtfctl.runtime.kernels.native.sketch import ATTRIBUTES, Step

ELEMENTS = {
    "f4": ir.FloatType(),
    "f8": ir.DoubleType(),
    "i4": ir.IntType(32),
    "i8": ir.IntType(64),
    "b1": ir.IntType(1),
}
FLOATS = frozenset(["f4", "f8"])
NUMBERS = frozenset(["f4", "f8", "i4", "i8"])


@dataclass
class Op:
    """A step whose loops are wanted.

    Attributes:
        inputs: its inputs' values.
    """

    step: Step
    loops: Loops
    inputs: list[Value]

    @property
    def name(self) -> str:
        return self.step.op

    @property
    def specs(self) -> Sequence[Spec]:
        return self.step.specs

    @property
    def outputs(self) -> Sequence[Spec]:
        return self.step.outputs

    @property
    def kind(self) -> str:
        return kind_of(self.outputs[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.outputs[0].shape

    def attr(self, name: str) -> Any:
        """Return one of `ATTRIBUTES`."""
        return self.step.attrs.get(name, ATTRIBUTES[name])

    def map(self, emit: Callable[..., Any], *sources: Value) -> Value:
        return self.loops.map(emit, sources, self.kind, self.shape)

    def fixed(self, position: int) -> Any:
        """Return the value of an input that has to be the same in every step.

        Raises:
            Unsupported: it is not.
        """
        if position not in self.step.fixed:
            raise Unsupported
        return np.asarray(self.step.fixed[position])

    def axes(self, position: int, rank: int) -> list[int]:
        axes = [int(n) % rank if rank else 0 for n in self.fixed(position).reshape(-1)]
        return sorted(set(axes)) if rank else []


Lowering = Callable[[Op], list[Value]]
LOWERINGS: dict[str, Lowering] = {}
# What numpy needs several passes or slow ones for, so that a loop for it alone pays.
HEAVY: set[str] = set()
# Ops whose lowerings look at no input and give no output that is empty; what they get in place of one has no elements.
EMPTY: set[str] = set()


def lowers(*ops: str, heavy: bool = False, empty: bool = False) -> Callable[[Lowering], Lowering]:
    """Decorator: the function says what ops are as loops.

    Args:
        heavy, empty: whether they are in `HEAVY` and `EMPTY`.
    """

    def add(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(ops, lowering))
        if heavy:
            HEAVY.update(ops)
        if empty:
            EMPTY.update(ops)
        return lowering

    return add


def kind_of(spec: Spec) -> str:
    found = KINDS.get(spec.dtype)
    if found is None:
        raise Unsupported
    return found


def constant(value: Any) -> Number:
    """Make a known number a value."""
    array = np.asarray(value)
    kind = KINDS.get(array.dtype)
    if kind is None or array.size != 1:
        raise Unsupported
    return Number(ir.Constant(ELEMENTS[kind], array.reshape(-1)[0].item()), array.shape)


def one(kind: str, value: float) -> Any:
    return ir.Constant(ELEMENTS[kind], value if kind in FLOATS else int(value))


def need(kind: str, among: frozenset[str] = FLOATS) -> None:
    if kind not in among:
        raise Unsupported


def view_of(value: Value) -> View:
    if not isinstance(value, View):
        raise Unsupported
    return value
