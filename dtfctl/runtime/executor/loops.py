"""v1 loops as Python loops: each frame becomes one node, whose kernel runs a straight-line plan once an iteration.

Edges enter a frame only through Enter nodes and leave it only through Exit nodes, so a frame is one node of the graph
around it. Its iteration is an acyclic graph: a loop variable's Merge is an argument, its NextIteration and Exit are
results, and the Switch between them a condition like any other. Loops that wait for other tasks, or are not what
`while_loop` builds, stay with the frame machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.errors import Signal
from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.frame_nodes import StaticFrame, check_cycles, static_frames
from dtfctl.runtime.executor.kernel_cache import BoundKernel
from dtfctl.runtime.executor.liveness import ALWAYS, Liveness
from dtfctl.runtime.executor.schedule import sequential_order
from dtfctl.runtime.executor.straight_compiler import compile_straight_line
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import OpSignature, get_signature
from dtfctl.runtime.framework.structural_ops import BRANCHES, LOOP_OPS, MERGES, RECVS, SENDS, SWITCHES
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import KernelSpec, op_promises

_SIGNATURE = OpSignature("_Loop", (), (), (), is_stateful=True)


def share_reads_with_loops(graph: NodeGraph) -> None:
    """Let a loop that updates a reference variable see the updates in a plain read made before the loop.

    As in TensorFlow, where the read's result shares the variable's memory: an iteration reads what the last one wrote.
    The Enter of such a read becomes a RefEnter of the variable, which users of the value read.
    """
    updated = {(node.inputs[0], node.text_attr("frame_name")) for node in graph if node.op == "RefEnter"}
    for node in graph:
        if node.op != "Enter" or not node.attr("is_constant"):
            continue
        read = node.inputs[0].node
        if read.op == "Identity" and (read.inputs[0], node.text_attr("frame_name")) in updated:
            node.inputs = [read.inputs[0]]
            node.control_inputs = [*node.control_inputs, read]
            node.turn_into(get_signature("RefEnter"), node.raw_attrs)


class _Irregular(Signal):
    """The loop is not one that can be folded."""


def fold_loops(graph: NodeGraph, env: Environment, may_block: Callable[[Node], bool]) -> NodeGraph | None:
    """Fold every loop of a graph into a node; None when some loop cannot be folded.

    Raises:
        InvalidArgumentError: the loops are malformed.
        OpError: a node has no kernel, or its kernel refuses its attributes.
    """
    check_cycles(graph)
    try:
        return _Folder(graph, env, may_block).fold()
    except _Irregular:
        return None


class _Folder:
    def __init__(self, graph: NodeGraph, env: Environment, may_block: Callable[[Node], bool]) -> None:
        self.graph = graph
        self.env = env
        self.may_block = may_block
        self.root, self.frames, self.children = static_frames(graph)
        self.members: dict[StaticFrame, list[Node]] = defaultdict(list)
        self.enters: dict[StaticFrame, list[Node]] = defaultdict(list)
        for node in graph:
            self.members[self.frames[node]].append(node)
            child = self.children.get(node)
            if child is not None:
                self.enters[child].append(node)
        # An environment asked about a loop node must not look for functions of that name.
        env.add_plain_op(_SIGNATURE.name)

    def fold(self) -> NodeGraph:
        graph = self._folded(self.root, {}, {}, {})
        if any(n.op in BRANCHES for n in graph):
            _analysed(sequential_order(graph, lambda node: False).order)
        return graph

    def _folded(
        self,
        frame: StaticFrame,
        replaced: dict[Node, Node],
        outputs: dict[tuple[Node, int], Edge],
        controls: dict[Node, Node],
    ) -> NodeGraph:
        """Copy the nodes of one frame, loops in it folded. `replaced` stand for nodes at the frame's border; `outputs`
        and `controls` say what stands for edges from nodes outside it.
        """
        new = NodeGraph(self.graph.library)
        for node in dict.fromkeys((*controls.values(), *replaced.values())):
            new.add(node)
        copies: list[tuple[Node, Node]] = []
        for node in self.members[frame]:
            if node in self.children:
                continue
            copy = replaced.get(node)
            if copy is None:
                copy = new.add(node.copy())
                for slot in range(len(node.output_types)):
                    outputs[node, slot] = Edge(copy, slot)
                controls[node] = copy
            copies.append((node, copy))
        inner = dict.fromkeys(self.children[n] for n in self.members[frame] if n in self.children)
        loops = []
        for child in inner:
            loop, exits = self._loop(child)
            new.add(loop)
            loops.append((child, loop))
            for slot, node in enumerate(exits):
                outputs[node, 0] = Edge(loop, slot)
                controls[node] = loop
        try:
            for node, copy in copies:
                if copy.op != "_Arg" or node.op == "_Arg":
                    copy.inputs = [outputs[e.node, e.slot] for e in node.inputs]
                    copy.control_inputs = [controls[c] for c in node.control_inputs]
            for child, loop in loops:
                sources = [(outputs[e.node, e.slot], n) for n in self.enters[child] for e in n.inputs]
                loop.inputs = [edge for edge, _ in sources]
                held = [controls[c] for _, n in sources for c in n.control_inputs]
                loop.control_inputs = list(dict.fromkeys(held))
        except KeyError:
            # Something other than a loop variable's Merge uses an Enter that holds for the first iteration only.
            raise _Irregular from None
        return new

    def _loop(self, frame: StaticFrame) -> tuple[Node, list[Node]]:
        """Make the node that runs a frame, and find the Exit nodes its outputs stand for."""
        members, enters = self.members[frame], self.enters[frame]
        merges = [n for n in members if n.op == "Merge" and any(e.node.op == "NextIteration" for e in n.inputs)]
        exits = [n for n in members if n.op == "Exit"]
        conditions = [n for n in members if n.op == "LoopCond"]
        if len(conditions) != 1 or any(n.op in SENDS or n.op in RECVS or self._waits(n) for n in members):
            raise _Irregular
        number = {n: i for i, n in enumerate(enters)}
        constants = [n for n in enters if n.attr("is_constant")]
        first: list[int] = []
        nexts: list[Node] = []
        for merge in merges:
            ops = [e.node.op for e in merge.inputs]
            if ops != ["Enter", "NextIteration"] or merge.control_inputs or merge.inputs[0].node in constants:
                raise _Irregular
            first.append(number[merge.inputs[0].node])
            nexts.append(merge.inputs[1].node)
        if sum(n.op == "NextIteration" for n in members) != len(set(nexts)) or len(set(nexts)) != len(nexts):
            raise _Irregular
        replaced: dict[Node, Node] = {}
        outputs: dict[tuple[Node, int], Edge] = {}
        controls: dict[Node, Node] = {}
        for i, node in enumerate([*merges, *constants]):
            arg = _boundary(f"{node.name}/_arg", "_Arg", node.output_types[0], i)
            outputs[node, 0], controls[node] = Edge(arg, 0), arg
            if node in merges:
                replaced[node] = arg
        for i, node in enumerate([*nexts, *exits]):
            replaced[node] = _boundary(node.name, "_Retval", node.output_types[0], i + 1)
        graph = self._folded(frame, replaced, outputs, controls)
        # A Merge that is an argument has no inputs in here; results and the condition do.
        test = _boundary(f"{conditions[0].name}/_result", "_Retval", conditions[0].output_types[0], 0)
        test.inputs = [Edge(graph.nodes[conditions[0].name], 0)]
        graph.add(test)
        plan = self._plan(graph, [replaced[n] for n in nexts], [replaced[n] for n in exits])
        run = _runner(plan, first, [number[n] for n in constants], len(exits))
        loop = Node(f"{frame.name}/_loop", _SIGNATURE, {}, enters[0].device, rank=min(n.rank for n in members))
        loop.output_types = tuple(n.output_types[0] for n in exits)
        loop.input_types = tuple(n.input_types[0] for n in enters)
        spec = KernelSpec(_SIGNATURE.name, lambda k: run, (self.env.device.device_type,), {}, step=True)
        self.env.adopt(loop, BoundKernel(spec, run))
        return loop, exits

    def _waits(self, node: Node) -> bool:
        return node.op not in LOOP_OPS and node not in self.children and self.may_block(node)

    def _plan(self, graph: NodeGraph, nexts: list[Node], exits: list[Node]) -> StraightLine:
        """Compile an iteration, if its variables go round while the condition holds and leave when it does not."""
        order = sequential_order(graph, lambda node: False).order
        liveness, root = _analysed(order)
        condition = next(n for n in order if n.op == "LoopCond")
        tests = [
            n
            for n in order
            if n.op in SWITCHES
            and n in liveness.predicates
            and liveness.nodes[n] == ALWAYS
            and root(n.inputs[1]) == root(Edge(condition, 0))
        ]
        if len(tests) != 1 or liveness.nodes[condition] != ALWAYS:
            raise _Irregular
        goes_on, stops = liveness.outputs[tests[0], 1], liveness.outputs[tests[0], 0]
        if any(liveness.nodes[n] != goes_on for n in nexts) or any(liveness.nodes[n] != stops for n in exits):
            raise _Irregular
        if any(n.op in MERGES and n in liveness.predicates for n in order):
            raise _Irregular
        return compile_straight_line(order, self.env)


def _analysed(order: list[Node]) -> tuple[Liveness, Callable[[Edge], tuple[Node, int]]]:
    """Conditions of the nodes, and what an edge carries behind identities.

    A loop of which only some inputs are dead would still run for the others, which a loop node cannot do. So all its
    inputs have to be live on the same condition; tensors received from outside a conditional always are.
    """
    roots: dict[tuple[Node, int], tuple[Node, int]] = {}

    def root(edge: Edge) -> tuple[Node, int]:
        return roots.get((edge.node, edge.slot), (edge.node, edge.slot))

    for node in order:
        if op_promises(node.op, "passes"):
            for slot, edge in enumerate(node.inputs):
                roots[node, slot] = root(edge)
    liveness = Liveness(order, lambda i: f"p{i}", root)
    received = {text for node, text in liveness.predicates.items() if node.op in RECVS}
    for node in order:
        if node.op == _SIGNATURE.name:
            conditions = {frozenset(t for t in liveness.of(e) if t.text not in received) for e in node.inputs}
            if conditions - {frozenset(t for t in liveness.nodes[node] if t.text not in received)}:
                raise _Irregular
    return liveness, root


def _boundary(name: str, op: str, dtype: DType, index: int) -> Node:
    attrs = {
        "T": graph_pb2.AttrValue(type=dtype.as_datatype_enum),  # type: ignore[arg-type]
        "index": graph_pb2.AttrValue(i=index),
    }
    return make_node(name, op, attrs)


def _runner(plan: StraightLine, first: list[int], constants: list[int], exits: int) -> Callable[..., Any]:
    """Make the kernel of a loop node.

    Args:
        first: which input each loop variable starts with.
        constants: which inputs are the same in all iterations.
    """
    size = 1 + len(first) + exits
    carried = slice(1, 1 + len(first))

    def loop(step: StepContext, *inputs: Any) -> Any:
        values: Sequence[Any] = [inputs[i] for i in first]
        fixed = [inputs[i] for i in constants]
        check, run = step.cancellation.check, plan.run
        while True:
            check()
            results: list[Any] = [None] * size
            run(step, [*values, *fixed], results)
            if not results[0]:
                break
            values = results[carried]
        left = results[1 + len(first) :]
        return left[0] if exits == 1 else left

    return loop
