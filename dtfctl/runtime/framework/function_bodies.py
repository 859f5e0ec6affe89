"""Bodies of a library's functions as nodes of a graph.

In a FunctionDef an input is written "arg", "node:output_name", "node:output_name:2" or "^node", and attributes may name
the function's own attributes. Flat, it has `_Arg` nodes for arguments, `_Retval` nodes for results, and values for all
attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import arg_dtypes, decode_attr
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.importer import import_graph_def
from dtfctl.runtime.framework.node_graph import CONTROL, parse_input
from dtfctl.runtime.framework.op_signature import OpSignature
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.structural_ops import BOUNDARIES
from dtfctl.runtime.framework.tensor_shape import TensorShape

AttrMap = Mapping[str, graph_pb2.AttrValue]


def boundary(flat: graph_pb2.GraphDef, op: str) -> list[graph_pb2.NodeDef]:
    """List a flat body's `_Arg` or `_Retval` nodes in order."""
    return sorted((n for n in flat.node if n.op == op), key=lambda n: n.attr["index"].i)


def import_body(flat: graph_pb2.GraphDef, arguments: Sequence[Tensor], name: str) -> list[Tensor]:
    """Add a flat body's nodes to the default graph.

    Args:
        arguments: what stands for its `_Arg` nodes.
        name: scope for the new names; no scope when "".

    Returns:
        Its results.
    """
    given = {n.name: tensor for n, tensor in zip(boundary(flat, "_Arg"), arguments, strict=True)}
    inner = graph_pb2.GraphDef(versions=flat.versions)
    inner.node.extend(n for n in flat.node if n.op not in BOUNDARIES)
    for node in inner.node:
        kept = [i for i in node.input if not (i.startswith("^") and i[1:] in given)]
        del node.input[:]
        node.input.extend(kept)
    used = {i.split(":")[0] for n in inner.node for i in n.input}
    sources = [n.input[0] for n in boundary(flat, "_Retval")]
    ends = import_graph_def(
        inner,
        {f"{k}:0": v for k, v in given.items() if k in used},
        [s if ":" in s else f"{s}:0" for s in sources if s.split(":")[0] not in given],
        name=name,
    )
    found = iter(ends or ())
    return [given[s.split(":")[0]] if s.split(":")[0] in given else next(found) for s in sources]


def body_graph(
    outer: Graph, function: graph_pb2.NameAttrList, inputs: Sequence[Tensor], shapes: Sequence[TensorShape]
) -> FuncGraph:
    """Make a graph of a function of a library, as if it had been built here.

    Args:
        outer: where it is called, with the library.
        inputs: what it is called with; handles among its arguments are of the same variables.
        shapes: of its arguments.

    Raises:
        InvalidArgumentError: there is no such function, or it is malformed.
    """
    definition = outer.library.find(function.name)
    if definition is None:
        raise InvalidArgumentError(f"Function {function.name} is not defined.")
    flat = FlatFunction(outer.library, definition, function.attr).flat()
    body = FuncGraph(function.name, outer)
    with body.as_default():
        arguments = [
            body.add_argument(dtypes.as_dtype(node.attr["T"].type), shape, node.name, like=like)
            for node, like, shape in zip(boundary(flat, "_Arg"), inputs, shapes, strict=True)
        ]
        body.outputs = import_body(flat, arguments, "")
    return body


class FlatFunction:
    """One instantiation of a function: its nodes for these values of its attributes."""

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

    def _boundary(
        self, out: graph_pb2.GraphDef, wish: str, op: str, dtype: dtypes.DType, index: int, source: str | None = None
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
