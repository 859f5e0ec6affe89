"""What nodes are in straight-line plans: the lines of each, once it is known where values are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtfctl.runtime.executor.arrivals import Group
from dtfctl.runtime.executor.binding import Environment, has_list_output, reads_of, ref_positions
from dtfctl.runtime.executor.device_memory import is_gpu
from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.executor.liveness import Liveness, guard
from dtfctl.runtime.executor.shaped_lines import Room, Shaped
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.framework.structural_ops import BRANCHES, MERGES, NOTHING, RECVS, SENDS, SWITCHES
from dtfctl.runtime.kernels.admission import MOST_UNSEEN
from dtfctl.runtime.kernels.registry import op_promises

# What these do to numbers is quickest said with the operator: numpy's scalars have a short way for it.
OPERATORS: dict[Any, str] = {
    np.add: "{} + {}",
    np.subtract: "{} - {}",
    np.multiply: "{} * {}",
    np.true_divide: "{} / {}",
    np.negative: "-{}",
}
# A shape of more is one of its own.
_MOST_ORIGINS = 16
_ONE_ITEM: frozenset[Any] = frozenset()


@dataclass(kw_only=True)
class NodeLines:
    """Lines of a plan, node by node.

    Attributes:
        order: the nodes, in running order; `position` has where each is in it.
        shaped: what is known of shapes.
        names: the plan's globals, which lines add to.
        alias: outputs that are others.
        constants: names of outputs that are the same in all runs.
        places: where outputs are: locals, globals, or items of the list that the functions of a plan share.
        careful: see `StraightLine`.
        groups: by the position of each node in one.
        origins, looked_at: of the shapes of outputs; see `_may_outgrow`.
    """

    order: list[Node]
    env: Environment
    shaped: Shaped = field(default_factory=Shaped)
    names: dict[str, Any] = field(default_factory=dict)
    alias: dict[tuple[Node, int], tuple[Node, int]] = field(default_factory=dict)
    constants: dict[tuple[Node, int], str] = field(default_factory=dict)
    places: dict[tuple[Node, int], str] = field(default_factory=dict)
    liveness: Liveness | None = None
    careful: dict[int, tuple[Callable[..., Any], str]] = field(default_factory=dict)
    position: dict[Node, int] = field(default_factory=dict)
    origins: dict[tuple[Node, int], frozenset[Any]] = field(default_factory=dict)
    looked_at: set[frozenset[Any]] = field(default_factory=set)
    groups: dict[int, Group] = field(default_factory=dict)

    def _is_end(self, node: Node) -> bool:
        return self.env.ends.argument(node) is not None or self.env.ends.result(node) is not None

    def _root(self, edge: Edge) -> tuple[Node, int]:
        return self.alias.get(edge, edge)

    def _checks(self, node: Node) -> Iterator[str]:
        """Lines that see to it that values have the shapes the node is planned for."""
        i = self.position[node]
        guards = self.shaped.guards
        checked = [output for output, _ in guards.get(node, ())]
        if i in self.groups:
            # Those of another stage may come later.
            given = {self._root(edge) for edge in node.inputs}
            group = [self.order[n] for n in self.groups[i].positions]
            checked += [o for other in group for o, _ in guards.get(other, ()) if o in given and o not in checked]
            for output in self._reads_anew(i):
                yield f"{self.places[output]} = {self._operands(output[0])}"
        for output in checked:
            yield f"if {self.places[output]}.shape != s{self.position[output[0]]}_{output[1]}: raise Reshaped"

    def _reads_anew(self, i: int) -> list[tuple[Node, int]]:
        """Variables that the node at position `i` of a group reads for itself."""
        group = self.groups.get(i)
        inputs = self.order[i].inputs if group is not None else ()
        return [(e.node, e.slot) for e in inputs if group is not None and self.position[e.node] in group.reads]

    def _lines(self, i: int, node: Node) -> Iterator[str]:
        op = node.op
        if i in self.groups and i in self.groups[i].reads:
            return
        if node in self.shaped.calls:
            yield from self._shaped_call(i, node)
        elif (node, 0) in self.shaped.buffers or node in self.shaped.folded:
            return
        elif node in self.shaped.same:
            target = self.places.get((node, 0), "")
            if target:
                yield f"{target} = {self.places[self._root(node.inputs[0])]}"
        elif op in BRANCHES:
            yield from self._merge(node) if op in MERGES else self._switch(node)
        elif op in NOTHING or (node, 0) in self.constants or (node, 0) in self.alias:
            return
        elif (argument := self.env.ends.argument(node)) is not None:
            target = self.places.get((node, 0), "")
            if target:
                yield f"{target} = args[{argument}]"
        elif (result := self.env.ends.result(node)) is not None:
            yield f"results[{result}] = {self._operands(node)}"
        elif op in SENDS:
            condition = guard(self.liveness.nodes[node]) if self.liveness is not None else ""
            sending = f"send(key{i}, {self._operands(node)}, False)"
            if condition:
                yield f"if {condition}: {sending}"
                yield f"else: send(key{i}, None, True)"
            else:
                yield sending
        elif op in RECVS:
            yield from self._receive(i, node)
        elif len(node.inputs) == 1 and op_promises(op, "passes"):
            # A reference is read here; reading it also when nobody uses the value keeps the check of initialization.
            target = self.places.get((node, 0), "")
            yield f"{target} = {self._operands(node)}" if target else self._operands(node)
        else:
            yield from self._call(i, node)

    def _receive(self, i: int, node: Node) -> Iterator[str]:
        target = self.places.get((node, 0), "_")
        if is_client_terminated(node):
            yield f"{target} = recv(key{i}, cancel)[0]"
        elif self.liveness is not None:
            predicate = self.liveness.predicates[node]
            yield f"{target}, {predicate} = recv(key{i}, cancel)"
            yield f"{predicate} = not {predicate}"
        else:
            yield f"{target}, dead = recv(key{i}, cancel)"
            yield "if dead: raise DeadValue"
        if target == "_":
            yield "del _"

    def _switch(self, node: Node) -> Iterator[str]:
        """Write the lines of a switch: only its predicate is set, unless another switch has set the same one before."""
        assert self.liveness is not None
        predicate = self.liveness.predicates.get(node)
        if predicate is not None:
            chosen = self._operand(node, 1, read=1 in reads_of(node))
            if node.op in SWITCHES:
                yield f"{predicate} = True if {chosen} else False"
            else:
                yield f"{predicate} = switch_index({chosen}, {len(node.output_types)})"
        if 0 in reads_of(node) and (node, 0) in self.places:
            yield f"{self.places[node, 0]} = {self._operand(node, 0, read=True)}"

    def _merge(self, node: Node) -> Iterator[str]:
        """Write the lines of a merge, which takes its first live input."""
        assert self.liveness is not None
        reads = reads_of(node)
        value, index = self.places.get((node, 0)), self.places.get((node, 1))
        predicate = self.liveness.predicates.get(node)
        for position, edge in enumerate(node.inputs):
            condition = guard(self.liveness.of(edge)) or "True"
            yield f"{'elif' if position else 'if'} {condition}:"
            if value:
                yield f" {value} = {self._operand(node, position, position in reads)}"
            if index:
                self.names[f"n{position}"] = np.array(position, np.int32)
                yield f" {index} = n{position}"
            if predicate:
                yield f" {predicate} = True"
            yield " pass"
        if predicate:
            yield f"else: {predicate} = False"

    def _call(self, i: int, node: Node) -> Iterator[str]:
        bound = self.env.bind(node)
        plain = bound.call if bound.call is np.negative else getattr(bound.call, "__wrapped__", None)
        if (
            plain is not None
            and len(node.output_types) == 1
            and not has_list_output(node)
            and not is_gpu(self.env.device)
        ):
            yield self._plain(i, node, bound.call, plain)
            return
        yield from self._initialized(node)
        arguments = self._operands(node)
        step = ("step, " if arguments else "step") if bound.spec.step else ""
        call = f"k{i}({step}{arguments})"
        self.names[f"k{i}"] = bound.call
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

    def _plain(self, i: int, node: Node, kernel: Callable[..., Any], function: Any) -> str:
        """Write the line of a kernel that is `function` with checks around it, which are left for when it fails."""
        reads = reads_of(node)
        places = [self.places[self._root(edge)] for edge in node.inputs]
        operands = ", ".join([f"{p}.read()" if n in reads else p for n, p in enumerate(places)] if reads else places)
        self.careful[i] = kernel, operands
        operator = OPERATORS.get(function)
        grows = len(places) == 2 and self._may_outgrow(node)
        if grows and reads:
            # Read once only.
            self.names[f"k{i}"] = kernel
            value = f"k{i}({operands})"
        else:
            if operator is not None:
                value = operator.format(*(f"{p}.read()" if n in reads else p for n, p in enumerate(places)))
            else:
                self.names[f"k{i}"] = function
                value = f"k{i}({operands})"
            if grows:
                self.names[f"K{i}"] = kernel
                value = f"{value} if {places[0]}.size * {places[1]}.size < {MOST_UNSEEN} else K{i}({operands})"
        target = self.places.get((node, 0), "")
        return f"{target} = {value}" if target else value

    def _may_outgrow(self, node: Node) -> bool:
        """Tell whether what two operands are broadcast to may be large, and larger than all that was looked at before.

        A shape is what it is broadcast from: known shapes, and outputs whose shape only a step knows.
        """
        inputs = node.inputs
        first, last = self._shape_of(inputs[0]), self._shape_of(inputs[1])
        if last <= first or first < last:
            self.origins[node, 0] = first if last <= first else last
            return False
        shape = self.origins[node, 0] = first | last
        if shape in self.looked_at:
            return False
        if self.liveness is None:
            # Else what looked may not have run.
            self.looked_at.add(shape)
        if len(shape) > _MOST_ORIGINS:
            self.origins[node, 0] = frozenset([(node, 0)])
        if any(type(origin[0]) is Node for origin in shape):
            return True
        try:
            sizes = [math.prod(origin) for origin in shape]
            return bool(max(MOST_UNSEEN, *sizes) <= math.prod(np.broadcast_shapes(*shape)))
        except ValueError:
            return True

    def _shape_of(self, edge: Edge) -> frozenset[Any]:
        output, known, constants = self._root(edge), self.origins, self.constants
        found = known.get(output)
        while found is None and output not in constants and self._keeps_shape(output[0]):
            output = self._root(output[0].inputs[0])
            found = known.get(output)
        if found is None:
            name = constants.get(output)
            if name is None:
                # A variable's is not what the graph says: whoever assigns it without validation gives it another.
                found = known[output] = frozenset([output])
            else:
                value = self.names[name]
                # What has one item makes nothing larger.
                found = _ONE_ITEM if getattr(value, "size", 0) == 1 else frozenset([np.shape(value)])
        return found

    def _keeps_shape(self, node: Node) -> bool:
        """Tell whether the node's result has the shape of its first input."""
        follows = self.env.bind(node).spec.promises.shape_from
        return follows is not None and follows.is_first

    def _shaped_call(self, i: int, node: Node) -> Iterator[str]:
        """Write the lines of a kernel that writes where it is told to."""
        into, arrays = self.shaped.calls[node]
        yield from self._initialized(node)
        given = self.shaped.operands.get(node)
        operands = self._operands(node) if given is None else ", ".join(self.places[o] for o in given)
        given_names = [f"q{i}_{n}" for n in range(len(into.extras) + len(arrays))]
        rooms: dict[str, str] = {}
        for n, array in enumerate(arrays, len(into.extras)):
            if isinstance(array, Room):
                given_names[n] = f"r{i}_{n}"
                rooms[given_names[n]] = self.places[array.output]
                yield f"r{i}_{n} = {'room' if array.is_sent else 'empty'}(*q{i}_{n})"
        if into.fills and given is None:
            self.careful[i] = self.env.bind(node).call, operands
        target = "" if into.fills else self.places.get((node, 0), "")
        call = f"q{i}({', '.join([*([operands] if operands else []), *given_names])})"
        yield f"{target} = {call}" if target else call
        for name, place in rooms.items():
            yield f"{place} = {name}"
            yield f"del {name}"

    def _initialized(self, node: Node) -> Iterator[str]:
        """Lines that see to it that the variables whose references the node takes have values."""
        if not node.signature.allows_uninitialized_input:
            for position in ref_positions(node):
                place = self._operand(node, position, read=False)
                yield f"if {place}.__class__ is Variable and not {place}._has_value: uninitialized({place})"

    def _operands(self, node: Node) -> str:
        reads = reads_of(node)
        if reads:
            return ", ".join([self._operand(node, i, i in reads) for i in range(len(node.inputs))])
        return ", ".join([self.places[self._root(edge)] for edge in node.inputs])

    def _operand(self, node: Node, position: int, read: bool) -> str:
        place = self.places[self._root(node.inputs[position])]
        return f"{place}.read()" if read else place
