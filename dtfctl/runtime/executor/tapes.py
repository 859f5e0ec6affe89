"""Which lines of a plan are one call: machine code that follows machine code, as a tape (kernels/native/tape.py).

    q3 = product, q9 = region, q11 = product   ─►   q11 = a tape of three steps

Steps are put off until somebody else wants what they give, or does what could be seen from them; the line stands where
the last of them stood. What others do meanwhile reads what is there before the step, or makes values anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import reads_of, ref_positions
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import RECVS
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.registry import Into
from dtfctl.runtime.kernels.native import machine, tape
from dtfctl.runtime.kernels.native.compiler import Order
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.tape import Step, Tape
from dtfctl.runtime.kernels.registry import op_promises

# Between two looks at whether the step was cancelled.
_MOST_STEPS = 256


@dataclass(frozen=True)
class Line:
    """A call of a plan: what it is given, the arrays or what stands for one that are given besides, what it makes."""

    node: Node
    into: Into
    operands: Sequence[Output]
    arrays: Sequence[Any]
    outputs: Sequence[Output]


@dataclass
class Taped:
    """Attributes: nodes: in order; the last one has the line; operands, rooms: what the line's call is given."""

    nodes: list[Node]
    into: Into
    operands: list[Output]
    rooms: list[Any]


@dataclass
class Known:
    """What is asked about a plan.

    Attributes:
        line: the call of a node's line; None where it has none.
        is_idle: whether a node has no line at all.
        array: the array that an output is in each time; None where it is another one.
        roots: in whose memory a node's inputs are.
    """

    line: Callable[[Node], Line | None]
    is_idle: Callable[[Node], bool]
    array: Callable[[Output], Any]
    roots: Callable[[Node], list[Output]]


@dataclass
class _Open:
    lines: list[tuple[Line, Step]] = field(default_factory=list)
    made: set[Output] = field(default_factory=set)

    def add(self, line: Line, step: Step) -> None:
        self.lines.append((line, step))
        self.made.update(line.outputs)


def find_tapes(order: list[Node], known: Known, missing: list[Order]) -> Iterator[Taped]:
    """Find the tapes of a plan.

    Args:
        missing: gets the code that runs them where it was not compiled yet.
    """
    if not machine.is_available():
        return
    try:
        code = tape.image()
    except KeyError:
        if any((line := known.line(node)) is not None and line.into.step is not None for node in order):
            missing.append(tape.ORDER)
        return
    if code is None:
        return
    held = _Open()
    for node in order:
        line = known.line(node)
        if line is None:
            if known.is_idle(node):
                continue
            if not _passes(node) or not held.made.isdisjoint(known.roots(node)):
                yield from _taped(held, known, code)
                held = _Open()
            continue
        step = line.into.step() if line.into.step is not None and not _has_references(node) else None
        if step is None or len(held.lines) == _MOST_STEPS:
            yield from _taped(held, known, code)
            held = _Open()
        if step is not None:
            held.add(line, step)
    yield from _taped(held, known, code)


def _passes(node: Node) -> bool:
    """Tell whether the node's line may come before steps that it followed: it writes to nobody's memory, and waits for
    nobody."""
    if not node.inputs:
        # A variable itself, or what a caller has given.
        return node.op not in RECVS
    return is_pure(node) or bool(reads_of(node)) or op_promises(node.op, "changes_list")


def _has_references(node: Node) -> bool:
    return bool(ref_positions(node)) or bool(reads_of(node))


def _taped(held: _Open, known: Known, code: Image) -> Iterator[Taped]:
    """Make a tape, if that is better than the calls of its steps."""
    lines = [line for line, _ in held.lines]
    if len(lines) < 2:
        return
    operands: dict[Output, int] = {}
    rooms: list[tuple[Output, Any]] = []
    # Arrays, or what the number of an argument follows from.
    steps: list[tuple[Step, list[Any]]] = []
    made: set[Output] = set()
    for line, step in held.lines:
        given: list[Any] = []
        for output in line.operands:
            array = known.array(output)
            if array is not None:
                given.append(array)
            else:
                if output not in made:
                    operands.setdefault(output, len(operands))
                given.append(output)
        for array in (*line.into.extras, *line.arrays):
            if isinstance(array, np.ndarray):
                given.append(array)
            else:
                rooms.append((array.output, array))
                made.add(array.output)
                given.append(array.output)
        steps.append((step, given))
    numbers = {**operands, **{output: len(operands) + n for n, (output, _) in enumerate(rooms)}}
    placed = [(step, [a if isinstance(a, np.ndarray) else numbers[a] for a in given]) for step, given in steps]

    run = Tape(placed, code)
    yield Taped([line.node for line in lines], Into(run, is_guarded=True), list(operands), [r for _, r in rooms])
