"""Optimisation of a step's graph: which rewrites run, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.compiler.passes.arithmetic import simplify
from dtfctl.runtime.compiler.passes.branches import choose_branches
from dtfctl.runtime.compiler.passes.common import merge_common
from dtfctl.runtime.compiler.passes.dependencies import drop_idle
from dtfctl.runtime.compiler.passes.fold import DEFAULT_LIMIT, fold_constants
from dtfctl.runtime.compiler.passes.fuse import fuse_patterns, may_fuse
from dtfctl.runtime.compiler.passes.loops import drop_dead_variables
from dtfctl.runtime.compiler.passes.mixed_precision import lower_precision
from dtfctl.runtime.compiler.passes.rewrite import drop_unused
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.node_graph import Node, NodeGraph

# Marks nodes that are to run as they are.
PLAIN_PLAN = "_plain_plan"
# Marks calls of functions whose bodies are to be left without users' fused ops.
NOT_FUSED = "_not_fused"
_OFF = config_pb2.RewriterConfig.OFF
# By the switch that asks for it.
_PRECISION = {
    "auto_mixed_precision": (dtypes.float16, "GPU"),
    "auto_mixed_precision_cpu": (dtypes.float16, "CPU"),
    "auto_mixed_precision_mkl": (dtypes.bfloat16, "CPU"),
    "auto_mixed_precision_onednn_bfloat16": (dtypes.bfloat16, "CPU"),
}
_L0 = config_pb2.OptimizerOptions.L0


@dataclass(frozen=True)
class Rewrites:
    """Which rewrites run.

    Attributes:
        fold: compute what depends on constants only; `fold_limit` bounds a result, in bytes.
        common: make equal nodes one.
        arithmetic: bypass nodes that give what they got.
        branches: drop branches of constant conditions, and loop variables that lead to nothing.
        dependencies: do not compute what is only waited for.
        remapping: let workers plan for the shapes they see, with fused kernels and buffers kept between steps. That
            changes no graph, so only its own switch turns it off.
        fuse: put users' fused ops (`fused_ops.py`) in the place of what they compute.
        precision: compute float32 in these types on these types of device, where little is lost by it.
    """

    fold: bool = True
    common: bool = True
    arithmetic: bool = True
    branches: bool = True
    dependencies: bool = True
    remapping: bool = True
    fuse: bool = True
    fold_limit: int = DEFAULT_LIMIT
    precision: tuple[tuple[DType, str], ...] = ()

    @classmethod
    def from_options(cls, options: config_pb2.GraphOptions) -> Rewrites:
        """Read what a client asks for: `optimizer_options.opt_level` L0 switches all rewrites of graphs off but what
        its `do_`
        fields name; `rewrite_options` switches single ones off, or all by `disable_meta_optimizer`."""
        optimizer, rewriter = options.optimizer_options, options.rewrite_options
        limit = optimizer.max_folded_constant_in_bytes or DEFAULT_LIMIT
        remapping = rewriter.remapping != _OFF
        if rewriter.disable_meta_optimizer:
            return cls(False, False, False, False, False, remapping, False, limit)
        every = optimizer.opt_level != _L0
        return cls(
            fold=(every or optimizer.do_constant_folding) and rewriter.constant_folding != _OFF,
            common=(every or optimizer.do_common_subexpression_elimination)
            and rewriter.common_subgraph_elimination != _OFF,
            arithmetic=every and rewriter.arithmetic_optimization != _OFF,
            branches=every and rewriter.loop_optimization != _OFF,
            dependencies=every and rewriter.dependency_optimization != _OFF,
            remapping=remapping,
            fuse=every and remapping,
            fold_limit=limit,
            precision=tuple(
                kind for switch, kind in _PRECISION.items() if getattr(rewriter, switch) == config_pb2.RewriterConfig.ON
            ),
        )


def optimize(
    graph: NodeGraph,
    targets: Iterable[str],
    rewrites: Rewrites | None = None,
    seen: Callable[[str, NodeGraph], None] = lambda _name, _graph: None,
) -> None:
    """Rewrite a pruned, placed graph; it is changed. Feeds, fetches and targets stay, with their names.

    No rewrite but that of precision changes a fetched value beyond rounding, and none removes an effect.

    Args:
        seen: is shown the graph after each rewrite, for people who want to see what it did.
    """
    rewrites = rewrites or Rewrites()
    wanted = {graph.nodes[t] for t in targets if t in graph.nodes}
    roots = [n for n in graph if n in wanted or _is_endpoint(n)]
    protected = set(roots)
    if not rewrites.fuse:
        _leave_bodies(graph)
    # As the user wrote it, before folding takes parts of it away; what is to be of another precision first, later.
    elif not rewrites.precision and fuse_patterns(graph, protected):
        drop_unused(graph, roots)
    seen("fuse as written", graph)
    changed = rewrites.fold and fold_constants(graph, rewrites.fold_limit)
    seen("fold constants", graph)
    if rewrites.branches and choose_branches(graph, protected):
        drop_unused(graph, roots)
        if rewrites.fold:
            changed = fold_constants(graph, rewrites.fold_limit) or changed
    seen("choose branches", graph)
    if rewrites.branches:
        while drop_dead_variables(graph, protected):
            drop_unused(graph, roots)
    seen("drop loop variables", graph)
    if rewrites.arithmetic:
        changed = simplify(graph) or changed
    seen("simplify", graph)
    if rewrites.common:
        changed = merge_common(graph) or changed
    seen("merge common", graph)
    if rewrites.dependencies:
        changed = drop_idle(graph, protected) or changed
    seen("drop idle", graph)
    for dtype, device_type in rewrites.precision:
        given = {e.node for n in roots for e in n.inputs}
        if lower_precision(graph, dtype, device_type, protected | given) and rewrites.fold:
            changed = fold_constants(graph, rewrites.fold_limit) or changed
    if rewrites.precision:
        seen("lower precision", graph)
    if rewrites.fuse and may_fuse(graph):
        if changed:
            drop_unused(graph, roots)  # what is left over of other rewrites would hold what it took
        changed = fuse_patterns(graph, protected) or changed
    seen("fuse", graph)
    if changed:
        drop_unused(graph, roots)
    seen("drop unused", graph)
    if not rewrites.remapping:
        _mark_plain(graph)


def _mark_plain(graph: NodeGraph) -> None:
    """Mark all nodes; those that shared attributes share them still."""
    mark = graph_pb2.AttrValue(b=True)
    # With the old ones, which keeps their identities from being used again.
    marked: dict[int, tuple[dict[str, graph_pb2.AttrValue], dict[str, graph_pb2.AttrValue]]] = {}
    for node in graph:
        old = node.raw_attrs
        found = marked.get(id(old))
        if found is None:
            found = marked[id(old)] = old, {**old, PLAIN_PLAN: mark}
        node.raw_attrs = found[1]


def _leave_bodies(graph: NodeGraph) -> None:
    mark = graph_pb2.AttrValue(b=True)
    for node in graph:
        if node.signature.takes_functions or node.op in graph.library.functions:
            node.raw_attrs = {**node.raw_attrs, NOT_FUSED: mark}


def _is_endpoint(node: Node) -> bool:
    return node.op == "_Send" and bool(node.attr("client_terminated"))
