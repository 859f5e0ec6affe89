"""Which nodes of a plan for known shapes are one call of machine code (kernels/native/).

Nodes that compute values from values are put off until somebody else wants what one of them gives; all that were put
off until then are a region. Its line stands where the last of them stood.

Where one was not compiled yet its nodes run one by one; which those are is said, so that they can be.

    x ─► MatMul ─► BiasAdd ─► Split ─► Sigmoid, Tanh, Mul ... ─► MatMul
           │       └────────── a region ───────────────┘           │
           by a library                                        by a library
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import reads_of
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.compiler import COMPILER, Order
from dtfctl.runtime.kernels.registry import op_promises

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.native.region import Region

# Of larger regions values leave the caches meanwhile.
_MOST_NODES = 60
_PRODUCTS = frozenset(["MatMul", "_MatMulByFactor"])


@dataclass
class Found:
    """Attributes: nodes: in order, the last one has the line; outputs: what the call fills, for others."""

    nodes: list[Node]
    into: Into
    operands: list[Output]
    outputs: list[tuple[Output, Spec]]


@dataclass
class Surroundings:
    """What is asked about a plan.

    Attributes:
        spec: what is known of an output; roots: whose values a node's inputs are; users: who takes an output.
        known: outputs that are the same in every step.
        done: nodes that another line does, or whose line does more than the node: what those lines take.
        passed: outputs that are others under another name.
    """

    spec: Callable[[Output], Spec | None]
    roots: Callable[[Node], list[Output]]
    users: Callable[[Output], list[Node]]
    known: Mapping[Output, Any]
    done: Mapping[Node, Collection[Output]]
    passed: Collection[Output]


def find_regions(order: list[Node], around: Surroundings, missing: list[Order]) -> Iterator[Found]:
    """Find the regions of a plan.

    Args:
        missing: gets those that were not compiled yet.
    """
    if not machine.is_available():
        return
    # llvmlite is imported where it is there only.
    from dtfctl.runtime.kernels.native.lowering import HEAVY
    from dtfctl.runtime.kernels.native.region import Region

    def new() -> Region:
        return Region(around.spec, around.roots, dict(around.known))

    region = new()
    for node in order:
        if (node, 0) in around.passed or (node, 0) in around.known:
            continue
        if node not in around.done and _may_join(node, region, around) and region.add(node):
            if len(region.nodes) >= _MOST_NODES:
                yield from _compiled(region, around, HEAVY, missing)
                region = new()
            continue
        wanted = around.done.get(node)
        wanted = around.roots(node) if wanted is None else wanted
        if region.values.keys() & set(wanted) or (not is_pure(node) and _holds_variables(region)):
            yield from _compiled(region, around, HEAVY, missing)
            region = new()
    yield from _compiled(region, around, HEAVY, missing)


def _may_join(node: Node, region: Region, around: Surroundings) -> bool:
    if not node.inputs or reads_of(node) or not is_pure(node) or any(e.dtype.is_ref for e in node.inputs):
        return False
    # Another shape of what is in memory already is nobody's work.
    return not op_promises(node.op, "is_view") or around.roots(node)[0] in region.values


def _is_by_product(node: Node, around: Surroundings) -> bool:
    """Tell whether a node takes what a product gives, or gives what one takes: both may be steps of a tape."""
    if any(maker.op in _PRODUCTS for maker, _ in around.roots(node)):
        return True
    return any(user.op in _PRODUCTS for slot in range(len(node.output_types)) for user in around.users((node, slot)))


def _holds_variables(region: Region) -> bool:
    """Tell whether a region that is put off would hold the value of a variable while it is changed."""
    makers = [maker for maker, _ in region.operands]
    return any(dtypes.resource in maker.input_types or reads_of(maker) for maker in makers)


def _compiled(region: Region, around: Surroundings, heavy: Collection[str], missing: list[Order]) -> Iterator[Found]:
    """Find the code of a region, if it is worth a call."""
    within = set(region.nodes)
    work = [n for n in region.nodes if not op_promises(n.op, "is_view")]
    if len(work) < 2 and not any(n.op in heavy or _is_by_product(n, around) for n in work):
        return
    outputs: list[tuple[Output, Spec]] = []
    for output in region.values:
        spec = around.spec(output)
        if spec is not None and any(user not in within for user in around.users(output)):
            outputs.append((output, spec))
    # What is empty has no loops.
    if not outputs or any(0 in spec.shape for _, spec in outputs):
        return
    sketch = region.sketch([output for output, _ in outputs])
    try:
        made = COMPILER.find(sketch)
    except KeyError:
        missing.append(sketch)
        return
    if made is None:
        return
    try:
        into, operands = region.call(made)
    except OSError as e:
        machine.refused(e)
        return
    yield Found(region.nodes, into, operands, outputs)
