"""`cond`, `case` and `switch_case`: the branches become functions, run by one If or Case op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.bodies import (
    BackwardGraph,
    append_outputs,
    bodies_of,
    input_gradients,
    is_differentiable,
    match_captures,
    register_body,
    zeros_like,
)

_R = TypeVar("_R")


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Run `true_fn()`'s ops when `pred` holds, else those of `false_fn()`, and give the result of the one that ran.

    Args:
        pred: a scalar bool tensor.
        strict: keep a list of one element a list.

    Raises:
        TypeError: a branch is no function, `pred` a Python bool, or the branches return different kinds of things.
        ValueError: they return structures that differ.
    """
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")
    if isinstance(pred, bool) and not context.get_default_graph().executes:
        raise TypeError("pred must not be a Python bool")
    graph: Any = context.get_default_graph()
    if graph.executes:
        return graph.cond(pred, true_fn, false_fn, strict)
    with graph.name_scope(name or "cond"):
        pred = convert_to_tensor(pred, name="pred")
        if pred.dtype.base_dtype is not dtypes.bool_:
            raise TypeError(
                f"Input 'pred' of 'cond' has type {pred.dtype.name} that does not match expected type of bool"
            )
        true_body, true_result = _trace("cond_true", true_fn, strict, done=True)
        false_body, false_result = _trace("cond_false", false_fn, strict, done=False)
        _check_same(true_result, false_result, true_body, false_body)
        op = _make("If", pred, [true_body, false_body])
        return _pack(op.outputs[: len(true_body.outputs)], true_result)


def _trace(name: str, function: Callable[[], Any], strict: bool, done: bool = True) -> tuple[FuncGraph, Any]:
    """Make a body of what a function makes; `done` is what an operation that has run becomes."""
    body = FuncGraph(name, in_line=True)
    as_value = functools.partial(_as_value, done=done)
    with body.as_default():
        result = function()
        if not strict and isinstance(result, (list, tuple)) and len(result) == 1 and not hasattr(result, "_fields"):
            result = result[0]
        result = nest.map_structure(as_value, result) if nest.is_nested(result) else as_value(result)
        flat = [t for t in nest.flatten(result, expand_composites=True) if t is not None]
        body.outputs = [body.capture(t) for t in flat]
    return body, result


def _as_value(item: Any, done: bool) -> Any:
    """Turn what a branch returns into tensors; an operation becomes a bool that is there once it has run.

    The bool is that of the branch, as TensorFlow's is.
    """
    if item is None or isinstance(item, CompositeTensor):
        return item
    if isinstance(item, Operation):
        with context.get_default_graph().control_dependencies([item]):
            return constant(done)
    flow = getattr(item, "_flow_of_array", None)
    if flow is not None:
        return flow
    element = item._as_graph_element() if hasattr(item, "_as_graph_element") else item
    tensor = convert_to_tensor(element)
    if tensor.dtype.is_ref:
        tensor = apply_op("Identity", input=tensor)
    return tensor


def _check_same(a: Any, b: Any, x: FuncGraph, y: FuncGraph) -> None:
    if (a is None) != (b is None):
        raise ValueError("true_fn and false_fn must both return something, or neither")
    try:
        nest.assert_same_structure(a, b, expand_composites=True)
        for one, other in zip(nest.flatten(a, expand_composites=True), nest.flatten(b, expand_composites=True)):
            if (one is None) != (other is None):
                raise ValueError(f"{one!r} and {other!r}")
        if len(x.outputs) != len(y.outputs):
            raise ValueError(f"{a!r} and {b!r} have other parts")
    except (ValueError, TypeError) as e:
        raise type(e)(f"true_fn and false_fn must return the same structure of tensors: {e}") from None
    for p, q in zip(x.outputs, y.outputs):
        if p.dtype.base_dtype is not q.dtype.base_dtype:
            raise ValueError(
                f"Outputs of true_fn and false_fn must have the same type(s): {p.dtype.name}, {q.dtype.name} ({p.name})"
            )


def _common_shape(shapes: Sequence[TensorShape]) -> TensorShape:
    first = shapes[0].dims_or_none
    for other in shapes[1:]:
        dims = other.dims_or_none
        if first is None or dims is None or len(first) != len(dims):
            return TensorShape(None)
        first = tuple(p if p == q else None for p, q in zip(first, dims))
    return TensorShape(None) if first is None else TensorShape(first)


def _make(kind: str, selector: Tensor, bodies: list[FuncGraph]) -> Operation:
    """Make an If or Case op over these bodies, whose captures are made equal."""
    graph = context.get_default_graph()
    captured = match_captures(bodies, 0)
    shapes = [_common_shape([b.outputs[i].shape for b in bodies]) for i in range(len(bodies[0].outputs))]
    stateful = any(b.is_stateful for b in bodies)
    arguments: dict[str, Any] = {
        "input": captured,
        "Tout": [t.dtype for t in bodies[0].outputs],
        "output_shapes": shapes,
        "Tin": [t.dtype for t in captured],
    }
    functions = [register_body(b, graph) for b in bodies]
    if kind == "If":
        op = make_op(
            "If" if stateful else "StatelessIf",
            cond=selector,
            then_branch=functions[0],
            else_branch=functions[1],
            name=kind.lower(),
            **arguments,
        )
    else:
        op = make_op(
            "Case" if stateful else "StatelessCase",
            branch_index=selector,
            branches=functions,
            name=kind.lower(),
            **arguments,
        )
    for tensor, shape, inner in zip(op.outputs, shapes, bodies[0].outputs):
        tensor._shape = shape
        tensor._handle_data = inner._handle_data
    op._bodies = bodies
    # As TensorFlow marks it: a step runs only what its fetches need of a branch.
    op._set_attr("_lower_using_switch_merge", encode_attr("bool", True))
    return op


def _pack(outputs: Sequence[Tensor], structure: Any) -> Any:
    # What TensorFlow's Merge gives has this name, and programs look it up.
    values = [
        apply_op("Identity", input=t, name="Merge") if t.dtype.base_dtype.is_numpy_compatible else t for t in outputs
    ]
    leaves = iter(values)
    flat = [None if t is None else next(leaves) for t in nest.flatten(structure, expand_composites=True)]
    return nest.pack_sequence_as(structure, flat, expand_composites=True)


@register_gradient("If", "StatelessIf", "Case", "StatelessCase")
def _branch_gradient(op: Operation, *grads: Any) -> list[Any]:
    """Differentiate a conditional by another conditional over the gradients of its branches.

    Values of a branch that its gradient needs become extra outputs of the forward op; the branches that do not make
    them give a zero scalar, which nobody reads.
    """
    bodies: list[FuncGraph] = bodies_of(op)
    graph = context.get_default_graph()
    known = [g for g in grads[: len(bodies[0].outputs)] if g is not None]
    backs: list[BackwardGraph] = []
    results: list[list[Any]] = []
    for body in bodies:
        back = BackwardGraph(f"{body.name}_grad", body, dict(zip(body.inputs, op.inputs[1:])))
        with back.as_default():
            arguments = [back.add_argument(g.dtype, g.shape, "grad") for g in known]
            supplied = iter(arguments)
            ins = [None if g is None else next(supplied) for g in grads[: len(body.outputs)]]
            results.append(_differentiate(back, body, ins))
        backs.append(back)
    wanted = [i for i in range(len(bodies[0].inputs)) if any(r[i] is not None for r in results)]
    if not wanted:
        return [None] * len(op.inputs)
    for back, body, result in zip(backs, bodies, results):
        with back.as_default():
            back.outputs = [
                back.capture(zeros_like(back.capture(body.inputs[i]))) if result[i] is None else back.capture(result[i])
                for i in wanted
            ]
    _expose_saved(op, bodies, backs)
    count = len(known)
    captured = match_captures(backs, count)
    out = _make_backward(graph, op, backs, known, captured)
    gradients: list[Any] = [None] * len(op.inputs)
    for position, tensor in zip(wanted, out):
        gradients[1 + position] = tensor
    return gradients


def _differentiate(back: BackwardGraph, body: FuncGraph, grads: Sequence[Any]) -> list[Any]:
    positions = [i for i, t in enumerate(body.inputs) if is_differentiable(t)]
    found = input_gradients(back, body.outputs[: len(grads)], grads, [body.inputs[i] for i in positions])
    out: list[Any] = [None] * len(body.inputs)
    for i, g in zip(positions, found):
        out[i] = g
    return out


def _expose_saved(op: Operation, bodies: list[FuncGraph], backs: list[BackwardGraph]) -> None:
    """Make the forward op return what the backward bodies need, and let those capture it."""
    saved = [(k, forward, placeholder) for k, b in enumerate(backs) for forward, placeholder in b.saved.items()]
    if not saved:
        return
    tensors = append_outputs(op, [forward.dtype.base_dtype for _, forward, _ in saved])
    for (owner, forward, placeholder), outer in zip(saved, tensors):
        outer._shape = forward.shape
        outer._handle_data = forward._handle_data
        for k, body in enumerate(bodies):
            with body.as_default():
                body.outputs.append(forward if k == owner else _stand_in(forward))
        backs[owner]._captures[outer] = placeholder
    for back in backs:
        back.saved.clear()
    functions = [register_body(b, op.graph) for b in bodies]
    op._set_attr("Tout", encode_attr("list(type)", [t.dtype for t in op.outputs]))
    op._set_attr("output_shapes", encode_attr("list(shape)", [t.shape for t in op.outputs]))
    if op.type in ("If", "StatelessIf"):
        op._set_attr("then_branch", encode_attr("func", functions[0]))
        op._set_attr("else_branch", encode_attr("func", functions[1]))
    else:
        op._set_attr("branches", encode_attr("list(func)", functions))


def _stand_in(tensor: Tensor) -> Tensor:
    """Make up a value of a type, for a branch that does not make the real one."""
    dtype = tensor.dtype.base_dtype
    if dtype.name == "variant":
        return apply_op(
            "EmptyTensorList", element_shape=-1, max_num_elements=0, element_dtype="float32", shape_type="int32"
        )
    if dtype.name == "resource":
        raise ValueError(f"{tensor!r}: a handle made inside a branch cannot be differentiated through")
    return constant(b"" if dtype.name == "string" else False if dtype.is_bool else 0, dtype)


def _make_backward(
    graph: Any, op: Operation, backs: list[BackwardGraph], known: list[Any], captured: list[Tensor]
) -> list[Tensor]:
    functions = [register_body(b, graph) for b in backs]
    stateful = any(b.is_stateful for b in backs)
    inputs = [*known, *captured]
    common: dict[str, Any] = {
        "input": inputs,
        "Tin": [t.dtype for t in inputs],
        "Tout": [t.dtype for t in backs[0].outputs],
        "output_shapes": [_common_shape([b.outputs[i].shape for b in backs]) for i in range(len(backs[0].outputs))],
    }
    if op.type in ("If", "StatelessIf"):
        new = make_op(
            "If" if stateful else "StatelessIf",
            cond=op.inputs[0],
            then_branch=functions[0],
            else_branch=functions[1],
            **common,
        )
    else:
        new = make_op("Case" if stateful else "StatelessCase", branch_index=op.inputs[0], branches=functions, **common)
    for tensor, shape in zip(new.outputs, common["output_shapes"]):
        tensor._shape = shape
    new._bodies = list(backs)
    return new.outputs


def smart_cond(pred: Any, true_fn: Callable[[], _R], false_fn: Callable[[], _R], name: str | None = None) -> _R:
    """Run `cond`, decided at once when `pred` is known while the graph is built."""
    value = pred if isinstance(pred, (bool, int)) else constant_value(convert_to_tensor(pred))
    if value is not None:
        return true_fn() if value else false_fn()
    chosen: _R = cond(pred, true_fn, false_fn, name=name)
    return chosen


def case(
    pred_fn_pairs: Any,
    default: Any = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Run the function of the first pair whose predicate holds, else `default()`, and give its result.

    Args:
        pred_fn_pairs: (predicate, function) pairs, in order; or a dict.
        exclusive: fail when more than one predicate holds.

    Raises:
        TypeError: the pairs are malformed.
        InvalidArgumentError (when run): none holds and there is no default, or several hold with `exclusive`.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else list(pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"Each entry in pred_fn_pairs must be a (predicate, function) pair, got {pair!r}")
    if not pairs:
        raise ValueError("pred_fn_pairs must not be empty")
    graph = context.get_default_graph()
    with graph.name_scope(name):
        predicates = [convert_to_tensor(p) for p, _ in pairs]
        checks: list[Any] = []
        if exclusive and len(pairs) > 1:
            held = apply_op(
                "Sum", input=apply_op("Cast", x=apply_op("Pack", values=predicates), DstT="int32"), reduction_indices=0
            )
            checks.append(
                _require(apply_op("Less", x=held, y=2), "Input error: exclusive=True: more than one condition was True")
            )
        if default is None:
            last, pairs = pairs[-1][1], pairs[:-1]
            some = apply_op("Any", input=apply_op("Pack", values=predicates), reduction_indices=0)
            checks.append(_require(some, "None of conditions evaluated as True"))
            default = last
        with graph.control_dependencies(checks):
            chosen = default
            for predicate, function in reversed(list(zip(predicates, [f for _, f in pairs]))):
                chosen = _choose(predicate, function, chosen, strict)
            return chosen()


def _choose(predicate: Tensor, function: Callable[[], Any], otherwise: Callable[[], Any], strict: bool) -> Any:
    return lambda: cond(predicate, function, otherwise, strict=strict)


def _require(condition: Tensor, message: str) -> Operation:
    return make_op("Assert", condition=condition, data=[message])


def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None, name: str = "switch_case"
) -> Any:
    """Run the branch with this index, else `default` (the last branch when None), and give its result."""
    by_index = isinstance(branch_fns, Mapping) or not callable(next(iter(branch_fns), None))
    numbered = dict(branch_fns if by_index else enumerate(branch_fns))
    if sorted(numbered) != list(range(len(numbered))):
        raise ValueError(f"branch indices must form 0..{len(numbered) - 1}, got {sorted(numbered)}")
    functions = [numbered[i] for i in range(len(numbered))]
    functions.append(default or functions[-1])
    graph: Any = context.get_default_graph()
    if graph.executes:
        return graph.switch_case(branch_index, functions)
    with graph.name_scope(name):
        index = convert_to_tensor(branch_index)
        last = constant(len(functions) - 1, index.dtype)
        below = apply_op("Less", x=index, y=constant(0, index.dtype))
        beyond = apply_op("Greater", x=index, y=last)
        index = apply_op("SelectV2", condition=apply_op("LogicalOr", x=below, y=beyond), t=last, e=index)
        traced = [_trace(f"{name}_branch{i}", f, False) for i, f in enumerate(functions)]
        for body, result in traced[1:]:
            _check_same(traced[0][1], result, traced[0][0], body)
        op = _make("Case", index, [b for b, _ in traced])
        return _pack(op.outputs[: len(traced[0][0].outputs)], traced[0][1])
