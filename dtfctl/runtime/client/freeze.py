"""Freezing a graph: its variables become constants of the values they have in a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.client.session import BaseSession
from dtfctl.runtime.framework.dtypes import DType, as_dtype, int32
from dtfctl.runtime.framework.graph_util import extract_sub_graph, node_of
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.framework.tensor_codec import encode_tensor

_PASSING = {"Identity": "T", "Enter": "T", "Exit": "T", "Switch": "T", "Merge": "T", "NextIteration": "T"}
"""Ops whose output is a handle when an input is, and the attribute with its type."""

_CALLERS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "If": (1, "Tin", ("then_branch", "else_branch")),
    "StatelessIf": (1, "Tin", ("then_branch", "else_branch")),
    "Case": (1, "Tin", ("branches",)),
    "StatelessCase": (1, "Tin", ("branches",)),
    "While": (0, "T", ("cond", "body")),
    "StatelessWhile": (0, "T", ("cond", "body")),
    "PartitionedCall": (0, "Tin", ("f",)),
    "StatefulPartitionedCall": (0, "Tin", ("f",)),
}
"""Ops that call functions: the first input that is an argument, the attribute of types, those with the functions."""


def convert_variables_to_constants(
    sess: BaseSession,
    input_graph_def: graph_pb2.GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Sequence[str] | None = None,
    variable_names_blacklist: Sequence[str] | None = None,
) -> graph_pb2.GraphDef:
    """Copy what the given nodes need of a graph, with constants for its variables; those in bodies of loops too.

    Args:
        sess: where the variables have their values.
        output_node_names: names of nodes, without output numbers.
        variable_names_whitelist, variable_names_blacklist: only these variables, or all but these.

    Raises:
        AssertionError: a node is not in the graph.
        OpError: a variable has no value.
        ValueError: a node that is kept changes a variable, so that no constant can stand for it.
    """
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    only, never = variable_names_whitelist, set(variable_names_blacklist or ())
    names: dict[str, str] = {}
    for node in graph_def.node:
        if node.op not in VARIABLES or node.name in never:
            continue
        if only is None or node.name in only:
            names[node.name] = f"{node.name}/Read/ReadVariableOp:0" if node.op == "VarHandleOp" else f"{node.name}:0"
    values = sess.run(list(names.values()))
    freezer = _Freezer(graph_def.library)
    handles: dict[str, DType] = {}
    out = graph_pb2.GraphDef(versions=graph_def.versions)
    for node in graph_def.node:
        if node.name in names:
            value = values[list(names).index(node.name)]
            dtype = as_dtype(node.attr["dtype"].type).base_dtype
            if node.op == "VarHandleOp":
                handles[node.name] = dtype
            node = _constant(node.name, value, dtype)
        out.node.append(node)
    added = freezer.freeze(out.node, handles)
    out.node.extend(added)
    out.library.CopyFrom(freezer.library)
    return out


def _constant(name: str, value: Any, dtype: DType) -> graph_pb2.NodeDef:
    node = graph_pb2.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum  # type: ignore[assignment]
    node.attr["value"].tensor.CopyFrom(encode_tensor(np.asarray(value), dtype))
    return node


class _Freezer:
    """Follows handles that became values through a graph and the functions it calls."""

    def __init__(self, library: graph_pb2.FunctionDefLibrary) -> None:
        self.library = graph_pb2.FunctionDefLibrary()
        self.library.CopyFrom(library)
        self._functions = {f.signature.name: f for f in library.function}
        self._made: dict[tuple[str, tuple[tuple[int, str], ...]], str] = {}

    def freeze(self, nodes: Any, frozen: dict[str, DType]) -> list[graph_pb2.NodeDef]:
        """Change nodes in place, given names of outputs that are values now and their types.

        Args:
            frozen: grows by what else became a value.

        Returns:
            Nodes to add to the graph.
        """
        added: list[graph_pb2.NodeDef] = []
        done: set[str] = set()
        while True:
            ready = [
                n for n in nodes if n.name not in done and any(node_of(i) in frozen for i in n.input if i[0] != "^")
            ]
            if not ready:
                return added
            for node in ready:
                done.add(node.name)
                at = [(i, frozen[node_of(name)]) for i, name in enumerate(node.input) if node_of(name) in frozen]
                added += self._change(node, [(i, t) for i, t in at if node.input[i][0] != "^"], frozen)

    def _change(
        self, node: graph_pb2.NodeDef, at: list[tuple[int, DType]], frozen: dict[str, DType]
    ) -> list[graph_pb2.NodeDef]:
        dtype = at[0][1]
        if node.op in _PASSING:
            node.attr[_PASSING[node.op]].type = dtype.as_datatype_enum  # type: ignore[assignment]
            node.attr.pop("_output_shapes", None)
            frozen[node.name] = dtype
        elif node.op in _CALLERS:
            self._call(node, at, frozen)
        elif node.op == "ReadVariableOp":
            _become(node, "Identity", T=dtype)
        elif node.op == "VariableShape":
            out_type = as_dtype(node.attr["out_type"].type) if node.attr["out_type"].type else int32
            _become(node, "Shape", T=dtype, out_type=out_type)
        elif node.op == "ResourceGatherNd":
            _become(node, "GatherNd", Tparams=dtype, Tindices=as_dtype(node.attr["Tindices"].type))
        elif node.op == "ResourceGather":
            batch_dims = node.attr["batch_dims"].i
            indices = as_dtype(node.attr["Tindices"].type)
            _become(node, "GatherV2", Tparams=dtype, Tindices=indices, Taxis=int32)
            node.attr["batch_dims"].i = batch_dims
            controls = [i for i in node.input if i.startswith("^")]
            axis = _constant(f"{node.name}/axis", np.int32(batch_dims), int32)
            node.input[:] = [*node.input[:2], axis.name, *controls]
            return [axis]
        else:
            raise ValueError(
                f"The node {node.name} ({node.op}) needs the variable {node.input[at[0][0]]} itself, which freezing "
                "makes a constant: take it out of the output nodes, or put the variable into variable_names_blacklist"
            )
        return []

    def _call(self, node: graph_pb2.NodeDef, at: list[tuple[int, DType]], frozen: dict[str, DType]) -> None:
        first, types, attributes = _CALLERS[node.op]
        arguments = [(i - first, t) for i, t in at]
        for i, dtype in arguments:
            node.attr[types].list.type[i] = dtype.as_datatype_enum  # type: ignore[call-overload]
        node.attr.pop("_output_shapes", None)
        for attribute in attributes:
            value = node.attr[attribute]
            for function in [value.func] if value.HasField("func") else value.list.func:
                function.name = self._function(function.name, arguments)

    def _function(self, name: str, arguments: list[tuple[int, DType]]) -> str:
        """Copy a function so that it takes values where it took handles; return the copy's name."""
        key = (name, tuple((i, t.name) for i, t in arguments))
        if key in self._made:
            return self._made[key]
        taken = {f.signature.name for f in self.library.function}
        made = next(n for i in range(len(taken) + 1) if (n := f"{name}_frozen_{i}") not in taken)
        self._made[key] = made
        copy = self.library.function.add()
        copy.CopyFrom(self._functions[name])
        copy.signature.name = made
        frozen: dict[str, DType] = {}
        for i, dtype in arguments:
            copy.signature.input_arg[i].type = dtype.as_datatype_enum  # type: ignore[assignment]
            copy.arg_attr.pop(i, None)
            frozen[copy.signature.input_arg[i].name] = dtype
        reads = {n.name for n in copy.node_def if n.op == "ReadVariableOp"}
        added = self.freeze(copy.node_def, frozen)
        copy.node_def.extend(added)
        for axis in added:
            for node in copy.node_def:
                node.input[:] = [f"{axis.name}:output:0" if i == axis.name else i for i in node.input]
        for node in copy.node_def:
            node.input[:] = [_renamed(i, reads) for i in node.input]
        for result in list(copy.ret):
            copy.ret[result] = _renamed(copy.ret[result], reads)
        for output in copy.signature.output_arg:
            source = node_of(copy.ret[output.name])
            if source in frozen:
                output.type = frozen[source].as_datatype_enum  # type: ignore[assignment]
        return made


def _renamed(name: str, reads: set[str]) -> str:
    """Rename the output of what was a ReadVariableOp and became an Identity: from `value` to `output`."""
    node, _, rest = name.partition(":")
    return f"{node}:output:{rest.removeprefix('value:')}" if node in reads and rest.startswith("value:") else name


def _become(node: graph_pb2.NodeDef, op: str, **types: DType) -> None:
    colocation = graph_pb2.AttrValue()
    if "_class" in node.attr:
        colocation.CopyFrom(node.attr["_class"])
    node.op = op
    node.attr.clear()
    for name, dtype in types.items():
        node.attr[name].type = dtype.as_datatype_enum  # type: ignore[assignment]
    if colocation.list.s:
        node.attr["_class"].CopyFrom(colocation)
