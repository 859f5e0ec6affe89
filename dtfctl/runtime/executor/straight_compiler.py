"""Making straight-line plans.

The function is generated as source, one line a node in running order, and compiled once. Values are its locals, dropped
after their last use, so that variables can be updated in place, if only by a result that takes the local of an operand;
kernels, constants and keys are its globals. Very large graphs become several functions, which pass each other values
through a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from dtfctl.runtime.executor.arrivals import find_groups
from dtfctl.runtime.executor.binding import Environment, reads_of, single
from dtfctl.runtime.executor.blocks import Memory
from dtfctl.runtime.executor.device_memory import is_gpu
from dtfctl.runtime.executor.keys import rendezvous_key
from dtfctl.runtime.executor.liveness import Liveness, guard
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.executor.node_lines import NodeLines
from dtfctl.runtime.executor.observation import Observation
from dtfctl.runtime.executor.shaped import shape_plan
from dtfctl.runtime.executor.shaped_lines import Room
from dtfctl.runtime.executor.straight_line import Chunk, DeadValue, Reshaped, StraightLine, switch_index, uninitialized
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import BOUNDARIES, BRANCHES, MERGES, NOTHING, RECVS, SENDS
from dtfctl.runtime.kernels.registry import op_promises
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import shared_memory

# Nodes a function: enough to make the cost of passing values vanish, few enough for the compiler to stay linear.
CHUNK = 2000
# Nodes between two looks at whether the step was cancelled.
CHECK_EVERY = 8

# Ops whose line is not the call of a kernel.
_NO_CALL = NOTHING | BRANCHES | SENDS | RECVS | BOUNDARIES | {"Const"}


def compile_straight_line(
    order: list[Node],
    env: Environment,
    chunk_size: int = CHUNK,
    seen: Observation | None = None,
    memory: Memory | None = None,
) -> StraightLine:
    """Compile `order`, topological and without loops, to a plan; branches of conditionals become `if` statements.

    Args:
        seen: what a step's nodes gave: the plan is made for such shapes, and for one run at a time. It leaves what
            comes after shapes that differ.
        memory: what such a plan has its values in; its own by default.

    Raises:
        OpError: a node has no kernel, or its kernel refuses its attributes.
    """
    return _Compiler(order=order, env=env, chunk_size=chunk_size, seen=seen, memory=memory or Memory()).compile()


@dataclass(kw_only=True)
class _Compiler(NodeLines):
    chunk_size: int
    seen: Observation | None = None
    memory: Memory
    # Names of constants by the identity of the kernels that give them.
    given: dict[int, str] = field(default_factory=dict)
    reused: dict[str, list[tuple[int, tuple[Node, int]]]] = field(default_factory=dict)
    last_use: dict[tuple[Node, int], int] = field(default_factory=dict)
    slots: int = 0
    # Values from before a group that are used in it last, by its last position.
    ended: dict[int, list[tuple[Node, int]]] = field(default_factory=lambda: defaultdict(list))

    def compile(self) -> StraightLine:
        self.names.update(
            DeadValue=DeadValue,
            Reshaped=Reshaped,
            single=single,
            uninitialized=uninitialized,
            Variable=Variable,
            switch_index=switch_index,
            room=shared_memory.empty,
            empty=np.empty,
        )
        for i, node in enumerate(self.order):
            self.position[node] = i
            self._bind(i, node)
        if any(node.op in BRANCHES for node in self.order):
            self.liveness = Liveness(self.order, self._predicate, self._root)
        if self.seen is not None:
            self._shape(self.seen)
            self._group()
        self._allocate()
        drops: dict[int, list[tuple[Node, int]]] = defaultdict(list)
        rooms = {a.output for _, arrays in self.shaped.calls.values() for a in arrays if isinstance(a, Room)}
        for output, at in self.last_use.items():
            if (
                output not in self.constants
                and output not in self.shaped.buffers
                and (output[0] not in self.shaped.folded or output in rooms)
            ):
                group, made = self.groups.get(at), self.position[output[0]]
                if group is None or made in group.positions:
                    if group is None or made not in group.reads:
                        drops[at].append(output)
                else:
                    # Who of the group uses it last is not known.
                    self.ended[group.positions[-1]].append(output)
        if self.liveness is None and self.seen is None:
            self._reuse_locals(drops)
        chunks: list[Chunk] = []
        lines: dict[CodeType, list[int]] = {}
        for number, start in enumerate(range(0, len(self.order), self.chunk_size)):
            positions = range(start, min(start + self.chunk_size, len(self.order)))
            function, table = self._chunk(f"plan_{number}", positions, drops)
            chunks.append(function)
            lines[function.__code__] = table
        held = [*self.constants.values(), *(self.places[o] for o in self.shaped.buffers if o in self.places)]
        constants = {name: self.names[name] for name in held}
        return StraightLine(
            self.order,
            chunks,
            lines,
            self.places,
            self.reused,
            self.alias,
            constants,
            self.slots,
            self.careful,
            self.names,
            self.shaped.is_worthwhile,
            sorted((self.position[node], by) for node, by in self.shaped.folded.items()),
            list({g.positions.start: g for g in self.groups.values()}.values()),
            frozenset(self.places[o] for o in self.shaped.buffers if o in self.places),
            self.shaped.missing,
        )

    def _bind(self, i: int, node: Node) -> None:
        """Name what the node's line refers to."""
        op = node.op
        if op in NOTHING or op in BOUNDARIES or op in MERGES:
            return
        if op_promises(op, "passes") and self._is_alias(node):
            for slot, edge in enumerate(node.inputs):
                self.alias[node, slot] = self._root(edge)
        elif op in BRANCHES:
            # A value read from a variable is the first output's, which the others share.
            for slot in range(len(node.output_types)):
                self.alias[node, slot] = (node, 0) if reads_of(node) else self._root(node.inputs[0])
            if reads_of(node):
                del self.alias[node, 0]
        elif op in SENDS or op in RECVS:
            if not self._is_end(node):
                self.names[f"key{i}"] = rendezvous_key(node)
        elif op == "Const":
            kernel = self.env.bind(node).call
            # Constants that are alike share their kernel, which the environment holds.
            name = self.constants[node, 0] = self.given.setdefault(id(kernel), f"c{i}")
            if name not in self.names:
                try:
                    self.names[name] = short_scalar(single(kernel()))
                except Exception as e:
                    raise located(e, node.name) from e
        else:
            # What is wrong with it is said now, whatever becomes of its line.
            self.env.bind(node)

    def _shape(self, seen: Observation) -> None:
        """Take what is known of the values' shapes into account."""
        shaped = shape_plan(self.order, self.env, seen, self.alias, self.memory)
        if shaped is None:
            return
        self.shaped = shaped
        position = self.position
        for (node, slot), value in shaped.fixed.items():
            if node.op != "Const":
                name = self.constants[node, slot] = f"x{position[node]}_{slot}"
                self.names[name] = short_scalar(value)
        for (node, slot), array in shaped.buffers.items():
            self.names[f"b{position[node]}_{slot}"] = array
        for node, (into, arrays) in shaped.calls.items():
            i = position[node]
            self.names[f"q{i}"] = into.call
            self.names.update(
                {f"q{i}_{n}": a.spec if isinstance(a, Room) else a for n, a in enumerate((*into.extras, *arrays))}
            )
        for outputs in shaped.guards.values():
            for output, shape in outputs:
                self.names[f"s{position[output[0]]}_{output[1]}"] = shape

    def _group(self) -> None:
        """Find what is done in the order in which it is asked for."""
        if is_gpu(self.env.device) or len(self.order) > self.chunk_size or self.liveness is not None:
            return
        for group in find_groups(self.order, self.shaped.buffers):
            self.groups.update(dict.fromkeys(group.positions, group))
            self.names[f"keys{group.left}"] = [self.names[f"key{stage.start}"] for stage in group.stages]

    def _in_group(self, i: int, lines: list[str]) -> Iterator[str]:
        """Write the lines of the node at position `i` as part of its group."""
        group = self.groups[i]
        left, stages = group.left, group.stages
        if i == group.positions.start:
            yield f"{left} = list(range({len(stages)}))"
            yield f"while {left}:"
            yield f" now = {left}.pop(rendezvous.first([keys{left}[n] for n in {left}], cancel))"
        for n, stage in enumerate(stages):
            if i == stage.start:
                yield f" {'elif' if n else 'if'} now == {n}:"
        for line in lines:
            yield f"  {line}"
        if i == group.positions[-1]:
            yield from self._drop(self.ended[i])

    def _predicate(self, i: int) -> str:
        """Name the place where the predicate of the node at position `i` is kept."""
        if len(self.order) <= self.chunk_size:
            return f"p{i}"
        self.slots += 1
        return f"S[{self.slots - 1}]"

    @staticmethod
    def _is_alias(node: Node) -> bool:
        """Tell whether an identity just passes a value on; one that reads a variable takes its value at that moment."""
        return not reads_of(node)

    def _allocate(self) -> None:
        """Give every value that is used a local, or an item of the shared list if another chunk uses it."""
        at, alias, last_use, folded = self.position, self.alias, self.last_use, self.shaped.folded
        is_cut = len(self.order) > self.chunk_size
        crossing: set[tuple[Node, int]] = set()
        for i, node in enumerate(self.order):
            if alias and (node, 0) in alias and node.op not in BRANCHES:
                continue
            used = folded.get(node, i) if folded else i
            for edge in node.inputs:
                root = alias.get(edge, edge)
                if last_use.get(root, -1) < used:
                    last_use[root] = used
                if is_cut and at[root[0]] // self.chunk_size != used // self.chunk_size:
                    crossing.add(root)
        for node, given in self.shaped.operands.items():
            for root in given:
                self.last_use[root] = max(self.last_use.get(root, 0), at[node])
                if is_cut and at[root[0]] // self.chunk_size != at[node] // self.chunk_size:
                    crossing.add(root)
        for root in self.last_use:
            constant = self.constants.get(root)
            if constant is not None:
                self.places[root] = constant
            elif root in self.shaped.buffers:
                self.places[root] = f"b{at[root[0]]}_{root[1]}"
            elif root in crossing:
                self.places[root] = f"S[{self.slots}]"
                self.slots += 1
            else:
                self.places[root] = f"v{at[root[0]]}_{root[1]}"

    def _reuse_locals(self, drops: dict[int, list[tuple[Node, int]]]) -> None:
        """Let results take the locals of operands that are used for the last time, which then need not be dropped."""
        places, reused = self.places, self.reused
        for i, node in enumerate(self.order):
            dropped = drops.get(i)
            if not dropped:
                continue
            output = node, 0
            if output not in places or len(node.output_types) != 1 or not self._is_call(node):
                continue
            if places[output][0] != "v":
                continue
            for old in dropped:
                place = places[old]
                # A value nobody uses is dropped by the node that gives it.
                if place[0] == "v" and old != output:
                    givers = reused.get(place)
                    if givers is None:
                        givers = reused[place] = [(self.position[old[0]], old)]
                    givers.append((i, output))
                    places[output] = place
                    dropped.remove(old)
                    break

    def _chunk(self, name: str, positions: range, drops: dict[int, list[tuple[Node, int]]]) -> tuple[Any, list[int]]:
        text = [
            f"def {name}(step, S, args, results):",
            " rendezvous = step.rendezvous; send = rendezvous.send; recv = rendezvous.recv; cancel = step.cancellation"
            if any(self._transfers(self.order[i]) for i in positions)
            else " cancel = step.cancellation",
        ]
        table = [positions.start] * 3
        block = ""
        # Values whose last use is in the open block: dropped there, and after it for when it did not run.
        dropped: list[tuple[Node, int]] = []
        plain = self.liveness is None and self.seen is None
        for i in positions:
            node = self.order[i]
            if plain and (node, 0) in self.constants and i % CHECK_EVERY != CHECK_EVERY - 1:
                continue
            if plain and self._is_call(node):
                lines = [*self._call(i, node)]
            else:
                lines = [*self._checks(node), *self._lines(i, node), *self._drop(self._reads_anew(i))]
            wanted = self._guard(node) if lines else block
            added: list[str] = []
            if wanted != block:
                added += self._drop(dropped)
                dropped, block = [], wanted
                if wanted:
                    added.append(f"if {wanted}:")
            if block:
                added += [f" {line}" for line in lines]
                added += [f" {self.places[output]} = None" for output in drops[i]]
                dropped += drops[i]
            else:
                added += lines
                if i in drops:
                    added += self._drop(drops[i])
            if i % CHECK_EVERY == CHECK_EVERY - 1:
                added += self._drop(dropped)
                added.append("if cancel._reason is not None: cancel.check()")
                dropped, block = [], ""
            if i in self.groups:
                added = [*self._in_group(i, added)]
            text += [f" {line}" for line in added]
            table += [i] * len(added)
        last = self._drop(dropped)
        text += [f" {line}" for line in last]
        table += [positions.stop - 1] * len(last)
        exec(_code("\n".join(text), f"<{name} on {self.env.device.name}>"), self.names)
        # Its globals are these names: with the function among them they would be a cycle.
        return self.names.pop(name), table

    @staticmethod
    def _is_call(node: Node) -> bool:
        return node.op not in _NO_CALL and not op_promises(node.op, "passes")

    def _transfers(self, node: Node) -> bool:
        return (node.op in SENDS or node.op in RECVS) and not self._is_end(node)

    def _guard(self, node: Node) -> str:
        """Write the condition on which the node's lines run; "" where they always do, or test it themselves."""
        if self.liveness is None or self._transfers(node) or node.op in MERGES:
            return ""
        return guard(self.liveness.nodes[node])

    def _drop(self, outputs: list[tuple[Node, int]]) -> list[str]:
        """Lines that let go of values; one made inside a branch may not be there."""
        lines, local = [], []
        for output in outputs:
            place = self.places[output]
            if self.liveness is not None or place.startswith("S["):
                lines.append(f"{place} = None")
            else:
                local.append(place)
        if local:
            lines.append(f"del {', '.join(local)}")
        return lines


@lru_cache(64)
def _code(text: str, name: str) -> CodeType:
    """Compile a text, once: plans for other lengths of sentences often have the same lines, and only other values."""
    return compile(text, name, "exec")


def short_scalar(value: Any) -> Any:
    """Make an array of one number without dimensions numpy's scalar, which operators deal with much faster."""
    return value[()] if value.__class__ is np.ndarray and not value.ndim and value.dtype.kind in "fiuc" else value
