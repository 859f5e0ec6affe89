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
from typing import Any, ClassVar, Protocol

from dtfctl.errors import Signal
from dtfctl.runtime.executor.arrivals import Group
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.framework.errors import FailedPreconditionError, OpError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.into.registry import Unfit
from dtfctl.runtime.kernels.native.compiler import Order
from dtfctl.runtime.kernels.variable import Variable

Chunk = Callable[[StepContext, list[Any], Sequence[Any], list[Any]], None]


class Reshaped(Signal):
    """A value has not the shape a plan was made for."""


class DeadValue(Signal):
    """A receive got a dead tensor: only the deadness-aware interpreter can go on from here."""


@dataclass
class Left:
    """What a plan leaves for node by node: from the node at position `at` on, which received a dead tensor or cannot be
    run by the plan.

    Attributes:
        values: what is there of the nodes that have run.
        dead: whether the node at `at` is dead; else it is to be run.
        late: positions before it of nodes that have not run all the same.
        done: positions after it of nodes that have.
    """

    at: int
    values: dict[tuple[Node, int], Any]
    dead: bool = True
    late: Sequence[int] = ()
    done: Collection[int] = ()


class NodeByNode(Protocol):
    """Runs the nodes, or those that a plan has left, one by one."""

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any], left: Left | None = None) -> None: ...


class Beside(Protocol):
    """The other ways to run the nodes of a plan."""

    @property
    def interpreter(self) -> NodeByNode: ...

    @property
    def traced(self) -> Plan: ...


@dataclass
class StraightLine:
    """A plan: generated functions that run the nodes one after the other.

    Attributes:
        order: the nodes, in running order.
        places: for each (node, slot) the local, list item or constant its value is in.
        reused: locals that hold several values one after the other: the positions and outputs of the nodes that give
            them, in running order.
        aliases: outputs of identities, and whose values they are.
        constants: by name.
        groups: stages of it that run in any order; which have not begun is in the local `left` of a group.
        beside: who goes on where this cannot, and runs traced steps; None for an iteration of a loop, which needs
            neither.
        buffers: the constants that are written anew in each step.
        missing: regions of it that were not compiled yet.
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
    buffers: Collection[str] = ()
    missing: Sequence[Order] = ()
    beside: Beside | None = None

    runs_in_line: ClassVar[bool] = True

    @property
    def engine(self) -> str:
        return "shaped" if self.is_shaped else "straight"

    @property
    def general(self) -> StraightLine:
        return self

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        if step.trace is not None and self.beside is not None:
            self.beside.traced.run(step, args, results)
            return
        left = self.attempt(step, args, results)
        if left is not None:
            self.finish(step, args, results, left)

    def finish(self, step: StepContext, args: Sequence[Any], results: list[Any], left: Left) -> None:
        """Run what an attempt has left, node by node.

        Raises:
            OpError: a node failed; located.
        """
        assert self.beside is not None, "a plan of one iteration receives nothing and expects no shapes"
        self.beside.interpreter.run(step, args, results, left)

    def attempt(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> Left | None:
        """Run the nodes as far as this plan can: what it has left, None where that is nothing.

        Raises:
            OpError: a node failed; located.
        """
        shared: list[Any] = [None] * self.slots
        try:
            for chunk in self.chunks:
                chunk(step, shared, args, results)
        except (DeadValue, Reshaped, Unfit) as e:
            return self._left(e, shared)
        except Exception as e:
            at, frame = self._failure(e.__traceback__)
            error = located(self._explained(e, at, frame), self.order[at].name)
            if error is e:
                raise
            raise error from e
        return None

    def _left(self, e: Signal, shared: list[Any]) -> Left:
        at, frame = self._failure(e.__traceback__)
        late = {folded for folded, by in self.folds if folded < at <= by}
        done: set[int] = set()
        for group in self.groups:
            if at in group.positions:
                missing, done = group.left_and_done(at, frame.f_locals[group.left])
                late |= missing
        return Left(at, self._values(at, frame.f_locals, shared), isinstance(e, DeadValue), sorted(late), done)

    def _explained(self, error: Exception, at: int, frame: FrameType) -> Exception:
        """Return the error of the checks that a line left out; `error` itself where they find no fault."""
        kernel, operands = self.careful.get(at, (None, ""))
        if kernel is not None and not isinstance(error, OpError):
            try:
                kernel(*eval(f"({operands},)", self.names, frame.f_locals))
            except Exception as e:
                return e
        return error

    def _failure(self, trace: TracebackType | None) -> tuple[int, FrameType]:
        """Find the position of the node a traceback passes through, and the generated function's frame."""
        while trace is not None:
            table = self.lines.get(trace.tb_frame.f_code)
            if table is not None:
                return table[trace.tb_lineno], trace.tb_frame
            trace = trace.tb_next
        raise AssertionError("an exception from nowhere in the plan")

    def _values(self, at: int, local_values: dict[str, Any], shared: list[Any]) -> dict[tuple[Node, int], Any]:
        """Collect the values that are alive before the node at position `at`, by the node output they are."""
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
                # What a region would let go of may be kept by its nodes' kernels.
                found[output] = value.copy() if place in self.buffers else value
        for output, root in self.aliases.items():
            if root in found:
                found[output] = found[root]
        return found


def switch_index(index: Any, count: int) -> int:
    """Choose the branch `_SwitchN` takes: the last one for an index out of range."""
    i = int(index)
    return i if 0 <= i < count else count - 1


def uninitialized(variable: Variable) -> None:
    raise FailedPreconditionError(f"Attempting to use uninitialized value {variable.name}")
