"""Reverse-mode differentiation: gradients as graph nodes, made while the graph is built, as TensorFlow does.

The ops between `ys` and `xs` are visited in reverse topological order. The gradients of an op's outputs, summed over
all consumers, go to its gradient function (framework.registries), which gives those of its inputs.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import find_gradient
from dtfctl.runtime.framework.structural_ops import BRANCHES, CALLS, WITH_BODIES
from dtfctl.runtime.framework.tensor_shape import TensorShape


class UnconnectedGradients(Enum):
    """What the gradient is where `ys` do not depend on an x."""

    NONE = "none"
    ZERO = "zero"


class AggregationMethod:
    """TF1's choices; every one adds with AddN here."""

    ADD_N = 0
    DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE,
) -> list[Any]:
    """Differentiate the sum of `ys` symbolically with respect to each of `xs`.

    Args:
        ys, xs: a tensor (or variable) or a list of them.
        grad_ys: what flows into each y; ones of its shape when None.
        colocate_gradients_with_ops: place each gradient op where its forward op is.
        gate_gradients: use no gradient of an op before all of them are computed.
        stop_gradients: tensors treated as constants.

    Returns:
        One Tensor, IndexedSlices (for gathers) or None for each x.

    Raises:
        LookupError: an op on the way has no gradient registered.
        TypeError: a y is not of a floating or complex type.
    """
    if context.get_default_graph().executes:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead."
        )
    ys, xs = _as_list(ys), _as_list(xs)
    stops = [] if stop_gradients is None else _as_list(stop_gradients)
    graph = context.get_default_graph()
    with graph.name_scope(name):
        handles = [_tensor_of(x) for x in xs]
        y_tensors = [y if isinstance(y, Tensor) else _value_of(y) for y in ys]
        stop_tensors = [_tensor_of(s) for s in stops]
        starts = _initial_gradients(y_tensors, _as_list(grad_ys) if grad_ys is not None else [None] * len(ys))
        walk = _Backward(graph, y_tensors, handles, stop_tensors, colocate_gradients_with_ops, gate_gradients)
        results = walk.run(starts)
        if unconnected_gradients == UnconnectedGradients.ZERO:
            results = [apply_op("ZerosLike", x=x, name="zeros_like") if g is None else g for g, x in zip(results, xs)]
        for g, x in zip(results, xs):
            # A gradient has the shape of what it is of; that of a variable's handle is the variable's.
            shape = getattr(x, "shape", None)
            if isinstance(x, Tensor) and x.dtype.base_dtype is dtypes.resource:
                shape = x._handle_data[1] if x._handle_data is not None else None
            if isinstance(g, Tensor) and isinstance(shape, TensorShape) and g.shape.is_compatible_with(shape):
                g._shape = g.shape.merge_with(shape)
        return [x.with_gradient(g) if isinstance(x, CompositeTensor) else g for g, x in zip(results, xs)]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _tensor_of(x: Any) -> Tensor:
    """Find the tensor that stands for x in the graph: a variable's handle or reference, or x itself."""
    if isinstance(x, CompositeTensor):
        return x.differentiated  # type: ignore[no-any-return]
    handle: Tensor | None = getattr(x, "_gradient_source", None)
    if handle is not None:
        return handle
    return x if isinstance(x, Tensor) else convert_to_tensor(x, as_ref=True)


def _value_of(y: Any) -> Tensor:
    return (
        y.differentiated
        if isinstance(y, CompositeTensor) and not isinstance(y, IndexedSlices)
        else convert_to_tensor(y)
    )


def _initial_gradients(ys: list[Tensor], grads: list[Any]) -> list[Any]:
    if len(ys) != len(grads):
        raise ValueError(f"`ys` and `grad_ys` must have the same length, got {len(ys)} and {len(grads)}")
    out: list[Any] = []
    for i, (y, grad) in enumerate(zip(ys, grads)):
        dtype = y.dtype.base_dtype
        if grad is None:
            if not (dtype.is_floating or dtype.is_complex) and dtype not in (dtypes.variant, dtypes.resource):
                raise TypeError(
                    f"Gradients of tensors must be of a floating or complex type, got {dtype.name} ({y.name})"
                )
            if dtype.is_complex:
                raise TypeError(f"Gradients of complex tensors ({y.name}) must set grad_ys (y.dtype = {dtype.name})")
            # Not a constant, though the shape be known: what flows back comes after y.
            shape = apply_op("Shape", input=y, name="Shape")
            one = convert_to_tensor(1.0, dtype, name=f"grad_ys_{i}/Const")
            out.append(apply_op("Fill", dims=shape, value=one, name=f"grad_ys_{i}"))
            out[-1].set_shape(y.shape)
        elif isinstance(grad, IndexedSlices):
            out.append(grad)
        else:
            out.append(convert_to_tensor(grad, dtype, name=f"grad_ys_{i}"))
    return out


class _Backward:
    """One call of `gradients`."""

    def __init__(
        self,
        graph: Any,
        ys: list[Tensor],
        xs: list[Tensor],
        stops: list[Tensor],
        colocate: bool,
        gate: bool,
    ) -> None:
        self.graph = graph
        self.ys, self.xs = ys, xs
        self.colocate, self.gate = colocate, gate
        # What a body has captured is followed to where it comes from, where an x is outside the body of a y.
        inside = {y.graph for y in ys}
        self.crosses = any(x.graph not in inside for x in xs) or len(inside) > 1
        self.between = ops_between(ys, xs, self._inputs)
        self.stop_ops = {t.op for t in stops}
        x_ops = {x.op for x in xs}
        self.stop_ops |= {op for op in x_ops if not any(t.op in self.between for t in self._inputs(op))}
        self.gathered: dict[Tensor, list[Any]] = defaultdict(list)

    def run(self, starts: list[Any]) -> list[Any]:
        pending = self._pending_counts()
        for y, grad in zip(self.ys, starts):
            self.gathered[y].append(grad)
        ready = deque(dict.fromkeys(y.op for y in self.ys if y.op in self.between and pending[y.op] == 0))
        while ready:
            op = ready.popleft()
            self._visit(op)
            for tensor in self._inputs(op):
                source = tensor.op
                if source in self.between and source in pending:
                    pending[source] -= 1
                    if pending[source] == 0:
                        ready.append(source)
        return [self._sum(x) for x in self.xs]

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """List an op's inputs; for an argument of a body the tensor outside that it stands for, where that matters."""
        if op.inputs or not self.crosses:
            return op.inputs
        captured = op.graph.captured_by(op)
        return [] if captured is None else [captured]

    def _pending_counts(self) -> dict[Operation, int]:
        """Count for each op its uses among the ops to differentiate."""
        pending: dict[Operation, int] = dict.fromkeys(self.between, 0)
        for op in self.between:
            for tensor in self._inputs(op):
                if tensor.op in pending:
                    pending[tensor.op] += 1
        return pending

    def _visit(self, op: Operation) -> None:
        if op in self.stop_ops:
            return
        out_grads = [self._sum(t) for t in op.outputs]
        if all(g is None for g in out_grads):
            return
        if not op.inputs and (captured := self._inputs(op)):
            self.gathered[captured[0]].append(out_grads[0])
            return
        function = self._function_of(op)
        if function is None:
            return
        for i, grad in enumerate(out_grads):
            trainable = op.outputs[i].dtype.base_dtype.is_floating or op.outputs[i].dtype.base_dtype.is_complex
            if grad is None and trainable and not self._accepts_none(op):
                out_grads[i] = apply_op("ZerosLike", x=op.outputs[i], name="zeros_like")
        with self.graph.name_scope(op.name + "_grad"), self._placement(op):
            in_grads = function(op, *out_grads)
            in_grads = list(in_grads) if isinstance(in_grads, (list, tuple)) else [in_grads]
            if len(in_grads) != len(op.inputs):
                raise ValueError(
                    f"Num gradients {len(in_grads)} generated for op {op.name} ({op.type}) do not match num inputs "
                    f"{len(op.inputs)}"
                )
            if self.gate and sum(g is not None for g in in_grads) > 1:
                in_grads = _gated(in_grads)
        for tensor, grad in zip(op.inputs, in_grads):
            if grad is None:
                continue
            if isinstance(grad, Tensor) and tensor.dtype is not dtypes.resource:
                with contextlib.suppress(ValueError):
                    grad.set_shape(tensor.shape)
            self.gathered[tensor].append(grad)

    def _placement(self, op: Operation) -> Any:
        return self.graph.colocate_with(op, ignore_existing=True) if self.colocate else contextlib.nullcontext()

    def _function_of(self, op: Operation) -> Any:
        if op._gradient_function is not None:
            return op._gradient_function
        override = op.attr("_gradient_op_type")
        if not override and op._bodies is None and called_function(op) is not None:
            return symbolic_gradient
        try:
            return find_gradient(override.decode() if override else op.type)
        except LookupError:
            raise LookupError(
                f"No gradient defined for operation '{op.name}' (op type: {op.type}). Register one with "
                "tf.RegisterGradient, or stop the gradient before it with tf.stop_gradient."
            ) from None

    @staticmethod
    def _accepts_none(op: Operation) -> bool:
        return op.type in WITH_BODIES | BRANCHES

    def _sum(self, tensor: Tensor) -> Any:
        grads = self.gathered.get(tensor)
        if not grads:
            return None
        if len(grads) > 1:
            grads[:] = [aggregate(grads)]
        return grads[0]


def called_function(op: Operation) -> graph_pb2.NameAttrList | None:
    """Find the library's function an op calls: its own name's, or that of a call node's attribute."""
    if op.type in CALLS:
        called: graph_pb2.NameAttrList = op.attr("f")
        return called
    if op.type in op.graph.library.functions:
        attrs = {k: v for k, v in op.attrs.items() if not k.startswith("_")}
        return graph_pb2.NameAttrList(name=op.type, attr=attrs)
    return None


def symbolic_gradient(op: Operation, *grads: Any) -> list[Any]:
    """Leave the gradient of a call whose Python function is not known here to the server, which has the body."""
    out_grads = [
        apply_op("ZerosLike", x=y) if g is None else as_dense(g) for y, g in zip(op.outputs, grads, strict=True)
    ]
    # What flows into a variable's handle is a float32 gradient, as in TensorFlow.
    types = [dtypes.float32 if x.dtype is dtypes.resource else x.dtype.base_dtype for x in op.inputs]
    found = apply_op_outputs("SymbolicGradient", input=[*op.inputs, *out_grads], Tout=types, f=called_function(op))
    flat = found if isinstance(found, list) else [found]
    flows = [x.dtype is dtypes.resource or x.dtype.is_floating or x.dtype.is_complex for x in op.inputs]
    return [g if wanted else None for g, wanted in zip(flat, flows, strict=True)]


def aggregate(grads: Sequence[Any]) -> Any:
    """Sum gradients: AddN of tensors, concatenation of IndexedSlices, dense when both kinds meet."""
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(g, IndexedSlices) for g in grads):
        values = apply_op("ConcatV2", values=[g.values for g in grads], axis=0)
        wide = any(g.indices.dtype is dtypes.int64 for g in grads)
        parts = [apply_op("Cast", x=g.indices, DstT=dtypes.int64) if wide else g.indices for g in grads]
        return IndexedSlices(values, apply_op("ConcatV2", values=parts, axis=0), grads[0].dense_shape)
    tensors = [as_dense(g) for g in grads]
    return apply_op("AddN", inputs=tensors)


def as_dense(grad: Tensor | IndexedSlices, name: str | None = None) -> Tensor:
    """Make an IndexedSlices a dense tensor; a tensor stays as it is.

    Raises:
        ValueError: it does not know its dense shape.
    """
    if not isinstance(grad, IndexedSlices):
        return grad
    if grad.dense_shape is None:
        raise ValueError(f"Tensor conversion requested for IndexedSlices without dense_shape: {grad!r}")
    first = apply_op("StridedSlice", input=grad.dense_shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return apply_op("UnsortedSegmentSum", name, data=grad.values, segment_ids=grad.indices, num_segments=first)


def ops_between(
    ys: list[Tensor],
    xs: list[Tensor],
    inputs_of: Callable[[Operation], Sequence[Tensor]] = lambda op: op.inputs,
) -> set[Operation]:
    """Find the ops that some y depends on and that depend on some x."""
    consumers: dict[Operation, list[Operation]] = defaultdict(list)
    reached: set[Operation] = set()
    stack = [y.op for y in ys]
    while stack:
        op = stack.pop()
        if op in reached:
            continue
        reached.add(op)
        for tensor in inputs_of(op):
            consumers[tensor.op].append(op)
            stack.append(tensor.op)
    between: set[Operation] = set()
    stack = [x.op for x in xs if x.op in reached]
    while stack:
        op = stack.pop()
        if op in between:
            continue
        between.add(op)
        stack += consumers[op]
    return between


def _gated(grads: list[Any]) -> list[Any]:
    """Pass on the same gradients, none of which is ready before all of them are."""
    present = [g for g in grads if g is not None]
    graph = context.get_default_graph()
    with graph.control_dependencies([g.values if isinstance(g, IndexedSlices) else g for g in present]):
        return [
            None
            if g is None
            else IndexedSlices(apply_op("Identity", input=g.values), g.indices, g.dense_shape)
            if isinstance(g, IndexedSlices)
            else apply_op("Identity", input=g)
            for g in grads
        ]
