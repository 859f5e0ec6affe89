"""Functions of a library as graphs: a body has `_Arg` nodes for arguments and `_Retval` nodes for results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.differentiate import SYMBOLIC_GRADIENT, differentiate, gradient_of
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.function_bodies import AttrMap, FlatFunction
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Node, NodeGraph


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


class _Instantiation(FlatFunction):
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
