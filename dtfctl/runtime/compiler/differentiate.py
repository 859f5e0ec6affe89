"""Gradients of functions nobody wrote a gradient function for, built from the gradients of their bodies' ops.

A SymbolicGradient node names a function and takes its arguments and the gradients of its results; it gives those of the
arguments, zeros where nothing flows. Calls inside the body become SymbolicGradient nodes of their own.
"""

from __future__ import annotations

from contextlib import ExitStack

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, UnimplementedError
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.function_bodies import AttrMap, boundary, import_body
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.gradients import as_dense, gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

SYMBOLIC_GRADIENT = "SymbolicGradient"


def gradient_of(library: FunctionLibrary, attrs: AttrMap) -> graph_pb2.NameAttrList | None:
    """Return the gradient function registered for the function that a SymbolicGradient's attributes name.

    Raises:
        InvalidArgumentError: they name none, or another SymbolicGradient.
    """
    function = attrs["f"].func if "f" in attrs else graph_pb2.NameAttrList()
    if not function.name:
        raise InvalidArgumentError("SymbolicGradient is missing attr: f")
    if function.name == SYMBOLIC_GRADIENT:
        raise InvalidArgumentError("Can't take gradient of SymbolicGradient")
    registered = library.gradients.get(function.name)
    return None if registered is None else graph_pb2.NameAttrList(name=registered, attr=function.attr)


def differentiate(library: FunctionLibrary, name: str, body: graph_pb2.GraphDef) -> graph_pb2.FunctionDef:
    """Make the gradient function of a body.

    Args:
        library: what the body calls.
        name: the function's.
        body: with `_Arg` and `_Retval` nodes.

    Raises:
        UnimplementedError: an op of the body has no gradient.
    """
    outer = Graph()
    outer.library.functions = dict(library.functions)
    outer.library.gradients = dict(library.gradients)
    known = set(library.functions)
    with ExitStack() as scopes:
        scopes.enter_context(outer.as_default())
        graph = FuncGraph(f"{name}_grad", outer)
        scopes.enter_context(graph.as_default())
        xs = [graph.add_argument(_dtype(n), TensorShape(None), n.name) for n in boundary(body, "_Arg")]
        flowing = [graph.add_argument(_dtype(n), TensorShape(None), "grad") for n in boundary(body, "_Retval")]
        try:
            ys = import_body(body, xs, "body")
            pairs = [(y, dy) for y, dy in zip(ys, flowing) if _flows(y)]
            grads = gradients([y for y, _ in pairs], xs, [dy for _, dy in pairs], name="gradient") if pairs else []
            grads = grads or [None] * len(xs)
            graph.outputs = [_dense(x, g) for x, g in zip(xs, grads)]
        except (LookupError, ValueError, TypeError, OpError) as e:
            raise UnimplementedError(f"The gradient of function '{name}' cannot be computed here: {e}") from e
        if set(outer.library.functions) != known:
            raise UnimplementedError(
                f"The gradient of function '{name}' cannot be computed here: it needs functions of its own"
            )
        return graph.to_function_def(f"{name}_grad")


def _dtype(node: graph_pb2.NodeDef) -> dtypes.DType:
    return dtypes.as_dtype(node.attr["T"].type)


def _flows(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype in (dtypes.resource, dtypes.variant)


def _dense(x: Tensor, grad: Tensor | IndexedSlices | None) -> Tensor:
    if grad is not None:
        return as_dense(grad)
    if x.dtype is dtypes.resource:
        # As in TensorFlow: what flows into a handle is taken to be a float variable's gradient.
        x = apply_op("ReadVariableOp", resource=x, dtype=dtypes.float32)
    return apply_op("ZerosLike", x=x)
