"""Calls of traced functions: one call of the executor, and one record for the tapes.

While a tape watches an argument, the function that runs is a second one that also returns the values inside that its
gradient needs; the gradient is then a function of these, so nothing is computed, drawn or assigned twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.eager import tape
from dtfctl.runtime.eager.tensor import EagerOperation, EagerTensor
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.bodies import BackwardGraph, input_gradients, is_differentiable, register_body

if TYPE_CHECKING:
    from dtfctl.runtime.eager.graph import EagerGraph


@dataclass
class _Pair:
    """A traced function made differentiable.

    Attributes:
        forward: the library's name of the function that returns `outputs` and then `saved`.
        saved: values inside the body that the gradient needs.
        backward: the gradient as a body: of gradients, the saved values, and its captures.
        grads: positions, among outputs and saved values, of those a gradient can come from.
        positions: positions of the inputs it gives gradients of.
    """

    forward: str
    saved: list[Tensor]
    backward: FuncGraph
    grads: list[int]
    positions: list[int]


@dataclass
class _Traced:
    """What was made of a body: its name in the library, and its differentiable forms (once, or again and again)."""

    name: str | None = None
    once: _Pair | None = None
    repeatedly: _Pair | None = None


def _traced(body: FuncGraph) -> _Traced:
    # With the body, since it refers to the body: both end together.
    forms: _Traced = body.__dict__.setdefault("_eager_forms", _Traced())
    return forms


def call_body(graph: EagerGraph, body: FuncGraph, inputs: Sequence[EagerTensor]) -> list[Tensor]:
    """Call a body: return its outputs for its arguments and captures.

    Raises:
        OpError: one of its ops fails.
    """
    forms = _traced(body)
    watching = tape.watching(inputs)
    if watching:
        return _call_recorded(graph, body, inputs, forms, watching)
    if forms.name is None:
        forms.name = register_body(body, graph).name
    values = graph.kernels.call_function(forms.name, [t._value for t in inputs])
    return _record(graph, body, [], values, body.outputs).outputs


def _call_recorded(
    graph: EagerGraph,
    body: FuncGraph,
    inputs: Sequence[EagerTensor],
    forms: _Traced,
    watching: Sequence[tape.GradientTape],
) -> list[Tensor]:
    # Another tape may differentiate the gradient: then gradients flow into the saved values too.
    if len(watching) > 1 or watching[0].is_persistent:
        pair = forms.repeatedly = forms.repeatedly or _differentiate(graph, body, closed=True)
    else:
        pair = forms.once = forms.once or _differentiate(graph, body, closed=False)
    values = graph.kernels.call_function(pair.forward, [t._value for t in inputs])
    count = len(body.outputs)
    op = _record(graph, body, inputs, values, [*body.outputs, *pair.saved])

    # Refers to the record only while it is called: tensors know this function, and must not keep the saved values.
    def gradient(record: Any, *grads: Any) -> list[Any]:
        if any(g is not None for i, g in enumerate(grads) if i not in set(pair.grads)):
            raise NotImplementedError(
                f"Second derivatives through a loop inside the tf.function '{body.name}': call the function's Python "
                "code directly, so that the loop runs eagerly"
            )
        arguments = [apply_op("ZerosLike", x=record.outputs[i]) if grads[i] is None else grads[i] for i in pair.grads]
        flow = graph.call(pair.backward, tape.dense([*arguments, *record.outputs[count:]]))
        out: list[Any] = [None] * len(record.inputs)
        for position, tensor in zip(pair.positions, flow):
            out[position] = tensor
        return out

    op._gradient_function = gradient
    tape.record(op)
    return op.outputs[:count]


def _record(
    graph: EagerGraph, body: FuncGraph, inputs: Sequence[EagerTensor], values: Sequence[Any], outputs: Sequence[Tensor]
) -> EagerOperation:
    signature = get_signature("StatefulPartitionedCall")
    origin = EagerOperation(graph, body.name, signature, {})
    op = EagerOperation(graph, body.name, signature, {}, inputs, origin)
    op.outputs = [EagerTensor(origin, i, t.dtype.base_dtype, v) for i, (t, v) in enumerate(zip(outputs, values))]
    for mine, inner in zip(op.outputs, outputs):
        mine._handle_data = inner._handle_data
    return op


def _differentiate(graph: EagerGraph, body: FuncGraph, closed: bool) -> _Pair:
    """Make the body's differentiable form; `closed` when gradients also flow into what it saves."""
    outputs = body.outputs
    pair, needed = _backward(graph, body, outputs, [])
    ends = outputs
    while closed:
        # Gradients of loops save other lists each time; no gradient flows into those.
        more = [t for t in needed if _is_number(t) and t not in set(ends)]
        if not more:
            break
        ends = [*ends, *more]
        pair, needed = _backward(graph, body, ends, ends[len(outputs) :])
    body.outputs = [*outputs, *needed]
    try:
        pair.forward = register_body(body, graph).name
    finally:
        body.outputs = outputs
    return pair


def _is_number(tensor: Tensor) -> bool:
    return tensor.dtype.base_dtype.is_floating or tensor.dtype.base_dtype.is_complex


def _backward(
    graph: EagerGraph, body: FuncGraph, ends: Sequence[Tensor], known: Sequence[Tensor]
) -> tuple[_Pair, list[Tensor]]:
    """Make the gradient of `ends`, and the values it needs: those known first."""
    back = BackwardGraph(f"{body.name}_grad", body, {})
    grads = [i for i, t in enumerate(ends) if _is_number(t)]
    positions = [i for i, t in enumerate(body.inputs) if is_differentiable(t)]
    with back.as_default():
        arguments = [back.add_argument(ends[i].dtype.base_dtype, ends[i].shape, "grad") for i in grads]
        for tensor in known:
            back.capture(tensor)
        found = input_gradients(back, [ends[i] for i in grads], arguments, [body.inputs[i] for i in positions])
        kept = [(i, g) for i, g in zip(positions, found) if g is not None]
        back.outputs = [back.capture(g) for _, g in kept]
    needed = list(back.saved)
    back.inputs = [*arguments, *back.saved.values(), *back.internal_captures]
    back.saved.clear()
    return _Pair("", needed, back, grads, [i for i, _ in kept]), needed
