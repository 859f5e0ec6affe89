"""Straight-line plans: an acyclic partition as one Python function (`straight_compiler.py` makes them).

A line number tells which node an exception comes from, so no node pays for error handling, and where another way of
running the nodes can go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import CodeType, FrameType, TracebackType
from typing import Any

from dtfctl.errors import Signal
from dtfctl.runtime.executor.arrivals import Group
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework.errors import FailedPreconditionError, OpError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.into.registry import Unfit
from dtfctl.runtime.kernels.variable import Variable

NOTHING = frozenset(("NoOp", "ControlTrigger"))
Chunk = Callable[[StepContext, list[Any], Sequence[Any], list[Any]], None]


class Reshaped(Signal):
    """A value has not the shape a plan was made for."""


class DeadValue(Signal):
    """A receive got a dead tensor: only the deadness-aware interpreter can go on from here."""


@dataclass
class StraightLine:
    """A compiled plan.

    Attributes:
        order: the nodes, in running order.
        places: for each (node, slot) the local, list item or constant its value is in.
        reused: locals that hold several values one after the other: the positions and outputs of the nodes that give
            them, in running order.
        aliases: outputs of identities, and whose values they are.
        constants: by name.
        groups: stages of it that run in any order; which have not begun is in the local `left` of a group.
        careful: for nodes whose line leaves checks to numpy, the kernel that makes them and says what is wrong, with
            its operands.
    """

    order: list[Node]
    chunks: list[Chunk]
    lines: dict[CodeType, list[int]]
    places: dict[tuple[Node, int], str]
    reused: dict[str, list[tuple[int, tuple[Node, int]]]]
    aliases: dict[tuple[Node, int], tuple[Node, int]]
    constants: dict[str, Any]
    slots: int
    careful: dict[int, tuple[Callable[..., Any], str]]
    names: dict[str, Any]
    is_shaped: bool = False
    folds: Sequence[tuple[int, int]] = ()
    groups: Sequence[Group] = ()

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run all nodes; `results` gets the values of `_Retval` nodes.

        Raises:
            Resume: a dead tensor was received.
            OpError: a node failed; located.
        """
        shared: list[Any] = [None] * self.slots
        try:
            for chunk in self.chunks:
                chunk(step, shared, args, results)
        except Exception as e:
            at, frame = self._failure(e.__traceback__)
            if isinstance(e, (DeadValue, Reshaped, Unfit)):
                late = {folded for folded, by in self.folds if folded < at <= by}
                done: set[int] = set()
                for group in self.groups:
                    if at in group.positions:
                        missing, done = group.left_and_done(at, frame.f_locals[group.left])
                        late |= missing
                values = self._values(at, frame.f_locals, shared)
                raise Resume(at, values, isinstance(e, DeadValue), sorted(late), done) from None
            error = located(self._explained(e, at, frame), self.order[at].name)
            if error is e:
                raise
            raise error from e

    def _explained(self, error: Exception, at: int, frame: FrameType) -> Exception:
        """What the checks that a line left out say of its operands, if they find fault with them."""
        kernel, operands = self.careful.get(at, (None, ""))
        if kernel is not None and not isinstance(error, OpError):
            try:
                kernel(*eval(f"({operands},)", self.names, frame.f_locals))
            except Exception as e:
                return e
        return error

    def _failure(self, trace: TracebackType | None) -> tuple[int, FrameType]:
        """The position of the node a traceback passes through, and the generated function's frame."""
        while trace is not None:
            table = self.lines.get(trace.tb_frame.f_code)
            if table is not None:
                return table[trace.tb_lineno], trace.tb_frame
            trace = trace.tb_next
        raise AssertionError("an exception from nowhere in the plan")

    def _values(self, at: int, local_values: dict[str, Any], shared: list[Any]) -> dict[tuple[Node, int], Any]:
        """The values that are alive before the node at position `at`, by the node output they are."""
        found: dict[tuple[Node, int], Any] = {}
        for place, givers in self.reused.items():
            value = local_values.get(place)
            given = bisect_left(givers, at, key=itemgetter(0))
            if value is not None and given:
                found[givers[given - 1][1]] = value
        for output, place in self.places.items():
            if place in self.reused:
                continue
            if output[1] >= len(output[0].output_types):
                # What lines that do several nodes' work have between themselves.
                continue
            if place.startswith("S["):
                value = shared[int(place[2:-1])]
            else:
                value = local_values.get(place, self.constants.get(place))
            if value is not None:
                found[output] = value
        for output, root in self.aliases.items():
            if root in found:
                found[output] = found[root]
        return found


class Resume(Signal):
    """The node at position `at` received a dead tensor, or cannot be run by the plan; the nodes before it have run and
    left `values`, except those at the positions `late`, and so have those after it at the positions `done`."""

    def __init__(
        self,
        at: int,
        values: dict[tuple[Node, int], Any],
        dead: bool = True,
        late: Sequence[int] = (),
        done: Collection[int] = (),
    ) -> None:
        super().__init__(at)
        self.at = at
        self.values = values
        self.dead = dead
        self.late = late
        self.done = done


def switch_index(index: Any, count: int) -> int:
    """The branch `_SwitchN` takes: the last one for an index out of range."""
    i = int(index)
    return i if 0 <= i < count else count - 1


def uninitialized(variable: Variable) -> None:
    raise FailedPreconditionError(f"Attempting to use uninitialized value {variable.name}")
