"""The deadness-aware interpreter of acyclic partitions: nodes one after the other, each skipped where it is dead.

It takes over from a straight-line plan that received a dead tensor, and runs traced steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime.executor.binding import Environment, reads_of, ref_positions
from dtfctl.runtime.executor.keys import DEAD, rendezvous_key
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.executor.straight_line import Left, switch_index, uninitialized
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import (
    BOUNDARIES,
    BRANCHES,
    MERGES,
    NOTHING,
    RECVS,
    SENDS,
    SWITCHES,
    SWITCHES_OF_ANY,
)
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import as_outputs, op_promises
from dtfctl.runtime.kernels.variable import Variable


@dataclass(slots=True)
class _Record:
    """A node as the interpreter sees it; values and nodes are numbered."""

    node: Node
    op: str
    call: Callable[..., Any] | None
    wants_step: bool
    key: str
    index: int
    inputs: list[int]
    controls: list[int]
    reads: tuple[int, ...]
    checked: tuple[int, ...]
    first: int
    count: int
    drops: list[int]


class Sequential:
    """A plan: runs `order`, a topological order without loops, node by node.

    Args:
        order: the nodes; kernels among them must not depend on a later one to stop waiting.
    """

    engine = "interpreter"
    runs_in_line = True

    def __init__(self, order: list[Node], env: Environment) -> None:
        self.order = order
        numbers: dict[tuple[Node, int], int] = {}
        position = {node: i for i, node in enumerate(order)}
        self._records: list[_Record] = []
        last_use: dict[int, int] = {}
        for i, node in enumerate(order):
            first = len(numbers)
            for slot in range(len(node.output_types)):
                numbers[node, slot] = first + slot
            bound = None if _is_built_in(node) else env.bind(node)
            argument, result = env.ends.argument(node), env.ends.result(node)
            is_end = argument is not None or result is not None
            record = _Record(
                node,
                node.op if not is_end else "_Arg" if argument is not None else "_Retval",
                bound.call if bound else None,
                bound.spec.step if bound else False,
                rendezvous_key(node) if (node.op in SENDS or node.op in RECVS) and not is_end else "",
                argument if argument is not None else result if result is not None else -1,
                [numbers[e.node, e.slot] for e in node.inputs],
                [position[c] for c in node.control_inputs],
                reads_of(node),
                () if node.signature.allows_uninitialized_input else ref_positions(node),
                first,
                len(node.output_types),
                [],
            )
            for number in record.inputs:
                last_use[number] = i
            self._records.append(record)
        for number, i in last_use.items():
            self._records[i].drops.append(number)
        self._numbers = numbers

    @property
    def general(self) -> Sequential:
        return self

    def run(
        self,
        step: StepContext,
        args: Sequence[Any],
        results: list[Any],
        left: Left | None = None,
    ) -> None:
        """Run the nodes, or those a straight-line plan has left.

        Raises:
            OpError: a node failed; located.
        """
        values: list[Any] = [None] * len(self._numbers)
        dead_nodes = bytearray(len(self._records))
        start = 0
        late, done = ((), ()) if left is None else (left.late, left.done)
        if left is not None:
            for output, value in left.values.items():
                values[self._numbers[output]] = value
            left.values.clear()
            start = left.at
            if left.dead:
                dead_nodes[start] = 1
                values[self._records[start].first] = DEAD
                start += 1
        trace, cancellation = step.trace, step.cancellation
        for i in (*late, *(i for i in range(start, len(self._records)) if i not in done)):
            record = self._records[i]
            cancellation.check()
            dead = any(dead_nodes[c] for c in record.controls)
            started = time.monotonic_ns() if trace is not None else 0
            try:
                outputs = self._run_node(record, values, dead, step, args, results)
            except Exception as e:
                error = located(e, record.node.name)
                if error is e:
                    raise
                raise error from e
            if trace is not None:
                trace.add(step.device.name, record.node, started, time.monotonic_ns(), outputs or ())
            if outputs is None:
                dead_nodes[i] = 1
                outputs = (DEAD,) * record.count
            values[record.first : record.first + record.count] = outputs
            del outputs
            for number in record.drops:
                values[number] = None

    def _run_node(
        self,
        record: _Record,
        values: list[Any],
        dead: bool,
        step: StepContext,
        args: Sequence[Any],
        results: list[Any],
    ) -> Sequence[Any] | None:
        """Run one node and return its outputs, or None when it is dead."""
        op = record.op
        if op in MERGES:
            return _merge(record, values)
        inputs = [values[n] for n in record.inputs]
        dead = dead or any(v is DEAD for v in inputs)
        for position in record.reads:
            if inputs[position] is not DEAD:
                inputs[position] = inputs[position].read()
        if op in SENDS:
            step.rendezvous.send(record.key, None if dead else inputs[0], dead)
            return None if dead else ()
        if op in RECVS:
            value, received_dead = step.rendezvous.recv(record.key, step.cancellation)
            return None if dead or received_dead else (value,)
        if op == "ControlTrigger":
            return ()
        if dead:
            return None
        return _compute(record, inputs, step, args, results)


def _compute(
    record: _Record, inputs: list[Any], step: StepContext, args: Sequence[Any], results: list[Any]
) -> Sequence[Any]:
    op = record.op
    for position in record.checked:
        if isinstance(inputs[position], Variable) and not inputs[position].is_initialized:
            uninitialized(inputs[position])
    if record.call is not None:
        outputs = as_outputs(record.call(step, *inputs) if record.wants_step else record.call(*inputs))
        if len(outputs) != record.count and record.count:
            raise InvalidArgumentError(f"Op '{op}' gave {len(outputs)} outputs instead of {record.count}")
        return outputs[: record.count]
    if op in SWITCHES:
        return (DEAD, inputs[0]) if inputs[1] else (inputs[0], DEAD)
    if op in SWITCHES_OF_ANY:
        chosen = switch_index(inputs[1], record.count)
        return [inputs[0] if i == chosen else DEAD for i in range(record.count)]
    if op == "_Arg":
        return (args[record.index],)
    if op == "_Retval":
        results[record.index] = inputs[0]
        return ()
    return inputs


def _merge(record: _Record, values: list[Any]) -> Sequence[Any] | None:
    for i, number in enumerate(record.inputs):
        if values[number] is not DEAD:
            value = values[number].read() if i in record.reads else values[number]
            return value, np.array(i, np.int32)
    return None


def _is_built_in(node: Node) -> bool:
    """Tell whether the interpreter runs a node itself; of identities, those whose values just pass."""
    op = node.op
    return (
        op in NOTHING or op in BRANCHES or op in SENDS or op in RECVS or op_promises(op, "passes") or op in BOUNDARIES
    )
