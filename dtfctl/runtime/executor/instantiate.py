"""A function's body as a graph: arguments become `_Arg` nodes, results `_Retval` nodes, attributes their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import arg_dtypes, decode_attr
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.node_graph import CONTROL, FunctionLibrary, NodeGraph, parse_input
from dtfctl.runtime.framework.op_signature import OpSignature

AttrMap = Mapping[str, graph_pb2.AttrValue]


def instantiate(library: FunctionLibrary, name: str, attrs: AttrMap) -> NodeGraph:
    """The body of function `name` for these attribute values.

    Raises:
        NotFoundError: there is no such function.
        InvalidArgumentError: its body is malformed.
    """
    function = library.find(name)
    if function is None:
        raise NotFoundError(f"Function {name} is not defined.")
    return _Instantiation(library, function, attrs).graph()


class _Instantiation:
    def __init__(self, library: FunctionLibrary, function: graph_pb2.FunctionDef, attrs: AttrMap) -> None:
        self.library = library
        self.function = function
        self.attrs = attrs
        self.signature = OpSignature.from_proto(function.signature)
        # "arg" or "node:out" -> the flat outputs it stands for.
        self.outputs: dict[str, list[str]] = {}

    def graph(self) -> NodeGraph:
        out = graph_pb2.GraphDef()
        decoded = {k: decode_attr(v) for k, v in self.attrs.items()}
        index = 0
        for arg in self.signature.inputs:
            flat = []
            types = arg_dtypes(arg, decoded)
            for i, dtype in enumerate(types):
                node = out.node.add(name=arg.name if not arg.is_list else f"{arg.name}_{i}", op="_Arg")
                _type_attr(node, dtype)
                node.attr["index"].i = index
                flat.append(node.name)
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
            sources = self._resolve(self.function.ret[arg.name])
            for source, dtype in zip(sources, arg_dtypes(arg, decoded), strict=True):
                node = out.node.add(name=f"{arg.name}_RetVal_{index}", op="_Retval", input=[source])
                _type_attr(node, dtype)
                node.attr["index"].i = index
                index += 1
        graph = NodeGraph(self.library)
        for rank, added in enumerate(graph.extend(out)):
            added.rank = rank
        return graph

    def _substituted(self, node: graph_pb2.NodeDef) -> graph_pb2.NodeDef:
        copy = graph_pb2.NodeDef()
        copy.CopyFrom(node)
        for name, value in copy.attr.items():
            if value.WhichOneof("value") == "placeholder":
                given = self.attrs.get(value.placeholder)
                if given is None:
                    raise InvalidArgumentError(
                        f"Function {self.function.signature.name}: attr '{value.placeholder}' has no value", node.name
                    )
                copy.attr[name].CopyFrom(given)
        return copy

    def _declare_outputs(self, node: graph_pb2.NodeDef) -> None:
        signature = self.library.signature(node.op)
        attrs = {a.name: decode_attr(a.default) for a in signature.attrs if a.default is not None}
        attrs.update((k, decode_attr(v)) for k, v in node.attr.items())
        at = 0
        for arg in signature.outputs:
            count = len(arg_dtypes(arg, attrs))
            self.outputs[f"{node.name}:{arg.name}"] = [f"{node.name}:{i}" for i in range(at, at + count)]
            at += count

    def _resolve(self, text: str) -> Iterator[str] | list[str]:
        """Inputs of a graph that an input of a body ("^n", "arg", "node:out" or "node:out:2") stands for."""
        if text.startswith("^"):
            return [text]
        if text in self.outputs:
            return self.outputs[text]
        base, index = parse_input(text)
        if index != CONTROL and base in self.outputs and index < len(self.outputs[base]):
            return [self.outputs[base][index]]
        raise InvalidArgumentError(f"Function {self.function.signature.name}: unknown input '{text}'")


def _type_attr(node: graph_pb2.NodeDef, dtype: DType) -> None:
    node.attr["T"].type = dtype.as_datatype_enum  # type: ignore[assignment]
