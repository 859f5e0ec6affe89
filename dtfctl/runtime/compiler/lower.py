"""If, Case and While as Switch, Merge and loop nodes, for bodies that spread over devices.

The results are those of TensorFlow's lowering: each branch is a call that is alive only if its branch was chosen, and a
loop is a frame of the While's name whose condition and body are inlined calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.functions import check_types
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Edge, Node

if TYPE_CHECKING:
    from dtfctl.runtime.compiler.expand import _Expander

Lowered = tuple[list[Edge], list[Node]]


def lower_if(to: _Expander, node: Node) -> Lowered:
    """Edges with the results of an If, and nodes that must have run when it is over."""
    name, device = node.name, node.device
    condition = _as_bool(to, f"{name}/cond", node.inputs[0], device, node.control_inputs)
    switched: tuple[list[Edge], list[Edge]] = ([], [])
    for i, edge in enumerate(node.inputs[1:]):
        switch = to.add(
            f"{name}/switch_{i}", "Switch", {"T": _type(edge)}, [edge, condition], node.control_inputs, edge.node.device
        )
        for side in (0, 1):
            switched[side].append(Edge(switch, side))
    pivot = to.add(f"{name}/switch_pred", "Switch", {"T": _type(condition)}, [condition, condition], (), device)
    branches = []
    for side, attr in ((1, "then_branch"), (0, "else_branch")):
        alive = to.identity(f"{name}/{attr}/pivot", Edge(pivot, side), device)
        function = node.attr(attr)
        branches.append(to.inline(function, f"{name}/{attr}", switched[side], [alive], device, to.around_of(node)))
    return _merge(to, node, branches)


def lower_case(to: _Expander, node: Node) -> Lowered:
    """Lower a Case as `lower_if` does an If; an index out of range means the last branch."""
    name, device = node.name, node.device
    index, functions = node.inputs[0], node.attr("branches")
    count = graph_pb2.AttrValue(i=len(functions))
    attrs = {"T": _type(index), "num_outs": count}
    pivot = to.add(f"{name}/switch_index", "_SwitchN", attrs, [index, index], node.control_inputs, device)
    switches = [
        to.add(
            f"{name}/switch_{i}",
            "_SwitchN",
            {"T": _type(edge), "num_outs": count},
            [edge, index],
            node.control_inputs,
            edge.node.device,
        )
        for i, edge in enumerate(node.inputs[1:])
    ]
    branches = []
    for i, function in enumerate(functions):
        alive = to.identity(f"{name}/branch_{i}/pivot", Edge(pivot, i), device)
        inputs = [Edge(s, i) for s in switches]
        branches.append(to.inline(function, f"{name}/branch_{i}", inputs, [alive], device, to.around_of(node)))
    return _merge(to, node, branches)


def _merge(to: _Expander, node: Node, branches: list[Lowered]) -> Lowered:
    for ends, _ in branches:
        _check(node, ends)
    count = graph_pb2.AttrValue(i=len(branches))
    outputs = []
    for i in range(len(node.output_types)):
        ends = [b[0][i] for b in branches]
        merge = to.add(f"{node.name}/merge_{i}", "Merge", {"T": _type(ends[0]), "N": count}, ends, (), node.device)
        outputs.append(Edge(merge, 0))
    # One branch is dead, so it takes a Merge to wait for whichever is not. A dead NoOp cannot be merged: an empty
    # constant that waits for all of a branch can.
    done = []
    for i, (_, controls) in enumerate(branches):
        end = to.add(f"{node.name}/branch_{i}_done", "Const", _empty(), (), controls, node.device)
        done.append(Edge(end, 0))
    over = to.add(f"{node.name}/done", "Merge", {"T": _type(done[0]), "N": count}, done, (), node.device)
    return outputs, [over]


def lower_while(to: _Expander, node: Node) -> Lowered:
    """Lower a While as `lower_if` does an If.

    Raises:
        InvalidArgumentError: it has no loop variables, or its condition does not give one value.
    """
    name, device = node.name, node.device
    if not node.inputs:
        raise InvalidArgumentError(f"The loop '{name}' has no variables", name)
    body = to.functions.body(node.attr("body"))
    _check(node, [result.inputs[0] for result in body.results])
    enters: list[Node] = []
    merges: list[Node | None] = []
    for i, edge in enumerate(node.inputs):
        constant = edge.dtype is dtypes.resource and body.results[i].inputs[0].node is body.args[i]
        attrs = {
            "T": _type(edge),
            "frame_name": graph_pb2.AttrValue(s=name.encode()),
            "parallel_iterations": node.raw_attrs["parallel_iterations"],
            "is_constant": graph_pb2.AttrValue(b=constant),
        }
        where = edge.node.device if constant else device
        enter = to.add(f"{name}/enter_{i}", "Enter", attrs, [edge], node.control_inputs, where)
        enters.append(enter)
        if constant:
            merges.append(None)
            continue
        two = graph_pb2.AttrValue(i=2)
        merges.append(to.add(f"{name}/merge_{i}", "Merge", {"T": _type(edge), "N": two}, [Edge(enter, 0)], (), device))
    now = [Edge(m or e, 0) for m, e in zip(merges, enters)]
    first = next((m for m in merges if m is not None), None)
    if first is None:
        raise InvalidArgumentError(f"The loop '{name}' has only resources for variables", name)
    around = to.around_of(node)
    # The condition is asked once an iteration, also where it needs none of the variables.
    asked = to.identity(f"{name}/cond/pivot", Edge(first, 0), device)
    results, cond_controls = to.inline(node.attr("cond"), f"{name}/cond", now, [asked], device, around)
    if len(results) != 1:
        raise InvalidArgumentError(f"The condition of loop '{name}' should give one value, not {len(results)}", name)
    verdict = _as_bool(to, f"{name}/cond/verdict", results[0], device, cond_controls)
    condition = to.add(f"{name}/LoopCond", "LoopCond", {}, [verdict], (), device)
    switches = {
        i: to.add(f"{name}/switch_{i}", "Switch", {"T": _type(now[i])}, [now[i], Edge(condition, 0)], (), device)
        for i, merge in enumerate(merges)
        if merge is not None
    }
    inside = [
        Edge(to.identity(f"{name}/body/input_{i}", Edge(switches[i], 1), device), 0) if i in switches else now[i]
        for i in range(len(now))
    ]
    alive = [e.node for i, e in enumerate(inside) if i in switches][:1]
    after, body_controls = to.inline(node.attr("body"), f"{name}/body", inside, alive, device, around)
    outputs: list[Edge] = []
    for i, merge in enumerate(merges):
        if merge is None:
            outputs.append(node.inputs[i])
            continue
        back = to.add(f"{name}/next_{i}", "NextIteration", {"T": _type(after[i])}, [after[i]], body_controls, device)
        merge.inputs.append(Edge(back, 0))
        outputs.append(
            Edge(to.add(f"{name}/exit_{i}", "Exit", {"T": _type(now[i])}, [Edge(switches[i], 0)], (), device), 0)
        )
    return outputs, [e.node for i, e in enumerate(outputs) if merges[i] is not None]


def _check(node: Node, ends: list[Edge]) -> None:
    check_types(node.name, [e.dtype for e in ends], node.output_types)


def _as_bool(to: _Expander, name: str, edge: Edge, device: str, controls: list[Node]) -> Edge:
    if edge.dtype.base_dtype is dtypes.bool_:
        if not controls:
            return edge
        return Edge(to.identity(name, edge, device, controls), 0)
    return Edge(to.add(name, "ToBool", {"T": _type(edge)}, [edge], controls, device), 0)


def _type(edge: Edge) -> graph_pb2.AttrValue:
    return graph_pb2.AttrValue(type=edge.dtype.base_dtype.as_datatype_enum)  # type: ignore[arg-type]


def _empty() -> dict[str, graph_pb2.AttrValue]:
    value = graph_pb2.AttrValue()
    value.tensor.dtype = dtypes.float32.as_datatype_enum  # type: ignore[assignment]
    value.tensor.tensor_shape.dim.add(size=0)
    return {"value": value, "dtype": graph_pb2.AttrValue(type=dtypes.float32.as_datatype_enum)}  # type: ignore[arg-type]
