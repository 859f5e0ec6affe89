"""Calls that have to spread over devices become part of the caller's graph.

A call usually stays one node, which the executor runs on one device. Where the function's own nodes ask for devices, or
a call reaches resources of several devices, its body is put in the caller's place: functions are inlined, If, Case and
While become Switch, Merge and loop nodes (`lower`), and so the body can be placed and partitioned like everything else.
The same is done with an If or Case marked for lowering whose branches do more than one of its outputs asks for: a step
then runs only what its fetches need, as it does with conditionals made of Switch and Merge.

A node of the call's name stays, with the call's outputs, to be fetched, fed and depended on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.devices import parse_device
from dtfctl.runtime.compiler.functions import FunctionBody, Functions, check_types
from dtfctl.runtime.compiler.library import called_functions
from dtfctl.runtime.compiler.prune import STANDS_FOR_CALL
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import (
    BOUNDARIES,
    CALLS,
    CASES,
    ENTERS,
    FUNCTIONAL,
    IFS,
    PLACEHOLDERS,
    WHILES,
)
from dtfctl.runtime.kernels.registry import op_promises

LOWER = "_lower_using_switch_merge"
MAX_NODES = 1_000_000


def expand(graph: NodeGraph, everything: bool = False) -> NodeGraph:
    """Expand the calls in the graph that spread over devices; return the same graph when there are none.

    Args:
        graph: left as it is.
        everything: expand every call that can be.

    Raises:
        OpError: a function is malformed or does not exist.
    """
    if not graph.library.functions:
        return graph
    functions = Functions(graph.library)
    spread = _Spread(graph.library)
    if not any(_is_call(node, graph.library) and (everything or spread.must(node)) for node in graph):
        return graph
    return _Expander(graph, functions, lambda node: everything or spread.must(node)).run()


def _is_call(node: Node, library: FunctionLibrary) -> bool:
    return node.op in FUNCTIONAL or node.op in library.functions


class _Spread:
    """Which calls must be expanded."""

    def __init__(self, library: FunctionLibrary) -> None:
        self._library = library
        self._devices: dict[str, frozenset[str]] = {}
        self._optional: dict[str, bool] = {}

    def must(self, node: Node) -> bool:
        if self._does_what_may_not_be_asked(node):
            return True
        own = _spec(node.device)
        for name in called_functions(node.op, node.raw_attrs.values()):
            if any(own.merge(_spec(device)) != own for device in self.devices(name)):
                return True
        places = {_resource_device(e) for e in node.inputs if e.dtype is dtypes.resource} - {None}
        return len(places) > 1 or any(own.conflicts(_spec(str(p))) for p in places)

    def _does_what_may_not_be_asked(self, node: Node) -> bool:
        """Tell whether a branch changes state for some of the outputs only, where the client wants branches pruned."""
        if node.op not in IFS | CASES or LOWER not in node.raw_attrs or not node.raw_attrs[LOWER].b:
            return False
        names = called_functions(node.op, node.raw_attrs.values())[1:]
        return any(self._has_optional_effects(name) for name in names)

    def _has_optional_effects(self, name: str) -> bool:
        known = self._optional.get(name)
        if known is None:
            function = self._library.find(name)
            known = self._optional[name] = function is not None and _has_optional_effects(function, self._library)
        return known

    def devices(self, name: str) -> frozenset[str]:
        """Device names that nodes of a function, and of those it calls, ask for."""
        known = self._devices.get(name)
        if known is None:
            found: set[str] = set()
            seen: set[str] = set()
            work = [name]
            while work:
                one = work.pop()
                function = self._library.find(one)
                if function is None or one in seen:
                    continue
                seen.add(one)
                for node in function.node_def:
                    if node.device:
                        found.add(node.device)
                    work += called_functions(node.op, node.attr.values())
            known = self._devices[name] = frozenset(found)
        return known


def _has_optional_effects(function: graph_pb2.FunctionDef, library: FunctionLibrary) -> bool:
    """Tell whether some node that changes state is not needed by every result, nor promised to run with any of them."""
    nodes = {n.name: n for n in function.node_def}
    effects = {n.name for n in function.node_def if _has_effect(n.op, library)}
    effects -= _ancestors(nodes, function.control_ret.values())
    return bool(effects) and any(effects - _ancestors(nodes, [text]) for text in function.ret.values())


def _has_effect(op: str, library: FunctionLibrary) -> bool:
    """Tell whether somebody can find out afterwards that an op was run."""
    return library.signature(op).is_stateful and op not in PLACEHOLDERS and not op_promises(op, "leaves_state")


def _ancestors(nodes: dict[str, graph_pb2.NodeDef], roots: Iterable[str]) -> set[str]:
    """Names of nodes that an input or output text of a function needs."""
    work, seen = list(roots), set()
    while work:
        name = work.pop().removeprefix("^").split(":")[0]
        if name in nodes and name not in seen:
            seen.add(name)
            work += nodes[name].input
    return seen


def _spec(device: str) -> DeviceSpec:
    try:
        return parse_device(device)
    except ValueError:
        # Placement reports it, with the node.
        return DeviceSpec()


def _resource_device(edge: Edge) -> str | None:
    """Return the device asked for by whoever makes the resource on an edge, where that can be seen."""
    node = edge.node
    while node.inputs and len(node.inputs) == 1 and node.op in ("Identity", "Enter", "Exit"):
        node = node.inputs[0].node
    return node.device if node.device and not node.inputs else None


class _Expander:
    """Works on a copy of the graph, call by call."""

    def __init__(self, graph: NodeGraph, functions: Functions, wanted: Callable[[Node], bool]) -> None:
        self.functions = functions
        self.library = graph.library
        self.wanted = wanted
        self.out = NodeGraph(graph.library)
        self.out.versions = graph.versions
        copies = {node: self.out.add(node.copy()) for node in graph}
        for node, copy in copies.items():
            copy.inputs = [Edge(copies[e.node], e.slot) for e in node.inputs]
            copy.control_inputs = [copies[n] for n in node.control_inputs]
        # Functions around each node that came out of an expansion; calls of those stay calls.
        self.around: dict[Node, frozenset[str]] = {}
        self.moved: dict[Edge, Edge] = {}
        self.stands: set[Node] = set()

    def run(self) -> NodeGraph:
        from dtfctl.runtime.compiler import lower

        work = [n for n in self.out if self.is_wanted(n)]
        while work:
            call = work.pop()
            before = len(self.out)
            if call.op in IFS:
                outputs, controls = lower.lower_if(self, call)
            elif call.op in CASES:
                outputs, controls = lower.lower_case(self, call)
            elif call.op in WHILES:
                outputs, controls = lower.lower_while(self, call)
            else:
                function = call.attr("f") if call.op in CALLS else _own_function(call)
                outputs, controls = self.inline(
                    function, call.name, call.inputs, call.control_inputs, call.device, self.around_of(call)
                )
            self._replace(call, outputs, controls)
            if len(self.out) > MAX_NODES:
                raise ResourceExhaustedError(f"Expanding function calls gives more than {MAX_NODES} nodes", call.name)
            added = list(self.out.nodes.values())[before:]
            work += [n for n in added if self.is_wanted(n)]
        self._reconnect()
        return self.out

    def is_wanted(self, node: Node) -> bool:
        if not _is_call(node, self.library):
            return False
        names = [n for n in called_functions(node.op, node.raw_attrs.values()) if n in self.library.functions]
        if any(n in self.around_of(node) for n in names) or (node.op in FUNCTIONAL and not names):
            return False
        if any(self._is_noinline(n) for n in names):
            return False
        return self.wanted(node)

    def _is_noinline(self, name: str) -> bool:
        attr = self.library.functions[name].attr
        return "_noinline" in attr and attr["_noinline"].b

    def around_of(self, node: Node) -> frozenset[str]:
        return self.around.get(node, frozenset())

    # Building blocks --------------------------------------------------------------------------------------------------

    def unused(self, name: str) -> str:
        unused, n = name, 0
        while unused in self.out.nodes:
            n += 1
            unused = f"{name}_{n}"
        return unused

    def add(
        self,
        name: str,
        op: str,
        attrs: dict[str, graph_pb2.AttrValue],
        inputs: Iterable[Edge] = (),
        control_inputs: Iterable[Node] = (),
        device: str = "",
    ) -> Node:
        node = make_node(self.unused(name), op, attrs, inputs, control_inputs, device)
        return self.out.add(node)

    def identity(self, name: str, edge: Edge, device: str = "", controls: Iterable[Node] = ()) -> Node:
        return self.add(name, "Identity", {"T": type_attr(edge.dtype)}, [edge], controls, device)

    def inline(
        self,
        function: graph_pb2.NameAttrList,
        prefix: str,
        inputs: list[Edge],
        control_inputs: list[Node],
        device: str,
        around: frozenset[str],
    ) -> tuple[list[Edge], list[Node]]:
        """Put a function's body into the graph; its outputs, and nodes that must have run when the call is over.

        Raises:
            InvalidArgumentError: the function takes other inputs.
        """
        body = self.functions.body(function)
        if [a.attr("T").base_dtype for a in body.args] != [e.dtype.base_dtype for e in inputs]:
            raise InvalidArgumentError(
                f"Function {function.name} takes {len(body.args)} arguments of types "
                f"[{', '.join(a.attr('T').name for a in body.args)}], got "
                f"[{', '.join(e.dtype.name for e in inputs)}]",
                prefix,
            )
        given: list[Edge] = []
        for i, edge in enumerate(inputs):
            # A reference is read when the function is called.
            given.append(Edge(self.identity(f"{prefix}/arg_{i}", edge), 0) if edge.dtype.is_ref else edge)
        gate = self._gate(body, prefix, given, control_inputs, device)
        within = around | {function.name}
        copies: dict[Node, Node] = {}
        own = _spec(device)
        for node in body.graph:
            if node.op in BOUNDARIES:
                continue
            copy = node.copy()
            copy.name = self.unused(f"{prefix}/{node.name}")
            copy.device = own.merge(_spec(node.device)).to_string() if node.device else device
            self.around[copy] = within
            _rename_attrs(copy, node, body, prefix)
            copies[node] = self.out.add(copy)
        argument = dict(zip(body.args, given))
        for node, copy in copies.items():
            inner = False
            for edge in node.inputs:
                if edge.node in argument:
                    copy.inputs.append(argument[edge.node])
                else:
                    inner = True
                    copy.inputs.append(Edge(copies[edge.node], edge.slot))
            for source in node.control_inputs:
                if source in copies:
                    inner = True
                    copy.control_inputs.append(copies[source])
            if gate is not None and not inner:
                copy.control_inputs.append(gate)
        outputs = []
        for result in body.results:
            edge = result.inputs[0]
            outputs.append(argument[edge.node] if edge.node in argument else Edge(copies[edge.node], edge.slot))
        controls = [copies[n] for n in body.controls if n in copies]
        if not self.library.functions[function.name].control_ret:
            controls += [copy for node, copy in copies.items() if node.signature.is_stateful]
        if gate is not None:
            controls.append(gate)
        return outputs, list(dict.fromkeys(controls))

    def _gate(
        self, body: FunctionBody, prefix: str, inputs: list[Edge], control_inputs: list[Node], device: str
    ) -> Node | None:
        """Return what the body's first nodes wait for, so that they run if and when the call would have run."""
        rootless = any(not n.inputs and not n.control_inputs and n.op != "_Arg" for n in body.graph)
        if not control_inputs and not (rootless and inputs):
            return None
        # A control edge from a Switch says nothing of which side is alive; one from an Identity does.
        alive = [self.identity(f"{prefix}/input_{i}", edge) for i, edge in enumerate(inputs)]
        return self.add(f"{prefix}/input_control_node", "NoOp", {}, (), [*control_inputs, *alive], device)

    def _replace(self, call: Node, outputs: list[Edge], controls: list[Node]) -> None:
        """Let the call's node only stand for the outputs."""
        types = call.output_types
        check_types(call.name, [e.dtype for e in outputs], types)
        results = []
        for i, edge in enumerate(outputs):
            result = Edge(self.identity(f"{call.name}/output_{i}", edge), 0)
            results.append(result)
            self.moved[Edge(call, i)] = result
        become(call, "IdentityN" if results else "NoOp", types)
        call.inputs = results
        call.control_inputs = controls
        self.stands.add(call)

    def _reconnect(self) -> None:
        if not self.moved:
            return
        for node in self.out:
            if any(e in self.moved for e in node.inputs):
                node.inputs = [self.moved.get(e, e) for e in node.inputs]


def _own_function(call: Node) -> graph_pb2.NameAttrList:
    """Return the function a node named after it calls."""
    attrs = {k: v for k, v in call.raw_attrs.items() if not k.startswith("_")}
    return graph_pb2.NameAttrList(name=call.op, attr=attrs)


def become(node: Node, op: str, types: Iterable[DType]) -> None:
    """Make a node another op, of no inputs yet."""
    attrs = {STANDS_FOR_CALL: graph_pb2.AttrValue(b=True)}
    if op == "IdentityN":
        attrs["T"] = graph_pb2.AttrValue(
            list=graph_pb2.AttrValue.ListValue(type=[t.as_datatype_enum for t in types])  # type: ignore[misc]
        )
    node.turn_into(get_signature(op), attrs)
    node.inputs = []
    node.control_inputs = []


def type_attr(dtype: DType) -> graph_pb2.AttrValue:
    return graph_pb2.AttrValue(type=dtype.base_dtype.as_datatype_enum)  # type: ignore[arg-type]


def _rename_attrs(copy: Node, node: Node, body: FunctionBody, prefix: str) -> None:
    """Attributes that hold names of nodes or loops of the body."""
    changed: dict[str, graph_pb2.AttrValue] = {}
    if node.op in ENTERS:
        changed["frame_name"] = graph_pb2.AttrValue(s=f"{prefix}/{node.text_attr('frame_name')}".encode())
    classes = node.raw_attrs.get("_class")
    if classes is not None:
        renamed = graph_pb2.AttrValue()
        renamed.list.SetInParent()
        for word in classes.list.s:
            other = word[5:].decode(errors="replace") if word.startswith(b"loc:@") else ""
            if other in body.graph.nodes and body.graph.nodes[other].op not in BOUNDARIES:
                renamed.list.s.append(f"loc:@{prefix}/{other}".encode())
        changed["_class"] = renamed
    if changed:
        copy.raw_attrs = {**node.raw_attrs, **changed}
        copy._decoded = {}
