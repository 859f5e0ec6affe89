"""Random programs of nested loops and conditionals, as v1 graphs and as plain Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tests.unit.executor.harness import GraphText

MODULUS = 97
VARIABLES = 3


@dataclass
class Assign:
    target: int
    op: str
    left: int
    right: int


@dataclass
class If:
    condition: int
    then: list[Statement]
    otherwise: list[Statement]


@dataclass
class Loop:
    """Runs the body variable % 4 times."""

    count: int
    body: list[Statement]
    parallel: int


Statement = Assign | If | Loop
_OPS = {"AddV2": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b}


def random_block(rng: random.Random, depth: int, loops: bool = True) -> list[Statement]:
    out: list[Statement] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random() if depth else 0.0
        if kind < 0.5:
            op = rng.choice(sorted(_OPS))
            out.append(Assign(rng.randrange(VARIABLES), op, rng.randrange(VARIABLES), rng.randrange(VARIABLES)))
        elif kind < 0.75 or not loops:
            condition = rng.randrange(VARIABLES)
            out.append(If(condition, random_block(rng, depth - 1, loops), random_block(rng, depth - 1, loops)))
        else:
            out.append(Loop(rng.randrange(VARIABLES), random_block(rng, depth - 1), rng.choice([1, 2, 10])))
    return out


def evaluate(block: list[Statement], values: list[int]) -> list[int]:
    """What the program computes."""
    values = list(values)
    for s in block:
        if isinstance(s, Assign):
            values[s.target] = _OPS[s.op](values[s.left], values[s.right]) % MODULUS
        elif isinstance(s, If):
            values = evaluate(s.then if values[s.condition] % 2 else s.otherwise, values)
        else:
            for _ in range(values[s.count] % 4):
                values = evaluate(s.body, values)
    return values


@dataclass
class Builder:
    """Writes a program as a graph of int32 scalars; `pivot` is the node constants of a context hang on."""

    g: GraphText = field(default_factory=GraphText)
    count: int = 0

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}_{self.count}"

    def constant(self, value: int, pivot: str) -> str:
        return self.g.const(self.name("const"), value, np.int32, [pivot] if pivot else [])

    def block(self, block: list[Statement], values: list[str], pivot: str) -> list[str]:
        values = list(values)
        for s in block:
            if isinstance(s, Assign):
                raw = self.g.add(self.name(s.op), s.op, values[s.left], values[s.right], T="int32")
                values[s.target] = self.modulo(raw, MODULUS, pivot)
            elif isinstance(s, If):
                values = self.conditional(s, values, pivot)
            else:
                values = self.loop(s, values, pivot)
        return values

    def modulo(self, value: str, divisor: int, pivot: str) -> str:
        return self.g.add(self.name("mod"), "FloorMod", value, self.constant(divisor, pivot), T="int32")

    def conditional(self, s: If, values: list[str], pivot: str) -> list[str]:
        odd = self.modulo(values[s.condition], 2, pivot)
        pred = self.g.add(self.name("pred"), "Cast", odd, SrcT="int32", DstT="bool")
        switch = self.g.add(self.name("switch"), "Switch", pred, pred, T="bool")
        switches = [self.g.add(self.name("switch"), "Switch", v, pred, T="int32") for v in values]
        branches = []
        for slot, block in ((0, s.otherwise), (1, s.then)):
            inner = self.g.add(self.name("pivot"), "Identity", f"{switch}:{slot}", T="bool")
            branches.append(self.block(block, [f"{v}:{slot}" for v in switches], inner))
        return [
            self.g.add(self.name("merge"), "Merge", branches[1][i], branches[0][i], T="int32", N=2)
            for i in range(VARIABLES)
        ]

    def loop(self, s: Loop, values: list[str], pivot: str) -> list[str]:
        frame = self.name("frame")
        limit = self.modulo(values[s.count], 4, pivot)
        attrs = {"T": "int32", "frame_name": frame, "parallel_iterations": s.parallel}
        limit = self.g.add(self.name("enter"), "Enter", limit, is_constant=True, **attrs)
        enters = [
            self.g.add(self.name("enter"), "Enter", v, is_constant=False, **attrs)
            for v in [self.constant(0, pivot), *values]
        ]
        nexts = [self.name("next") for _ in enters]
        merges = [self.g.add(self.name("merge"), "Merge", e, n, T="int32", N=2) for e, n in zip(enters, nexts)]
        less = self.g.add(self.name("less"), "Less", merges[0], limit, T="int32")
        cond = self.g.add(self.name("cond"), "LoopCond", less)
        switches = [self.g.add(self.name("switch"), "Switch", m, cond, T="int32") for m in merges]
        inner = [self.g.add(self.name("body"), "Identity", f"{v}:1", T="int32") for v in switches]
        one = self.constant(1, inner[0])
        counter = self.g.add(self.name("add"), "AddV2", inner[0], one, T="int32")
        after = self.block(s.body, inner[1:], inner[0])
        for name, value in zip(nexts, [counter, *after]):
            self.g.add(name, "NextIteration", value, T="int32")
        return [self.g.add(self.name("exit"), "Exit", v, T="int32") for v in switches[1:]]


def build(block: list[Statement]) -> tuple[GraphText, list[str]]:
    """The graph, fed through x0:0, x1:0, ..., and the names of its results."""
    builder = Builder()
    inputs = [builder.g.add(f"x{i}", "Placeholder", dtype="int32") for i in range(VARIABLES)]
    return builder.g, [f"{v}:0" if ":" not in v else v for v in builder.block(block, inputs, "")]
