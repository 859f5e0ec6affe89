"""Plans for the shapes a partition was seen to have: values in buffers that are kept between steps.

Most partitions get tensors of the same shapes in every step. After a few steps one is observed; what depends on shapes
and constants only is then known, kernels that can fill given arrays do so, in buffers planned by liveness, in place
where their operand is not needed any more, and the rest runs as before. Lines that compare shapes guard all this: where
one differs, the interpreter finishes the step.

No value that anybody may keep is in a buffer: what is fetched, sent, stored or passed to a kernel that does not
promise to let go of its inputs (kernels/promises.py). But what is sent and large is made, in each step, where other
tasks of the host see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import Environment, argument_positions, reads_of
from dtfctl.runtime.executor.blocks import Block, Memory
from dtfctl.runtime.executor.fusion import Fuser, Work
from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.executor.observation import MOST_KEPT, Observation
from dtfctl.runtime.executor.regions import Surroundings, find_regions
from dtfctl.runtime.executor.shaped_lines import Room, Shaped
from dtfctl.runtime.executor.taken_tapes import take_tapes
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import BRANCHES, SENDS
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.parallel import in_parts
from dtfctl.runtime.kernels.into.registry import WIDENED, Into, Spec, load_makers
from dtfctl.runtime.kernels.into.widened import made_in_float32
from dtfctl.runtime.kernels.promises import Promises
from dtfctl.runtime.memory import shared_memory

# Smaller results are left to numpy, which keeps room for them at hand.
_LEAST_BYTES = 1024


def shape_plan(
    order: list[Node],
    env: Environment,
    seen: Observation,
    aliases: Mapping[Output, Output],
    memory: Memory,
) -> Shaped | None:
    """Plan how to run `order` with the shapes seen; None where that would change nothing.

    Args:
        aliases: outputs of identities, and the output whose value they are.
        memory: for buffers.
    """
    if any(node.op in BRANCHES for node in order):
        return None
    planner = _Planner(order, env, seen, aliases, memory)
    planner.plan()
    # For when it is planned again.
    seen.forget(planner.shaped.fixed)
    return planner.shaped if planner.shaped.is_worthwhile else None


class _Planner:
    def __init__(
        self,
        order: list[Node],
        env: Environment,
        seen: Observation,
        aliases: Mapping[Output, Output],
        memory: Memory,
    ) -> None:
        self.order = order
        self.env = env
        self.seen = seen
        self.shaped = Shaped()
        self.makers = load_makers()
        self.fuser = Fuser(order, seen, aliases, env)
        self.root = self.fuser.root
        self.aliases = aliases
        # Where nodes rely on an output's shape.
        self.needs: dict[Output, set[int]] = {}
        # Where the memory behind an output is used last, views included.
        self.last: dict[Output, int] = {}
        self.view_of: dict[Output, Output] = {}
        self.captured: set[Output] = set()
        self.sent: set[Output] = set()
        # Nodes in regions, and what others may keep of what regions give.
        self.regional: set[Node] = set()
        self.fresh: set[Output] = set()
        self.pool = memory.pool()
        self.owners: dict[Output, Block] = {}

    def plan(self) -> None:
        for i, node in enumerate(self.order):
            self._fix(i, node)
        self._leave_out()
        self._find_views()
        self._find_captured()
        self.fuser.fold(self.captured)
        self._forget_needs()
        self.shaped.missing += self.fuser.missing
        self._find_regions()
        works = self._works()
        self.fuser.link(works, self.sent)
        self.fuser.compile(works)
        folds = self.fuser.folds
        self.shaped.folded = folds.folded
        self._find_last_uses(works)
        ends: dict[int, list[Output]] = defaultdict(list)
        for i, node in enumerate(self.order):
            if (node, 0) in self.view_of:
                self._place_view(i, node)
            elif node in folds.chains:
                self._place_chain(i, node, [works[member] for member in folds.chains[node]], ends)
            elif node in works and node not in folds.folded:
                work = works[node]
                self.shaped.calls[node] = self._in_parts(work), self._place(i, work, [], ends)
                if node in folds.work:
                    self.shaped.operands[node] = work.operands
            for output in ends.pop(i, ()):
                self.pool.give(self.owners.pop(output))
        take_tapes(self.order, self.shaped, works, self.aliases, self._memory_behind)
        for output, places in self.needs.items():
            spec = self.seen.spec(output)
            known = output in self.shaped.buffers or output in self.shaped.fixed or output[0] in self.regional
            if places and not known and spec is not None:
                self.shaped.guards.setdefault(self.order[min(places)], []).append((output, spec.shape))

    def _find_regions(self) -> None:
        """Let regions be the work of their last nodes."""
        folds = self.fuser.folds
        left_out: dict[Node, list[Output]] = {node: [] for node in folds.folded}
        around = Surroundings(
            self.seen.spec,
            lambda node: [self.root(e) for e in node.inputs],
            self.fuser.taken_by,
            self.shaped.fixed,
            left_out | {node: work.operands for node, work in folds.work.items()},
            self.aliases,
        )
        outputs: list[Output] = []
        for found in find_regions(self.order, around, self.shaped.missing):
            self.fuser.take_region(found.nodes, Work(found.into, found.operands, found.outputs))
            self.regional.update(found.nodes)
            outputs += [output for output, _ in found.outputs]
        for node in reversed(self.order):
            if node not in self.regional:
                continue
            self.view_of.pop((node, 0), None)
            # Who relies on its shapes before the region has looked at what it gets relies on that.
            for slot in range(len(node.output_types)):
                for first in self.needs.pop((node, slot), ()):
                    self._require(first, [r for e in node.inputs if (r := self.root(e)) not in self.shaped.fixed])
        # A region lets go of what it gets, whatever its nodes' kernels would.
        self._find_captured()
        self.fresh.update(o for o in outputs if self._base(o) in self.captured)

    def _memory_behind(self, node: Node) -> list[Output]:
        return [self._base(self.root(e)) for e in node.inputs]

    # What is known ----------------------------------------------------------------------------------------------------

    def _fix(self, i: int, node: Node) -> None:
        """Find out whether what the node gives is the same in every step of these shapes."""
        if node.op == "Const":
            value = self.seen.outputs.get((node, 0))
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                self.shaped.fixed[node, 0] = value
            return
        if not node.inputs or not is_pure(node):
            return
        roots = [self.root(e) for e in node.inputs]
        if self._promises(node).of_shapes:
            if any(self.seen.spec(r) is None for r in roots) or reads_of(node):
                return
            self._require(i, roots)
        elif not all(r in self.shaped.fixed for r in roots):
            return
        values = [self.seen.outputs.get((node, slot)) for slot in range(len(node.output_types))]
        specs = [self.seen.spec((node, slot)) for slot in range(len(values))]
        if any(isinstance(value, Spec) for value in values):
            return  # its values were not held
        if None not in specs and sum(s.nbytes for s in specs if s is not None) <= MOST_KEPT:
            for slot, value in enumerate(values):
                self.shaped.fixed[node, slot] = value

    def _require(self, i: int, roots: Sequence[Output]) -> None:
        """Note that the node at position `i` relies on the shapes of what it gets."""
        for output in roots:
            self.needs.setdefault(output, set()).add(i)

    def _forget_needs(self) -> None:
        """Let nodes that a fused line replaces rely on nothing: the line says itself what it takes."""
        replaced = {i for i, node in enumerate(self.order) if node in self.fuser.folds.replaced}
        for places in self.needs.values():
            places -= replaced

    def _leave_out(self) -> None:
        """Leave out nodes of which only the shape is wanted, such as the mean of a loss that nobody fetches."""
        for node in reversed(self.order):
            users = self.fuser.users((node, 0))
            if not users or not self._promises(node).is_total or reads_of(node) or (node, 0) in self.shaped.fixed:
                continue
            if self._has_known_shape(node) and all(self._is_fixed(self.order[user]) for user in users):
                for first in self.needs.pop((node, 0), ()):
                    self._require(first, [r for e in node.inputs if (r := self.root(e)) not in self.shaped.fixed])
                self.fuser.folds.folded[node] = max(users)

    def _promises(self, node: Node) -> Promises:
        return self.env.bind(node).spec.promises

    def _has_known_shape(self, node: Node) -> bool:
        """Tell whether the node's results have the shapes seen wherever its inputs have theirs."""
        follows = self._promises(node).shape_from
        if follows is None or any(self.seen.spec(self.root(e)) is None for e in node.inputs):
            return False
        values = argument_positions(node, node.signature.inputs, follows.values) if follows.values else ()
        return all(self.root(node.inputs[p]) in self.shaped.fixed for p in values)

    def _is_fixed(self, node: Node) -> bool:
        outputs = [(node, slot) for slot in range(len(node.output_types))]
        return bool(outputs) and all(output in self.shaped.fixed for output in outputs)

    # Who has which memory ---------------------------------------------------------------------------------------------

    def _find_views(self) -> None:
        """Find the outputs that are others' memory."""
        for node in self.order:
            output = (node, 0)
            if output in self.shaped.fixed or not self._promises(node).is_view or node.inputs[0].dtype.is_ref:
                continue
            if self._has_known_shape(node):
                self.view_of[output] = self.root(node.inputs[0])

    def _base(self, output: Output) -> Output:
        while output in self.view_of:
            output = self.view_of[output]
        return output

    def _uses(self) -> Iterator[tuple[int, Node, Output]]:
        """List each node that does something with some memory, with its position."""
        for i, node in enumerate(self.order):
            if (node, 0) not in self.view_of and (node, 0) not in self.aliases:
                for edge in node.inputs:
                    yield i, node, self._base(self.root(edge))

    def _find_captured(self) -> None:
        """Find the memory somebody may keep, and the large memory that goes to other tasks."""
        self.captured.clear()
        self.sent.clear()
        for _, node, base in self._uses():
            if (
                node not in self.regional
                and (node, 0) not in self.shaped.fixed
                and not self._promises(node).lets_go_at(node)
            ):
                self.captured.add(base)
                if node.op in SENDS and not is_client_terminated(node) and self._is_large(base):
                    self.sent.add(base)

    def _is_large(self, output: Output) -> bool:
        """Tell whether an output would travel in shared memory."""
        spec = self.seen.spec(output)
        return spec is not None and spec.nbytes >= shared_memory.LEAST

    def _find_last_uses(self, works: Mapping[Node, Work]) -> None:
        for i, node, base in self._uses():
            self.last[base] = max(self.last.get(base, i), self.shaped.folded.get(node, i))
        for i, node in enumerate(self.order):
            if node in works:
                for operand in works[node].operands:
                    base = self._base(operand)
                    self.last[base] = max(self.last.get(base, i), self.shaped.folded.get(node, i))

    # What is done -----------------------------------------------------------------------------------------------------

    def _works(self) -> dict[Node, Work]:
        """Find what the line of each node does, where it has a form for these shapes."""
        works = dict(self.fuser.folds.work)
        for node in self.order:
            known = node in works or node in self.fuser.folds.folded or (node, 0) in self.view_of
            if known or (node, 0) in self.shaped.fixed:
                continue
            made = self._made(node)
            if made is not None:
                if made.into.beside_onednn is not None and self.fuser.has_onednn:
                    made.into = made.into.beside_onednn()
                works[node] = made
                self.shaped.missing += made.into.wants
        return works

    def _made(self, node: Node) -> Work | None:
        """Make the form of the node's kernel that fits; None where its results may not or should not be in buffers."""
        maker = self.makers.get(node.op)
        if maker is None:
            return None
        roots = [self.root(e) for e in node.inputs]
        inputs = [
            None if e.dtype.is_ref and p not in reads_of(node) else self.seen.spec(r)
            for p, (e, r) in enumerate(zip(node.inputs, roots))
        ]
        if reads_of(node):
            return None
        outputs = [self.seen.spec((node, slot)) for slot in range(len(node.output_types))]
        specs = [s for s in outputs if s is not None]
        into = maker(build := self.env.build(node), inputs, specs)
        if into is None and node.op in WIDENED:
            into = made_in_float32(maker, build, inputs, specs)
        if into is None or (into.fills and len(specs) != len(outputs)):
            return None
        if into.fills and not into.is_guarded and not self._has_known_shape(node):
            return None
        work = Work(into, roots, [((node, slot), s) for slot, s in enumerate(specs)] if into.fills else [])
        return work if self._may_be_placed(work) else None

    def _may_be_placed(self, work: Work) -> bool:
        if not work.into.fills:
            return True
        if max(spec.nbytes for _, spec in work.outputs) < _LEAST_BYTES:
            return False
        return not any(output in self.captured and output not in self.sent for output, _ in work.outputs)

    def _in_parts(self, work: Work) -> Into:
        """Share work among several cores, if it is large."""
        if not work.into.by_rows:
            return work.into
        call = in_parts([self.fuser.stage(work)])
        # What a form has besides is in the call.
        step = None if work.into.extras else work.into.step
        return work.into if call is None else replace(work.into, call=call, extras=(), step=step)

    # Where values are put ---------------------------------------------------------------------------------------------

    def _place_view(self, i: int, node: Node) -> None:
        source = self.view_of[node, 0]
        held, spec = self.shaped.buffers.get(source), self.seen.spec((node, 0))
        if spec is None:
            return
        if held is not None:
            self.shaped.buffers[node, 0] = held.reshape(spec.shape)
        elif self.seen.spec(source) == spec:
            self._require(i, [source])
            self.shaped.same.add(node)

    def _place_chain(self, i: int, node: Node, works: list[Work], ends: dict[int, list[Output]]) -> None:
        call = in_parts([self.fuser.stage(work) for work in works])
        assert call is not None, "a chain is made of stages that can be run in parts"
        arrays: list[list[Any]] = []
        scratch: list[Block] = []
        for n, work in enumerate(works):
            placed = self._place(i, work, works[n + 1 :], ends, scratch)
            arrays.append(placed)
        for block in scratch:
            self.pool.give(block)
        counts = [(len(work.operands), len(placed)) for work, placed in zip(works, arrays)]
        self.shaped.operands[node] = [operand for work in works for operand in work.operands]
        flat = [array for placed in arrays for array in placed]
        self.shaped.calls[node] = Into(_by_stages(call, counts)), flat

    def _place(
        self,
        i: int,
        work: Work,
        later: list[Work],
        ends: dict[int, list[Output]],
        held: list[Block] | None = None,
    ) -> list[Any]:
        """Find room for what the work at position `i` gives; the arrays it gets besides its operands.

        Args:
            later: works that the same line does afterwards.
            held: gets the scratch memory, which is to be given back when the line is done.
        """
        into = work.into
        self._require(i, [r for r in work.operands if self.seen.spec(r) is not None])
        arrays: list[Any] = []
        scratch = [self.pool.take(s.nbytes) for s in into.scratch]
        for n, (output, spec) in enumerate(work.outputs):
            if output in self.sent or output in self.fresh:
                arrays.append(Room(output, spec, self._base(output) in self.sent))
                continue
            operand = self._reusable(i, work, later, spec) if n == 0 else None
            if operand is None:
                block = self.pool.take(spec.nbytes)
                array = block.array(spec)
            else:
                # The very same array: with another one of the same memory numpy has to find out that they are alike.
                block = self.owners[self._base(operand)].share()
                array = self.shaped.buffers[operand]
            self.shaped.buffers[output] = array
            arrays.append(array)
            self.owners[output] = block
            ends[max(self.last.get(output, i), i)].append(output)
        arrays += [block.array(s) for block, s in zip(scratch, into.scratch)]
        if held is None:
            for block in scratch:
                self.pool.give(block)
        else:
            held += scratch
        return arrays

    def _reusable(self, i: int, work: Work, later: list[Work], spec: Spec) -> Output | None:
        """Find an operand in a buffer that nobody needs after this work; None where there is none."""
        for position in work.into.in_place:
            operand = work.operands[position]
            base = self._base(operand)
            if base not in self.owners or self.last.get(base) != i or self.seen.spec(operand) != spec:
                continue
            others = [r for p, r in enumerate(work.operands) if p not in work.into.in_place]
            others += [r for w in later for r in w.operands]
            if any(self._base(r) == base for r in others):
                continue
            return operand
        return None


def _by_stages(call: Callable[..., None], counts: list[tuple[int, int]]) -> Callable[..., None]:
    """`call` takes the operands and arrays of each stage together; this takes first all operands, then all arrays."""
    operands = sum(n for n, _ in counts)
    order: list[int] = []
    start, end = 0, operands
    for inputs, arrays in counts:
        order += [*range(start, start + inputs), *range(end, end + arrays)]
        start, end = start + inputs, end + arrays
    return lambda *values: call(*[values[n] for n in order])
