"""What nodes of a plan for known shapes do at once.

A node's work may be done later, by the line of another one: an update of a variable makes the product that is its
gradient, a bias is added by the convolution it follows (kernels/into/fusions.py: which nodes, their kernels say), and
large work element by element goes through a chain of nodes piece by piece, so that a piece is in cache when the next
node wants it. The line that does it stands where the last of the nodes stood, so it may have no user before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Protocol

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import Environment, reads_of
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.kernels.compiled import chains, jit
from dtfctl.runtime.kernels.into import parallel
from dtfctl.runtime.kernels.into.fusions import Fusion, Line, OneDnn, Output, fusion_rules, users_of_onednn
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.native.sketch import Sketch
from dtfctl.runtime.kernels.registry import KernelBuild

_MOST_STAGES = 16


@dataclass
class Work:
    """What a line does: run one node, or several at once.

    Attributes:
        operands: what the call gets.
        outputs: what it fills, if it fills anything.
    """

    into: Into
    operands: list[Output]
    outputs: list[tuple[Output, Spec]]


class Seen(Protocol):
    """What an observed step had."""

    def spec(self, output: Output) -> Spec | None:
        """Return the shape and dtype of an output; None if it is no array."""


@dataclass
class Folds:
    """What is done for several nodes at once, found by a `Fuser`.

    Attributes:
        work: what the line of a node does that does more than the node, but for chains.
        chains: by the last node of each, all of them in order.
        folded: nodes that another's line does, and its position.
        replaced: those of them that a rule has a line for.
    """

    work: dict[Node, Work] = field(default_factory=dict)
    chains: dict[Node, list[Node]] = field(default_factory=dict)
    folded: dict[Node, int] = field(default_factory=dict)
    replaced: set[Node] = field(default_factory=set)


class Fuser:
    """Finds what can be done at once.

    Args:
        order: the plan's nodes; seen: their shapes; aliases: outputs of identities, and whose values they are.
    """

    def __init__(self, order: list[Node], seen: Seen, aliases: Mapping[Output, Output], env: Environment) -> None:
        self._order = order
        self._seen = seen
        self._aliases = aliases
        self._build = env.build
        self._position = {node: i for i, node in enumerate(order)}
        # Positions of those who take an output; identities do not count, their users do.
        self._users: dict[Output, list[int]] = defaultdict(list)
        for i, node in enumerate(order):
            if (node, 0) not in aliases:
                for edge in node.inputs:
                    self._users[self.root(edge)].append(i)
        # Values that only work done at once has, behind the outputs of a node.
        self._hidden: dict[Output, Spec] = {}
        # Outputs that another node's line makes, and its position.
        self._late: dict[Output, int] = {}
        self.folds = Folds()
        # What could be done at once by code that is yet to be compiled.
        self.missing: list[Sketch] = []

    def root(self, edge: Edge) -> Output:
        output = (edge.node, edge.slot)
        return self._aliases.get(output, output)

    def spec(self, output: Output) -> Spec | None:
        return self._seen.spec(output)

    def build(self, node: Node) -> KernelBuild:
        return self._build(node)

    @cached_property
    def has_onednn(self) -> bool:
        tells = users_of_onednn()
        return any(node.op in tells and self._is_onednns(tells[node.op], node) for node in self._order)

    def _is_onednns(self, tell: OneDnn, node: Node) -> bool:
        inputs = [self.spec(self.root(e)) for e in node.inputs]
        return not reads_of(node) and tell(self._build(node), inputs, [self.spec((node, 0))])

    def users(self, output: Output) -> list[int]:
        """Return the positions of the nodes that take an output."""
        return self._users.get(output, [])

    def taken_by(self, output: Output) -> list[Node]:
        return [self._order[i] for i in dict.fromkeys(self.users(output))]

    def only_made_by(self, edge: Edge, *ops: str) -> Node | None:
        made = self.root(edge)
        return made[0] if made[1] == 0 and made[0].op in ops and len(self.users(made)) == 1 else None

    # Some nodes' work at once -----------------------------------------------------------------------------------------

    def fold(self, captured: Collection[Output]) -> None:
        """Find what one call does for several nodes.

        Args:
            captured: outputs that somebody may keep, and that can thus not be filled.
        """
        rules = fusion_rules()
        for node in self._order:
            fusions = (fusion for rule in rules.get(node.op, ()) for fusion in rule(node, self))
            for fusion in () if reads_of(node) else fusions:
                if not self._may_be(fusion, captured):
                    continue
                wants = [sketch for line in fusion for sketch in line.into.wants]
                if not wants:
                    self._take(fusion)
                    break
                self.missing += wants

    def _may_be(self, fusion: Fusion, captured: Collection[Output]) -> bool:
        """Tell whether nobody misses what the lines do not make, or make later than the nodes they stand for.

        Memory and order rest on this alone: a rule need not have looked at anything.
        """
        lines = {line.node: line for line in fusion}
        by = _lines_by_node(fusion)
        made = {output: line.node for line in fusion for output, _ in line.outputs}
        if len(by) != sum(1 + len(line.replaces) for line in fusion):
            return False
        for node, line in by.items():
            if reads_of(node) or node in self.folds.work or node in self.folds.folded:
                return False
            if node not in lines and (not is_pure(node) or self._position[node] > self._position[line]):
                return False
            for slot in range(len(node.output_types)):
                output = (node, slot)
                users = self.users(output)
                if output in made:
                    # It is there once the line has run.
                    if output in captured or any(user <= self._position[made[output]] for user in users):
                        return False
                elif node in lines:
                    if lines[node].into.fills:
                        return False
                elif any(self._order[user] not in by for user in users):
                    return False
        return all(self._is_there(operand, line, by, made) for line in fusion for operand in line.operands)

    def _is_there(self, operand: Output, line: Line, by: Mapping[Node, Node], made: Mapping[Output, Node]) -> bool:
        """Tell whether an operand was made when a line of a fusion runs."""
        maker, slot = operand
        if operand in made:
            at = self._position[made[operand]]
        elif by.get(maker, maker) is not maker or slot >= len(maker.output_types):
            return False
        elif maker in self.folds.folded:
            if operand not in self._late:
                return False
            at = self._late[operand]
        else:
            at = self._position[maker]
        return at < self._position[line.node]

    def _take(self, fusion: Fusion) -> None:
        for line in fusion:
            self.folds.work[line.node] = Work(line.into, list(line.operands), list(line.outputs))
            for output, spec in line.outputs:
                maker, slot = output
                if slot >= len(maker.output_types):
                    self._hidden[output] = spec
                elif maker is not line.node:
                    self._late[output] = self._position[line.node]
        by = _lines_by_node(fusion)
        for node, by_line in by.items():
            if node is not by_line:
                # Where a line cannot be run, nodes before it that would have made its operands are run after all.
                takers = [self._order[i] for slot in range(len(node.output_types)) for i in self.users((node, slot))]
                last = [self._position[by[taker]] for taker in takers if taker in by]
                self.folds.replaced.add(node)
                self.folds.folded[node] = max(self._position[by_line], *last, 0)

    def take_region(self, nodes: list[Node], work: Work) -> None:
        """Let the line of the last of some nodes do the work of all."""
        *others, last = nodes
        self.folds.work[last] = work
        for node in others:
            self.folds.folded[node] = self._position[last]

    # Chains -----------------------------------------------------------------------------------------------------------

    def link(self, works: Mapping[Node, Work], sent: Collection[Output]) -> None:
        """Find chains of nodes that go through large arrays row by row.

        Args:
            works: what lines do, each of them alone.
            sent: outputs another task waits for, which thus wait for nothing.
        """
        for node in self._order:
            work = works.get(node)
            if work is None or not self._is_long(node, work):
                continue
            for operand in work.operands:
                if operand in sent:
                    continue
                chain = self.folds.chains.get(operand[0], [operand[0]])
                if len(chain) < _MOST_STAGES and self._continues(chain, node, works):
                    self.folds.chains.pop(operand[0], None)
                    self.folds.chains[node] = [*chain, node]
                    for member in chain:
                        self.folds.folded[member] = self._position[node]
                    break

    def _is_long(self, node: Node, work: Work) -> bool:
        """Tell whether the node's work is worth being done in pieces; it must not do another's work yet."""
        if not work.into.by_rows or node in self.folds.folded or node in self.folds.work:
            return False
        return self.stage(work).nbytes >= parallel.LEAST_BYTES

    def _continues(self, chain: list[Node], node: Node, works: Mapping[Node, Work]) -> bool:
        last, at = works.get(chain[-1]), self._position[node]
        if last is None or not last.into.by_rows or chain[-1] in self.folds.folded or chain[-1] in self.folds.work:
            return False
        within = {self._position[member] for member in chain}
        made = [output for member in chain for output, _ in works[member].outputs]
        if any(user < at and user not in within for output in made for user in self._users[output]):
            return False
        return parallel.in_parts([self.stage(works[member]) for member in (*chain, node)]) is not None

    def compile(self, works: dict[Node, Work]) -> None:
        """Make loops of arithmetic that goes through large arrays several times, or whose result is larger than caches;
        chains are cut where there is other.

        Args:
            works: as of `link`; gets what the lines of such loops do.
        """
        if not jit.is_available():
            return
        long = [
            members
            for members in self.folds.chains.values()
            if max(spec.nbytes for m in members for _, spec in works[m].outputs) >= jit.LEAST_BYTES
        ]
        alone = [
            [node]
            for node, work in works.items()
            if node not in self.folds.chains and node not in self.folds.folded and self._is_loop(work)
        ]
        for members in long:
            del self.folds.chains[members[-1]]
            for member in members[:-1]:
                del self.folds.folded[member]
        for members in [*long, *alone]:
            for _, run in groupby(members, lambda m: (bool(works[m].into.formula), works[m].outputs[0][1])):
                self._join(list(run), works)

    def _join(self, run: list[Node], works: dict[Node, Work]) -> None:
        """Let the line of the last node do all of them, as a loop if that can be."""
        last = run[-1]
        work = self._as_loop(run, works) if len(run) > 1 or self._is_loop(works[last]) else None
        if work is not None:
            works[last] = self.folds.work[last] = work
        elif len(run) > 1:
            self.folds.chains[last] = run
        for member in run[:-1]:
            self.folds.folded[member] = self._position[last]

    def _as_loop(self, run: list[Node], works: Mapping[Node, Work]) -> Work | None:
        spec = works[run[-1]].outputs[0][1]
        if not works[run[-1]].into.formula or spec.nbytes < jit.LEAST_BYTES:
            return None
        within = {self._position[node] for node in run}
        operands: dict[Output, int] = {}
        made: dict[Output, int] = {}
        links: list[chains.Link] = []
        outputs: list[tuple[Output, Spec]] = []
        for node in run:
            work, output = works[node], (node, 0)
            found = [(made[o],) if o in made else operands.setdefault(o, len(operands)) for o in work.operands]
            kept = node is run[-1] or not within.issuperset(self._users[output])
            links.append(chains.Link(work.into.formula, tuple(found), kept))
            made[output] = len(made)
            if kept:
                outputs.append((output, spec))
        into = chains.chain(links, self._specs(operands), spec)
        return None if into is None else Work(into, list(operands), outputs)

    def _is_loop(self, work: Work) -> bool:
        """Tell whether work that is no chain is worth a loop."""
        formula = work.into.formula
        if takes_passes(formula):
            return True
        return bool(formula) and chains.streams(self._specs(work.operands), work.outputs[0][1])

    def _specs(self, operands: Iterable[Output]) -> list[Spec | None]:
        return [self._hidden.get(o) or self._seen.spec(o) for o in operands]

    def stage(self, work: Work) -> parallel.Stage:
        """Make work a stage of a chain."""
        return parallel.stage_of(work.into, self._specs(work.operands), [spec for _, spec in work.outputs])


def _lines_by_node(fusion: Fusion) -> dict[Node, Node]:
    """Map each node whose work a fusion does to the node whose line does it."""
    return {node: line.node for line in fusion for node in (line.node, *line.replaces)}


def takes_passes(formula: str) -> bool:
    """Tell whether numpy goes through its arrays several times for a formula, or slowly."""
    return " if " in formula or formula.count("{") > 2
