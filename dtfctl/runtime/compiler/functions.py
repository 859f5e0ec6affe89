"""Functions of a library as graphs.

In a FunctionDef an input is written "arg", "node:output_name", "node:output_name:2" or "^node", and attributes may name
the function's own attributes. A body here has `_Arg` nodes for arguments, `_Retval` nodes for results, and values for
all attributes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.differentiate import SYMBOLIC_GRADIENT, differentiate, gradient_of
from dtfctl.runtime.framework.attrs import arg_dtypes, decode_attr
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import CONTROL, Node, NodeGraph, parse_input
from dtfctl.runtime.framework.op_signature import OpSignature

AttrMap = Mapping[str, graph_pb2.AttrValue]


@dataclass(frozen=True)
class FunctionBody:
    """A function for given attributes.

    Attributes:
        args, results: its `_Arg` and `_Retval` nodes, by index.
        controls: nodes that must have run when a call is over, besides those the results need.
    """

    name: str
    graph: NodeGraph
    args: tuple[Node, ...]
    results: tuple[Node, ...]
    controls: tuple[Node, ...]


class Functions:
    """Bodies of a library's functions, each made once."""

    def __init__(self, library: FunctionLibrary) -> None:
        self.library = library
        self._lock = threading.Lock()
        self._bodies: dict[bytes, FunctionBody] = {}

    def body(self, function: graph_pb2.NameAttrList) -> FunctionBody:
        """Return the body of a function for the attributes given with its name.

        Raises:
            NotFoundError: there is no such function.
            InvalidArgumentError: it is malformed.
        """
        key = function.SerializeToString(deterministic=True)
        with self._lock:
            body = self._bodies.get(key)
        if body is None:
            body = instantiate(self.library, function.name, function.attr)
            with self._lock:
                self._bodies[key] = body
        return body


def instantiate(library: FunctionLibrary, name: str, attrs: AttrMap) -> FunctionBody:
    """Make the body of function `name` for these attribute values.

    Raises:
        NotFoundError: there is no such function.
        InvalidArgumentError: its body is malformed.
    """
    if name == SYMBOLIC_GRADIENT:
        return _gradient(library, attrs)
    function = library.find(name)
    if function is None:
        raise NotFoundError(f"Function {name} is not defined.")
    return _Instantiation(library, function, attrs).body()


def _gradient(library: FunctionLibrary, attrs: AttrMap) -> FunctionBody:
    """Make the body that computes the gradient of the function these attributes name."""
    registered = gradient_of(library, attrs)
    if registered is not None:
        return instantiate(library, registered.name, registered.attr)
    function = attrs["f"].func
    forward = library.find(function.name)
    if forward is None:
        raise NotFoundError(f"Function {function.name} is not defined.")
    flat = _Instantiation(library, forward, function.attr).flat()
    return _Instantiation(library, differentiate(library, function.name, flat), {}).body()


def check_types(name: str, got: Sequence[DType], wanted: Sequence[DType]) -> None:
    """Raise InvalidArgumentError unless a function gives what its caller wants."""
    if [t.base_dtype for t in got] != [t.base_dtype for t in wanted]:
        raise InvalidArgumentError(
            f"A function called by '{name}' gives [{', '.join(t.name for t in got)}], expected "
            f"[{', '.join(t.name for t in wanted)}]",
            name,
        )


class _Instantiation:
    def __init__(self, library: FunctionLibrary, function: graph_pb2.FunctionDef, attrs: AttrMap) -> None:
        self.library = library
        self.function = function
        self.name = function.signature.name
        try:
            self.signature = OpSignature.from_proto(function.signature)
        except (TypeError, ValueError) as e:
            raise InvalidArgumentError(f"Function {self.name} has a malformed signature: {e}") from e
        self.attrs = {a.name: a.default for a in self.signature.attrs if a.default is not None}
        self.attrs.update(attrs)
        self.taken = {n.name for n in function.node_def}
        # "arg" or "node:output" -> the outputs it stands for.
        self.outputs: dict[str, list[str]] = {}

    def flat(self) -> graph_pb2.GraphDef:
        """Return the body's nodes as a graph's, with `_Arg` and `_Retval` nodes; one graph of an instantiation."""
        out = graph_pb2.GraphDef()
        decoded = {k: decode_attr(v) for k, v in self.attrs.items()}
        index = 0
        for arg in self.signature.inputs:
            flat = []
            for i, dtype in enumerate(arg_dtypes(arg, decoded)):
                flat.append(self._boundary(out, f"{arg.name}_{i}" if arg.is_list else arg.name, "_Arg", dtype, index))
                index += 1
            self.outputs[arg.name] = flat
        bodies = [self._substituted(node) for node in self.function.node_def]
        for body in bodies:
            self._declare_outputs(body)
        for body in bodies:
            resolved = [text for name in body.input for text in self._resolve(name)]
            del body.input[:]
            body.input.extend(resolved)
            out.node.append(body)
        index = 0
        for arg in self.signature.outputs:
            if arg.name not in self.function.ret:
                raise InvalidArgumentError(f"Function {self.name}: output '{arg.name}' is not returned")
            sources = self._resolve(self.function.ret[arg.name])
            types = arg_dtypes(arg, decoded)
            if len(sources) != len(types):
                raise InvalidArgumentError(
                    f"Function {self.name}: output '{arg.name}' should be {len(types)} tensors, got {len(sources)}"
                )
            for source, dtype in zip(sources, types):
                self._boundary(out, f"{arg.name}_RetVal_{index}", "_Retval", dtype, index, source)
                index += 1
        return out

    def body(self) -> FunctionBody:
        graph = NodeGraph(self.library)
        for rank, added in enumerate(graph.extend(self.flat()).nodes):
            added.rank = rank
        controls = []
        for node_name in self.function.control_ret.values():
            node = graph.find(node_name)
            if node is None:
                raise InvalidArgumentError(f"Function {self.name}: control output node '{node_name}' does not exist")
            controls.append(node)
        args = tuple(n for n in graph if n.op == "_Arg")
        results = tuple(n for n in graph if n.op == "_Retval")
        return FunctionBody(self.name, graph, args, results, tuple(controls))

    def _boundary(
        self, out: graph_pb2.GraphDef, wish: str, op: str, dtype: DType, index: int, source: str | None = None
    ) -> str:
        name = wish
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        node = out.node.add(name=name, op=op, input=[source] if source is not None else [])
        node.attr["T"].type = dtype.as_datatype_enum  # type: ignore[assignment]
        node.attr["index"].i = index
        return name

    def _substituted(self, node: graph_pb2.NodeDef) -> graph_pb2.NodeDef:
        copy = graph_pb2.NodeDef()
        copy.CopyFrom(node)
        for value in copy.attr.values():
            self._substitute(value, node.name)
        return copy

    def _substitute(self, value: graph_pb2.AttrValue, node: str) -> None:
        which = value.WhichOneof("value")
        if which == "placeholder":
            given = self.attrs.get(value.placeholder)
            if given is None:
                raise InvalidArgumentError(f"Function {self.name}: attr '{value.placeholder}' has no value", node)
            value.CopyFrom(given)
        elif which == "func":
            for inner in value.func.attr.values():
                self._substitute(inner, node)
        elif which == "list":
            for function in value.list.func:
                for inner in function.attr.values():
                    self._substitute(inner, node)

    def _declare_outputs(self, node: graph_pb2.NodeDef) -> None:
        signature = self.library.signature(node.op)
        attrs = {a.name: decode_attr(a.default) for a in signature.attrs if a.default is not None}
        attrs.update((k, decode_attr(v)) for k, v in node.attr.items())
        at = 0
        for arg in signature.outputs:
            count = len(arg_dtypes(arg, attrs))
            self.outputs[f"{node.name}:{arg.name}"] = [f"{node.name}:{i}" for i in range(at, at + count)]
            at += count

    def _resolve(self, text: str) -> list[str]:
        """Inputs of a graph that an input of a body stands for."""
        if text.startswith("^"):
            return [text]
        if text in self.outputs:
            return self.outputs[text]
        base, index = parse_input(text)
        if index != CONTROL and base in self.outputs and index < len(self.outputs[base]):
            return [self.outputs[base][index]]
        raise InvalidArgumentError(f"Function {self.name}: unknown input '{text}'")
