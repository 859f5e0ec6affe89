"""What a region is, apart from the graph it was found in: regions that are alike have the same text, and one code.

A sketch is all that compiling a region needs, so that another process can do it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec

# Attributes that lowerings ask for, and what they are where a node does not say.
ATTRIBUTES: Mapping[str, Any] = {
    "data_format": "NHWC",
    "axis": 0,
    "alpha": 0.2,
    "flag": False,
    "batch_dims": 0,
    "adjoint_a": False,
    "adjoint_b": False,
    "epsilon": 1e-4,
    "exponential_avg_factor": 1.0,
    "is_training": True,
}
# Larger values that are the same in every step are no part of a region's code.
MOST_FIXED = 64

VALUE, OPERAND, NUMBER = range(3)
Ref = tuple[int, int, int]
"""(VALUE, step, output), (OPERAND, its number, 0), or (NUMBER, 0, 0): the fixed value of that input."""


@dataclass(frozen=True)
class Step:
    """A node of a region.

    Attributes:
        attrs: of `ATTRIBUTES`, those that are others than usual.
        inputs: what it takes; specs: what that is; outputs: what it gives.
        fixed: values of inputs that are the same in every step, by position.
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: Sequence[Ref]
    specs: Sequence[Spec]
    outputs: Sequence[Spec]
    fixed: Mapping[int, Any]

    def packed(self) -> list[Any]:
        fixed = [[n, _packed_spec(Spec(v.shape, v.dtype)), v.reshape(-1).tolist()] for n, v in self.fixed.items()]
        specs, outputs = ([_packed_spec(s) for s in of] for of in (self.specs, self.outputs))
        return [self.op, sorted(self.attrs.items()), [list(r) for r in self.inputs], specs, outputs, fixed]

    @classmethod
    def unpacked(cls, packed: Sequence[Any]) -> Step:
        op, attrs, inputs, specs, outputs, fixed = packed
        values = {}
        for n, of, value in fixed:
            spec = _spec(of)
            values[n] = np.array(value, spec.dtype).reshape(spec.shape)
        refs = [(int(a), int(b), int(c)) for a, b, c in inputs]
        return cls(op, dict(attrs), refs, [_spec(s) for s in specs], [_spec(s) for s in outputs], values)


@dataclass(frozen=True)
class Sketch:
    """Attributes: steps: in running order; wanted: what is filled, as steps and outputs; operands: how many it gets."""

    steps: Sequence[Step]
    wanted: Sequence[tuple[int, int]]

    @cached_property
    def text(self) -> str:
        return json.dumps([[s.packed() for s in self.steps], [list(w) for w in self.wanted]], separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:40]

    @classmethod
    def of(cls, text: str) -> Sketch:
        steps, wanted = json.loads(text)
        return cls([Step.unpacked(s) for s in steps], [(int(a), int(b)) for a, b in wanted])


def _packed_spec(spec: Spec) -> list[Any]:
    return [spec.dtype.str, list(spec.shape)]


def _spec(packed: Sequence[Any]) -> Spec:
    return Spec(tuple(int(n) for n in packed[1]), np.dtype(packed[0]))
