"""Straight-line plans: an acyclic partition as one Python function.

The function is generated as source, one line a node in running order, and compiled once. Values are its locals, dropped
after their last use, so that variables can be updated in place; kernels, constants and keys are its globals. A line
number tells which node an exception comes from, so no node pays for error handling. Very large graphs become several
functions, which pass each other values through a list.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, TracebackType
from typing import Any

from dtfctl.runtime.executor.binding import Environment, has_list_output, reads_of, ref_positions, single
from dtfctl.runtime.executor.keys import RECVS, SENDS, is_client_terminated, rendezvous_key
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.variable import Variable

# Nodes a function: enough to make the cost of passing values vanish, few enough for the compiler to stay linear.
CHUNK = 2000
# Nodes between two looks at whether the step was cancelled.
CHECK_EVERY = 64

# Ops whose output is their input.
ALIASES = frozenset(("Identity", "StopGradient", "PreventGradient", "Snapshot", "IdentityN"))
NOTHING = frozenset(("NoOp", "ControlTrigger"))

Chunk = Callable[[StepContext, list[Any], Sequence[Any], list[Any]], None]


class DeadValue(Exception):
    """A receive got a dead tensor: only the deadness-aware interpreter can go on from here."""


@dataclass(slots=True)
class _Place:
    """Where a value lives: an expression, and what must be dropped after its last use ("" for a constant)."""

    text: str
    is_local: bool = True


@dataclass
class StraightLine:
    """A compiled plan.

    Attributes:
        order: the nodes, in running order.
        places: for each (node, slot) the local, list item or constant its value is in.
        aliases: outputs of identities, and whose values they are.
        constants: by name.
    """

    order: list[Node]
    chunks: list[Chunk]
    lines: dict[CodeType, list[int]]
    places: dict[tuple[Node, int], str]
    aliases: dict[tuple[Node, int], tuple[Node, int]]
    constants: dict[str, Any]
    slots: int

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
            at, local_values = self._failure(e.__traceback__)
            if isinstance(e, DeadValue):
                raise Resume(at, self._values(local_values, shared)) from None
            error = located(e, self.order[at].name)
            if error is e:
                raise
            raise error from e

    def _failure(self, trace: TracebackType | None) -> tuple[int, dict[str, Any]]:
        """The position of the node a traceback passes through, and the generated function's locals then."""
        while trace is not None:
            table = self.lines.get(trace.tb_frame.f_code)
            if table is not None:
                return table[trace.tb_lineno], trace.tb_frame.f_locals
            trace = trace.tb_next
        raise AssertionError("an exception from nowhere in the plan")

    def _values(self, local_values: dict[str, Any], shared: list[Any]) -> dict[tuple[Node, int], Any]:
        """The values that are alive, by the node output they are."""
        found: dict[tuple[Node, int], Any] = {}
        for output, place in self.places.items():
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


class Resume(Exception):
    """The node at position `at` received a dead tensor; the nodes before it have run and left `values`."""

    def __init__(self, at: int, values: dict[tuple[Node, int], Any]) -> None:
        super().__init__(at)
        self.at = at
        self.values = values


def compile_straight_line(order: list[Node], env: Environment, chunk_size: int = CHUNK) -> StraightLine:
    """The plan that runs `order` (topological, without control flow ops or kernels that may block).

    Raises:
        OpError: a node has no kernel, or its kernel refuses its attributes.
    """
    return _Compiler(order, env, chunk_size).compile()


@dataclass
class _Compiler:
    order: list[Node]
    env: Environment
    chunk_size: int
    names: dict[str, Any] = field(default_factory=dict)
    alias: dict[tuple[Node, int], tuple[Node, int]] = field(default_factory=dict)
    constants: dict[tuple[Node, int], str] = field(default_factory=dict)
    places: dict[tuple[Node, int], str] = field(default_factory=dict)
    last_use: dict[tuple[Node, int], int] = field(default_factory=dict)

    def compile(self) -> StraightLine:
        self.names.update(DeadValue=DeadValue, single=single, uninitialized=uninitialized, Variable=Variable)
        for i, node in enumerate(self.order):
            self._bind(i, node)
        slots = self._allocate()
        drops: dict[int, list[tuple[Node, int]]] = defaultdict(list)
        for output, at in self.last_use.items():
            drops[at].append(output)
        chunks: list[Chunk] = []
        lines: dict[CodeType, list[int]] = {}
        for number, start in enumerate(range(0, len(self.order), self.chunk_size)):
            positions = range(start, min(start + self.chunk_size, len(self.order)))
            function, table = self._chunk(f"plan_{number}", positions, drops)
            chunks.append(function)
            lines[function.__code__] = table
        constants = {name: self.names[name] for name in self.constants.values()}
        return StraightLine(self.order, chunks, lines, self.places, self.alias, constants, slots)

    def _bind(self, i: int, node: Node) -> None:
        """Name what the node's line refers to."""
        op = node.op
        if op in NOTHING or op == "_Arg" or op == "_Retval":
            return
        if op in ALIASES and self._is_alias(node):
            for slot, edge in enumerate(node.inputs):
                self.alias[node, slot] = self._root(edge)
        elif op in SENDS or op in RECVS:
            self.names[f"key{i}"] = rendezvous_key(node)
        elif op == "Const":
            self.constants[node, 0] = f"c{i}"
            try:
                self.names[f"c{i}"] = single(self.env.bind(node).call())
            except Exception as e:
                raise located(e, node.name) from e
        else:
            self.names[f"k{i}"] = self.env.bind(node).call

    @staticmethod
    def _is_alias(node: Node) -> bool:
        """An identity of values; one that reads a variable takes its value at that moment instead."""
        return not any(e.dtype.is_ref for e in node.inputs)

    def _root(self, edge: Edge) -> tuple[Node, int]:
        output = edge.node, edge.slot
        return self.alias.get(output, output)

    def _allocate(self) -> int:
        """Give every value that is used a local, or an item of the shared list if another chunk uses it."""
        at = {node: i for i, node in enumerate(self.order)}
        crossing: set[tuple[Node, int]] = set()
        for i, node in enumerate(self.order):
            if (node, 0) in self.alias:
                continue
            for edge in node.inputs:
                root = self._root(edge)
                self.last_use[root] = i
                if at[root[0]] // self.chunk_size != i // self.chunk_size:
                    crossing.add(root)
        slots = itertools.count()
        for root in self.last_use:
            constant = self.constants.get(root)
            if constant is not None:
                self.places[root] = constant
            elif root in crossing:
                self.places[root] = f"S[{next(slots)}]"
            else:
                self.places[root] = f"v{at[root[0]]}_{root[1]}"
        return next(slots)

    def _chunk(self, name: str, positions: range, drops: dict[int, list[tuple[Node, int]]]) -> tuple[Any, list[int]]:
        text = [
            f"def {name}(step, S, args, results):",
            " rendezvous = step.rendezvous; send = rendezvous.send; recv = rendezvous.recv; cancel = step.cancellation"
            if any(self.order[i].op in SENDS or self.order[i].op in RECVS for i in positions)
            else " cancel = step.cancellation",
        ]
        table = [positions.start] * 3
        for i in positions:
            lines = list(self._lines(i, self.order[i]))
            dropped = [self.places[o] for o in drops[i] if o not in self.constants]
            local = [p for p in dropped if not p.startswith("S[")]
            lines += [f"{p} = None" for p in dropped if p.startswith("S[")]
            if local:
                lines.append(f"del {', '.join(local)}")
            if i % CHECK_EVERY == CHECK_EVERY - 1:
                lines.append("if cancel._reason is not None: cancel.check()")
            text += [f" {line}" for line in lines]
            table += [i] * len(lines)
        exec(compile("\n".join(text), f"<{name} on {self.env.device.name}>", "exec"), self.names)
        return self.names[name], table

    def _lines(self, i: int, node: Node) -> Iterator[str]:
        op = node.op
        if op in NOTHING or (node, 0) in self.constants or (node, 0) in self.alias:
            return
        if op in SENDS:
            yield f"send(key{i}, {self._operands(node)}, False)"
        elif op in RECVS:
            target = self.places.get((node, 0), "_")
            if is_client_terminated(node):
                yield f"{target} = recv(key{i}, cancel)[0]"
            else:
                yield f"{target}, dead = recv(key{i}, cancel)"
                yield "if dead: raise DeadValue"
            if target == "_":
                yield "del _"
        elif op == "_Arg":
            target = self.places.get((node, 0), "")
            if target:
                yield f"{target} = args[{node.attr('index')}]"
        elif op == "_Retval":
            yield f"results[{node.attr('index')}] = {self._operands(node)}"
        elif op in ALIASES and len(node.inputs) == 1:
            # A reference is read here; reading it also when nobody uses the value keeps the check of initialization.
            target = self.places.get((node, 0), "")
            yield f"{target} = {self._operands(node)}" if target else self._operands(node)
        else:
            yield from self._call(i, node)

    def _call(self, i: int, node: Node) -> Iterator[str]:
        bound = self.env.bind(node)
        if not node.signature.allows_uninitialized_input:
            for position in ref_positions(node):
                place = self._operand(node, position, read=False)
                yield f"if {place}.__class__ is Variable and {place}._value is None: uninitialized({place})"
        arguments = self._operands(node)
        step = ("step, " if arguments else "step") if bound.spec.step else ""
        call = f"k{i}({step}{arguments})"
        count = len(node.output_types)
        used = [self.places.get((node, slot)) for slot in range(count)]
        if not any(used):
            yield call
        elif count == 1:
            yield f"{used[0]} = single({call})" if has_list_output(node) else f"{used[0]} = {call}"
        elif all(used):
            yield f"{', '.join(map(str, used))} = {call}"
        elif sum(map(bool, used)) == 1:
            slot = next(s for s, place in enumerate(used) if place)
            yield f"{used[slot]} = {call}[{slot}]"
        else:
            yield f"{', '.join(place or '_' for place in used)} = {call}"
            yield "del _"

    def _operands(self, node: Node) -> str:
        reads = reads_of(node)
        return ", ".join(self._operand(node, i, i in reads) for i in range(len(node.inputs)))

    def _operand(self, node: Node, position: int, read: bool) -> str:
        place = self.places[self._root(node.inputs[position])]
        return f"{place}.read()" if read else place


def uninitialized(variable: Variable) -> None:
    raise FailedPreconditionError(f"Attempting to use uninitialized value {variable.name}")
