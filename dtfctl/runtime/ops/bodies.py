"""Function bodies of control flow: registering them in the library, matching their inputs, differentiating them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.function_bodies import body_graph
from dtfctl.runtime.framework.gradients import as_dense, gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import CASES, IFS, WHILES

_numbers = itertools.count()


def register_body(body: FuncGraph, graph: Graph) -> graph_pb2.NameAttrList:
    """Put a body into the graph's function library under a name of its own; what an op's attribute then holds."""
    name = f"{body.name}_{next(_numbers)}"
    graph.library.functions[name] = body.to_function_def(name)
    return graph_pb2.NameAttrList(name=name)


def match_captures(bodies: Sequence[FuncGraph], arguments: int) -> list[Tensor]:
    """Give all bodies the same captures in the same order, after their first `arguments` inputs.

    Returns:
        The outer tensors captured, in that order.
    """
    captured = list(dict.fromkeys(t for body in bodies for t in body.external_captures))
    for body in bodies:
        with body.as_default():
            placeholders = [body.capture_always(t) for t in captured]
        body.inputs = [*body.inputs[:arguments], *placeholders]
    return captured


def bodies_of(op: Operation) -> list[Any]:
    """Find the graphs that an op's functions were built as, which their gradients are built from.

    An op that was imported has functions of a library: they are made graphs again.

    Raises:
        LookupError: it is a loop whose first variable does not count iterations, as those of other makers.
    """
    if op._bodies is None:
        op._bodies = _imported_bodies(op)
    return op._bodies


def _imported_bodies(op: Operation) -> list[FuncGraph]:
    if op.type in IFS:
        names, inputs = [op.attr("then_branch"), op.attr("else_branch")], op.inputs[1:]
    elif op.type in CASES:
        names, inputs = op.attr("branches"), op.inputs[1:]
    elif op.type in WHILES:
        names, inputs = [op.attr("cond"), op.attr("body")], op.inputs
    else:
        names, inputs = [op.attr("f")], op.inputs
    shapes = [t.shape for t in inputs]
    if op.type in WHILES and op.attr("output_shapes"):
        shapes = op.attr("output_shapes")
    bodies = [body_graph(op.graph, name, inputs, shapes) for name in names]
    if op.type in WHILES and not _counts(bodies[1]):
        raise LookupError(
            f"The gradient of '{op.name}' ({op.type}) needs a loop whose first variable counts its iterations. Build "
            "the loop with tf.while_loop here instead of importing it."
        )
    return bodies


def _counts(body: FuncGraph) -> bool:
    """Tell whether the first variable of a loop's body is a number that each iteration adds 1 to."""
    op = body.outputs[0].op
    while op.type == "Identity":
        op = op.inputs[0].op
    if op.type not in ("AddV2", "Add") or body.inputs[0].shape.rank != 0:
        return False
    return op.inputs[0] is body.inputs[0] and constant_value(op.inputs[1]) == 1


def is_differentiable(tensor: Tensor) -> bool:
    """Tell whether a gradient can flow into a tensor: floats, complex numbers, and handles and lists."""
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype in (dtypes.resource, dtypes.variant)


class BackwardGraph(FuncGraph):
    """The gradient of a body. Values of the forward body it needs become `saved`: placeholders to be filled later."""

    def __init__(self, name: str, forward: FuncGraph, outer_of: Mapping[Tensor, Tensor]) -> None:
        """Start a graph to build the gradient of `forward` in.

        Args:
            outer_of: inputs of `forward` whose value never changes, with the outer tensors they were called with: these
                are captured from outside; other inputs are saved like intermediate values.
        """
        super().__init__(name)
        self.forward = forward
        self._outer_of = outer_of
        self.saved: dict[Tensor, Tensor] = {}

    def capture(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self.forward:
            outer = self._outer_of.get(tensor)
            if outer is not None:
                return super().capture(outer)
            if tensor.op.type == "Const":
                return self._copy_constant(tensor)
            known = self.saved.get(tensor)
            if known is None:
                with self.name_scope(None):
                    known = self.saved[tensor] = self.add_argument(tensor.dtype, tensor.shape, "saved", like=tensor)
            return known
        return super().capture(tensor)

    def inner(self, tensor: Tensor) -> Tensor:
        return tensor

    def _copy_constant(self, tensor: Tensor) -> Tensor:
        known = self._copied.get(tensor)
        if known is None:
            with self.name_scope(None), self.control_dependencies(None):
                op = self.add_op(tensor.op.signature, [], tensor.op.attrs, name=tensor.op.name.split("/")[-1])
            known = self._copied[tensor] = op.outputs[0]
        return known


def input_gradients(
    backward: BackwardGraph, ys: Sequence[Tensor], grads: Sequence[Tensor | None], xs: Sequence[Tensor]
) -> Any:
    """Build dense gradients (or None) of forward `ys` for forward inputs `xs` in `backward`, the default graph."""
    pairs = [(y, g) for y, g in zip(ys, grads) if g is not None]
    if not pairs:
        return [None] * len(xs)
    found = gradients([y for y, _ in pairs], list(xs), grad_ys=[g for _, g in pairs], name="gradient")
    return [as_dense(g) if isinstance(g, IndexedSlices) else g for g in found]


def zeros_like(tensor: Tensor) -> Tensor:
    """Make zeros of a tensor's shape; for a variable's handle, of the variable's."""
    if tensor.dtype is dtypes.resource:
        data = tensor._handle_data
        if data is None:
            raise ValueError(f"The gradient of {tensor!r} needs the shape of its variable, which is not known here")
        shape = (
            list(data[1].known())
            if data[1].is_fully_defined()
            else apply_op("VariableShape", input=tensor, out_type=dtypes.int32)
        )
        zero = apply_op("Cast", x=0.0, DstT=data[0])
        return apply_op("Fill", dims=shape, value=zero)
    return apply_op("ZerosLike", x=tensor)


def append_outputs(op: Operation, types: Iterable[Any]) -> list[Tensor]:
    """Give an op of control flow more outputs; its attributes and body are the caller's to change."""
    added = []
    for dtype in types:
        tensor = Tensor(op, len(op.outputs), dtype)
        op.outputs.append(tensor)
        added.append(tensor)
    op.graph._grew(op)
    return added
