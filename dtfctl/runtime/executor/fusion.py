"""What nodes of a plan for known shapes do at once.

A node's work may be done later, by the line of another one: an update of a variable makes the product that is its
gradient, a bias is added by the convolution it follows, and large work element by element goes through a chain of nodes
piece by piece, so that a piece is in cache when the next node wants it. The line that does it stands where the last of
the nodes stood, so it may have no user before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Protocol

from dtfctl.runtime.executor.binding import Environment, reads_of
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.kernels.compiled import chains, jit
from dtfctl.runtime.kernels.into import convolutions, crew, pools
from dtfctl.runtime.kernels.into.products import is_large, product_by_onednn
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.into.rows import add_scaled_rows
from dtfctl.runtime.kernels.into.updates import descend_by_product, descend_by_sum
from dtfctl.runtime.kernels.onednn.convolution import Convolution

Output = tuple[Node, int]

_CONVOLUTIONS = frozenset(("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"))
_DESCENTS = frozenset(("ApplyGradientDescent", "ResourceApplyGradientDescent"))
_ROW_UPDATES = frozenset(("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub"))
_BIAS_ADDS = frozenset(("BiasAdd", "Add", "AddV2"))
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
    """

    work: dict[Node, Work] = field(default_factory=dict)
    chains: dict[Node, list[Node]] = field(default_factory=dict)
    folded: dict[Node, int] = field(default_factory=dict)


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
        self._captured: Collection[Output] = ()
        self.folds = Folds()

    def root(self, edge: Edge) -> Output:
        output = (edge.node, edge.slot)
        return self._aliases.get(output, output)

    @cached_property
    def has_onednn(self) -> bool:
        """True when the plan has convolutions or products that are oneDNN's."""
        return any(
            (n.op in _CONVOLUTIONS and self._convolution(n) is not None) or (n.op == "MatMul" and self._is_large(n))
            for n in self._order
        )

    def _is_large(self, node: Node) -> bool:
        a, b = (self._seen.spec(self.root(e)) for e in node.inputs)
        if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2:
            return False
        return is_large(a, b, bool(node.attr("transpose_a")), bool(node.attr("transpose_b")))

    # Some nodes' work at once -----------------------------------------------------------------------------------------

    def fold(self, captured: Collection[Output]) -> None:
        """Find what one call does for several nodes.

        Args:
            captured: outputs that somebody may keep, and that can thus not be filled.
        """
        self._captured = captured
        for node in self._order:
            if node.op == "MaxPool" and not reads_of(node):
                self._rectify(node)
        for node in self._order:
            if reads_of(node):
                continue
            if node.op in _DESCENTS:
                self._descend(node)
            elif node.op in _ROW_UPDATES:
                self._scale_rows(node)
            elif node.op in _BIAS_ADDS:
                self._add_bias(node)
            elif node.op == "Conv2DBackpropFilter":
                self._sum_bias(node)

    def users(self, output: Output) -> list[int]:
        """Return the positions of the nodes that take an output."""
        return self._users.get(output, [])

    def _only_user(self, output: Output) -> bool:
        return len(self._users[output]) == 1 and not reads_of(output[0])

    def _descend(self, node: Node) -> None:
        """Let the update of a variable do the product or the sum that gives its gradient, if nobody else takes it."""
        gradient = self.root(node.inputs[2])
        maker = gradient[0]
        if maker.op not in ("MatMul", "AddN") or not self._only_user(gradient):
            return
        operands = [self.root(node.inputs[1]), *(self.root(e) for e in maker.inputs)]
        specs = [self._seen.spec(r) for r in operands]
        if maker.op == "MatMul":
            call = descend_by_product(self._build(node), self._build(maker), specs, self.has_onednn)
        else:
            call = descend_by_sum(self._build(node), specs)
        if call is not None:
            self.folds.folded[maker] = self._position[node]
            self.folds.work[node] = Work(Into(call, fills=False), [self.root(node.inputs[0]), *operands], [])

    def _scale_rows(self, node: Node) -> None:
        """Let the update of rows multiply what it adds to them by a number, and negate it, if nobody else takes it."""
        made = self.root(node.inputs[2])
        folded = []
        sign = 1
        if made[0].op == "Neg" and self._only_user(made):
            folded.append(made[0])
            made, sign = self.root(made[0].inputs[0]), -1
        product = made[0]
        if product.op != "Mul" or not self._only_user(made):
            return
        factors = [self.root(e) for e in product.inputs]
        specs = [self._seen.spec(r) for r in factors]
        whole = self._seen.spec(made)
        for at, (factor, rows) in enumerate((specs, specs[::-1])):
            if factor is None or factor.shape or rows != whole:
                continue
            indices = self.root(node.inputs[1])
            call = add_scaled_rows(self._build(node), self._seen.spec(indices), whole, sign, at)
            if call is not None:
                self.folds.folded.update(dict.fromkeys((product, *folded), self._position[node]))
                operands = [self.root(node.inputs[0]), indices, *factors]
                self.folds.work[node] = Work(Into(call, fills=False), operands, [])
            return

    def _add_bias(self, node: Node) -> None:
        """Let a convolution or a product add the bias that is all its result is for."""
        made = self._seen.spec((node, 0))
        for edge, other in (node.inputs, node.inputs[::-1]):
            whole, bias = self.root(edge), self.root(other)
            spec = self._seen.spec(bias)
            if made is None or spec != Spec(made.shape[-1:], made.dtype) or self._seen.spec(whole) != made:
                continue
            if not self._only_user(whole) or not self._is_plain(node) or (node, 0) in self._captured:
                return
            into = self._biased(whole[0], spec)
            if into is not None:
                operands = [*(self.root(e) for e in whole[0].inputs), bias]
                self.folds.folded[whole[0]] = self._position[node]
                self.folds.work[node] = Work(into, operands, [((node, 0), made)])
            return

    def _biased(self, node: Node, bias: Spec) -> Into | None:
        """Find a call that does the node's work and adds a bias to each row; None where there is none."""
        if node.op == "Conv2D":
            convolution = self._convolution(node)
            return None if convolution is None else convolutions.biased(convolution)
        if node.op != "MatMul" or not self.has_onednn:
            return None
        a, b = (self._seen.spec(self.root(e)) for e in node.inputs)
        if a is None or b is None:
            return None
        return product_by_onednn(a, b, bool(node.attr("transpose_a")), bool(node.attr("transpose_b")), True)

    def _sum_bias(self, node: Node) -> None:
        """Let the gradient of a convolution's filter sum up that of its bias, which is of the same gradient."""
        image, _, gradient = (self.root(e) for e in node.inputs)
        at = self._position[node]
        convolution = self._convolution(node)
        made = self._seen.spec((node, 0))
        if convolution is None or made is None or (node, 0) in self._captured:
            return
        for i in self._users[gradient]:
            other = self._order[i]
            total = self._seen.spec((other, 0))
            if (
                i < at
                and total is not None
                and other.op == "BiasAddGrad"
                and self._is_plain(other)
                and other not in self.folds.work
                and (other, 0) not in self._captured
                and all(user > at for user in self._users[other, 0])
            ):
                self.folds.folded[other] = at
                self.folds.work[node] = Work(
                    convolutions.filter_and_bias_gradient(convolution),
                    [image, gradient],
                    [((node, 0), made), ((other, 0), total)],
                )
                return

    def _rectify(self, node: Node) -> None:
        """Let a pooling, and the gradient of both, do without the rectified image, which is then never made."""
        image, pooled = self.root(node.inputs[0]), self._seen.spec((node, 0))
        relu, made = image[0], self._seen.spec(image)
        if relu.op != "Relu" or reads_of(relu) or made is None or pooled is None:
            return
        users = {self._order[i] for i in self._users[image]}
        gradients = [user for user in users if self._is_gradient_of(user, image)]
        if users != {node, *gradients, *(self.root(g.inputs[0])[0] for g in gradients)}:
            return
        if any((n, 0) in self._captured for n in (node, *gradients)):
            return
        form = pools.rectified_max_pool(self._build(node), made, pooled)
        if form is None:
            return
        chosen = (node, len(node.output_types))
        self._hidden[chosen] = form.chosen
        outputs = [((node, 0), pooled), (chosen, form.chosen)]
        self.folds.work[node] = Work(form.pool, [self.root(relu.inputs[0])], outputs)
        self.folds.folded[relu] = max(self._position[user] for user in users)
        for gradient in gradients:
            pooling = self.root(gradient.inputs[0])[0]
            operands = [self.root(pooling.inputs[2]), chosen]
            self.folds.folded[pooling] = self._position[gradient]
            self.folds.work[gradient] = Work(form.gradient, operands, [((gradient, 0), made)])
            for i in self._users[gradient, 0]:
                total = self._seen.spec((self._order[i], 0))
                other = self._order[i]
                if (
                    other.op == "BiasAddGrad"
                    and self._is_plain(other)
                    and total is not None
                    and (other, 0) not in self._captured
                ):
                    self.folds.work[other] = Work(form.total, operands, [((other, 0), total)])

    def _is_plain(self, node: Node) -> bool:
        return node.text_attr("data_format", "NHWC") == "NHWC" and not reads_of(node)

    def _is_gradient_of(self, node: Node, image: Output) -> bool:
        """Tell whether the node gives the gradient of a rectifier whose result, `image`, was pooled, and that only."""
        if node.op != "ReluGrad" or reads_of(node) or self.root(node.inputs[1]) != image:
            return False
        gradient = self.root(node.inputs[0])
        pooling = gradient[0]
        if pooling.op != "MaxPoolGrad" or not self._only_user(gradient) or self.root(pooling.inputs[0]) != image:
            return False
        specs = [self._seen.spec(self.root(e)) for e in pooling.inputs[1:]]
        return specs[0] == specs[1] and self._seen.spec((node, 0)) == self._seen.spec(image)

    def _convolution(self, node: Node) -> Convolution | None:
        if reads_of(node):
            return None
        inputs = [self._seen.spec(self.root(e)) for e in node.inputs]
        return convolutions.convolution_of(self._build(node), inputs, [self._seen.spec((node, 0))])

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
        return self.stage(work).nbytes >= crew.LEAST_BYTES

    def _continues(self, chain: list[Node], node: Node, works: Mapping[Node, Work]) -> bool:
        last, at = works.get(chain[-1]), self._position[node]
        if last is None or not last.into.by_rows or chain[-1] in self.folds.folded or chain[-1] in self.folds.work:
            return False
        within = {self._position[member] for member in chain}
        made = [output for member in chain for output, _ in works[member].outputs]
        if any(user < at and user not in within for output in made for user in self._users[output]):
            return False
        return crew.in_parts([self.stage(works[member]) for member in (*chain, node)]) is not None

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

    def stage(self, work: Work) -> crew.Stage:
        """Make work a stage of a chain."""
        return crew.stage_of(work.into, self._specs(work.operands), [spec for _, spec in work.outputs])


def takes_passes(formula: str) -> bool:
    """Tell whether numpy goes through its arrays several times for a formula, or slowly."""
    return " if " in formula or formula.count("{") > 2
