"""`while_loop`: condition and body become functions, run by one While op.

The loop's variables are a counter, those of the program, and what the functions capture, which does not change. The
gradient is another While that walks the iterations backwards. Values of each iteration that it needs are pushed, by a
changed forward body, on lists that travel as further loop variables, and popped by the backward body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
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


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat `body` while `cond` holds.

    Args:
        cond: loop variables -> scalar bool tensor; body: loop variables -> their next values, same structure.
        loop_vars: a list or tuple of (structures of) tensors, TensorArrays or values.
        shape_invariants: shapes that hold in every iteration, where they are less specific than those of `loop_vars`.
        back_prop: False stops gradients at the results.
        maximum_iterations: a bound, in addition to `cond`.
        return_same_structure: give a list of one variable back as a list.

    Raises:
        TypeError: cond or body is no function; ValueError: there are no loop variables, or structures or shapes differ.
    """
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if not loop_vars and not isinstance(loop_vars, (Tensor, dict)):
        raise ValueError("'loop_vars' must be provided.")
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    structure = list(loop_vars) if isinstance(loop_vars, (list, tuple)) else [loop_vars]
    graph: Any = context.get_default_graph()
    with graph.name_scope(name or "while"):
        if graph.executes:
            packed = graph.while_loop(cond, body, structure, maximum_iterations)
        else:
            loop = _Loop(structure, shape_invariants, cond, body, maximum_iterations)
            op = loop.build(parallel_iterations)
            outputs = loop.results(op)
            if not back_prop:
                outputs = [apply_op("StopGradient", input=t) if t.dtype.base_dtype.is_floating else t for t in outputs]
            packed = loop.pack(outputs)
    if return_same_structure:
        return packed if isinstance(loop_vars, list) else tuple(packed) if isinstance(loop_vars, tuple) else packed[0]
    return packed[0] if len(packed) == 1 else packed


class _Loop:
    """One call of `while_loop` on its way to an op."""

    def __init__(
        self,
        structure: list[Any],
        invariants: Any,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        maximum: Any,
    ) -> None:
        self.structure = structure
        self.leaves = nest.flatten(structure, expand_composites=True)
        self.returned = self.leaves
        self.start = [_as_loop_tensor(v) for v in self.leaves]
        self.shapes = self._invariant_shapes(invariants)
        self.counter = constant(0, dtypes.int32, name="loop_counter")
        limit = -1 if maximum is None else maximum
        self.maximum = convert_to_tensor(limit, dtypes.int32, name="maximum_iterations")
        self.bounded = maximum is not None
        self.cond_body = self._trace_cond(cond)
        self.body = self._trace_body(body)

    def _invariant_shapes(self, invariants: Any) -> list[TensorShape]:
        values = nest.flatten(self.structure)
        if invariants is None:
            given: list[Any] = [None] * len(values)
        else:
            whole = invariants if isinstance(invariants, (list, tuple)) else [invariants]
            given = [as_shape(getattr(item, "shape", item)) for item in _flatten_shapes(list(whole))]
            if len(given) != len(values):
                raise ValueError(f"'shape_invariants' has {len(given)} shapes for {len(values)} loop variables.")
        flat: list[TensorShape] = []
        for shape, value in zip(given, values):
            if isinstance(value, CompositeTensor):
                flat.extend(value.component_shapes(shape))
            else:
                flat.append(self.start[len(flat)].shape if shape is None else shape)
        for tensor, shape in zip(self.start, flat):
            if not shape.is_compatible_with(tensor.shape):
                raise ValueError(
                    f"The shape invariant specified for {tensor.name} is not compatible with the initial shape of the "
                    f"loop variable. It enters the loop with shape {tensor.shape}, but the specified shape invariant "
                    f"is {shape}."
                )
        arrays = [getattr(leaf, "_flow_of_array", None) is not None for leaf in self.leaves]
        return [tensor.shape if array else shape for tensor, shape, array in zip(self.start, flat, arrays)]

    def _arguments(self, body: FuncGraph) -> tuple[Tensor, list[Tensor]]:
        counter = body.add_argument(dtypes.int32, TensorShape([]), "loop_counter")
        args = []
        for tensor, shape in zip(self.start, self.shapes):
            args.append(body.add_argument(tensor.dtype.base_dtype, shape, "loop_var", like=tensor))
        return counter, args

    def pack(self, tensors: Sequence[Tensor]) -> list[Any]:
        values = [
            v._with_flow(t) if getattr(v, "_flow_of_array", None) is not None else t
            for v, t in zip(self.returned, tensors)
        ]
        return list(nest.pack_sequence_as(self.structure, values, expand_composites=True))

    def _trace_cond(self, function: Callable[..., Any]) -> FuncGraph:
        graph = FuncGraph("while_cond", in_line=True)
        with graph.as_default():
            counter, args = self._arguments(graph)
            holds = convert_to_tensor(function(*self.pack(args)))
            if holds.dtype is not dtypes.bool_:
                raise TypeError(f"cond must return a boolean scalar tensor, got {holds.dtype.name}")
            if self.bounded:
                within = apply_op("Less", x=counter, y=graph.capture(self.maximum))
                holds = apply_op("LogicalAnd", x=within, y=holds)
            graph.outputs = [graph.capture(holds)]
        return graph

    def _trace_body(self, function: Callable[..., Any]) -> FuncGraph:
        graph = FuncGraph("while_body", in_line=True)
        with graph.as_default():
            counter, args = self._arguments(graph)
            result = function(*self.pack(args))
            following = self._next_values(result)
            step = apply_op("AddV2", x=counter, y=1)
            graph.outputs = [step, *[graph.capture(t) for t in following]]
        for i, (before, after) in enumerate(zip(args, following)):
            if before.dtype.base_dtype is not after.dtype.base_dtype:
                raise TypeError(
                    f"Loop variable {self.start[i].name} enters the loop with type {before.dtype.name}, but has type "
                    f"{after.dtype.name} after one iteration"
                )
            if not _is_subshape(after.shape, before.shape):
                raise ValueError(
                    f"Input tensor '{self.start[i].name}' enters the loop with shape {self.start[i].shape}, but has "
                    f"shape {after.shape} after one iteration. To allow the shape to vary across iterations, use the "
                    "`shape_invariants` argument of tf.while_loop to specify a less-specific shape."
                )
        return graph

    def _next_values(self, result: Any) -> list[Tensor]:
        items = result if isinstance(result, (list, tuple)) and not hasattr(result, "_fields") else [result]
        items = list(items)
        if len(self.structure) == 1 and len(items) != 1:
            items = [result]
        try:
            nest.assert_same_structure(self.structure, items)
        except (ValueError, TypeError) as e:
            raise type(e)(f"body must return the structure of loop_vars: {e}") from None
        flat = nest.flatten(items, expand_composites=True)
        # Arrays learn their elements' shape by being written to: the results are as the body returned them.
        self.returned = flat
        return [_as_loop_tensor(v) for v in flat]

    def build(self, parallel_iterations: int) -> Operation:
        count = 1 + len(self.start)
        captured = match_captures([self.cond_body, self.body], count)
        self.body.outputs = [*self.body.outputs, *self.body.inputs[count:]]
        inputs = [self.counter, *self.start, *captured]
        op = _make_while(self.cond_body, self.body, inputs, parallel_iterations)
        for tensor, inner in zip(op.outputs, self.body.inputs):
            tensor._shape = inner.shape
            tensor._handle_data = inner._handle_data
        op.outputs[0]._shape = TensorShape([])
        return op

    def results(self, op: Operation) -> list[Tensor]:
        # TensorFlow's loops end in Exit ops, the first of them the counter's where the iterations are bounded; programs
        # look their names up.
        chosen = op.outputs[0 if self.bounded else 1 : 1 + len(self.start)]
        results = [apply_op("Identity", input=t, name="Exit") for t in chosen]
        return results[1:] if self.bounded else results


def _flatten_shapes(structure: Any) -> list[Any]:
    """Flatten a structure of shapes to its leaves: a TensorShape, None, or a list or tuple of ints and Nones."""
    if isinstance(structure, TensorShape) or structure is None:
        return [structure]
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in _flatten_shapes(structure[key])]
    if isinstance(structure, (list, tuple)):
        if all(d is None or isinstance(d, int) for d in structure) and not isinstance(structure, list):
            return [TensorShape(list(structure))]
        return [leaf for item in structure for leaf in _flatten_shapes(item)]
    return [structure]


def _is_subshape(shape: TensorShape, of: TensorShape) -> bool:
    """Tell whether every value of `shape` also fits `of`."""
    a, b = shape.dims_or_none, of.dims_or_none
    if b is None:
        return True
    return a is not None and len(a) == len(b) and all(q is None or p == q for p, q in zip(a, b))


def _as_loop_tensor(value: Any) -> Tensor:
    flow: Tensor | None = getattr(value, "_flow_of_array", None)
    if flow is not None:
        return flow
    tensor = convert_to_tensor(value)
    return apply_op("Identity", input=tensor) if tensor.dtype.is_ref else tensor


def _make_while(cond: FuncGraph, body: FuncGraph, inputs: list[Tensor], parallel_iterations: int) -> Operation:
    graph = context.get_default_graph()
    op = make_op(
        "While" if body.is_stateful or cond.is_stateful else "StatelessWhile",
        input=inputs,
        T=[t.dtype for t in inputs],
        cond=register_body(cond, graph),
        body=register_body(body, graph),
        output_shapes=[t.shape for t in body.inputs],
        parallel_iterations=parallel_iterations,
    )
    op._bodies = [cond, body]
    return op


@register_gradient("While", "StatelessWhile")
def _while_gradient(op: Operation, *grads: Any) -> list[Any]:
    """Differentiate a loop by its inputs; input 0 is the counter, inputs the body returns unchanged are invariants.

    An invariant's gradient is the sum over all iterations.
    """
    cond, body = bodies_of(op)
    invariants = {i for i, t in enumerate(body.inputs) if body.outputs[i] is t}
    active = [i for i in range(1, len(body.inputs)) if is_differentiable(body.inputs[i])]
    seeds = [i for i in active if i not in invariants and _seed(op, grads, i) is not None]
    variables = _reachable_variables(body, [i for i in active if i not in invariants], seeds)
    constants = [i for i in active if i in invariants]
    if not variables:
        return [_seed(op, grads, i) if i in constants else None for i in range(len(op.inputs))]
    back = BackwardGraph(f"{body.name}_grad", body, {body.inputs[i]: op.inputs[i] for i in invariants})
    with back.as_default():
        counter = back.add_argument(dtypes.int32, TensorShape([]), "grad_counter")
        incoming = {i: back.add_argument(body.outputs[i].dtype, body.inputs[i].shape, "grad") for i in variables}
        ys = [body.outputs[i] for i in variables]
        xs = [body.inputs[i] for i in (*variables, *constants)]
        found = input_gradients(back, ys, [incoming[i] for i in variables], xs)
        by_input = dict(zip((*variables, *constants), found))
    constants = [i for i in constants if by_input[i] is not None]
    starts: list[Tensor] = [constant(0, dtypes.int32)]
    for i in variables:
        seed = _seed(op, grads, i)
        starts.append(zeros_like(op.outputs[i]) if seed is None else seed)
    for i in constants:
        seed = _seed(op, grads, i)
        starts.append(zeros_like(op.inputs[i]) if seed is None else seed)
    with back.as_default():
        outputs = [apply_op("AddV2", x=counter, y=1)]
        for i in variables:
            grad = by_input[i]
            outputs.append(back.capture(zeros_like(incoming[i]) if grad is None else grad))
        sums = [back.add_argument(by_input[i].dtype, by_input[i].shape, "grad_sum") for i in constants]
        outputs += [apply_op("AddN", inputs=[s, by_input[i]]) for s, i in zip(sums, constants)]
    lists = _push_saved(op, cond, body, back)
    back.inputs = [counter, *incoming.values(), *sums]
    with back.as_default():
        for placeholder, (forward, outer) in lists.items():
            held = back.add_argument(dtypes.variant, TensorShape([]), "saved_list")
            rest, value = apply_op_outputs(
                "TensorListPopBack",
                input_handle=held,
                element_shape=_element_shape(forward),
                element_dtype=forward.dtype.base_dtype,
            )
            value._shape = forward.shape
            _replace_uses(back, placeholder, value)
            outputs = [value if t is placeholder else t for t in outputs]
            outputs.append(rest)
            starts.append(outer)
    back.outputs = outputs
    _reorder(back)
    back_cond = FuncGraph("while_grad_cond")
    with back_cond.as_default():
        arguments = [back_cond.add_argument(t.dtype, t.shape, "arg") for t in back.inputs[: len(starts)]]
        back_cond.outputs = [apply_op("Less", x=arguments[0], y=back_cond.capture(op.outputs[0]))]
    captured = match_captures([back_cond, back], len(starts))
    back.outputs = [*back.outputs, *back.inputs[len(starts) :]]
    new = _make_while(back_cond, back, [*starts, *captured], int(op.attr("parallel_iterations")))
    result: list[Any] = [None] * len(op.inputs)
    for i, tensor in zip((*variables, *constants), new.outputs[1:]):
        tensor._shape = TensorShape(None) if op.inputs[i].dtype is dtypes.resource else op.inputs[i].shape
        result[i] = tensor
    return result


def _seed(op: Operation, grads: Sequence[Any], i: int) -> Any:
    return grads[i] if i < len(grads) else None


def _reachable_variables(body: FuncGraph, variables: list[int], seeds: list[int]) -> list[int]:
    """Find the loop variables whose value influences, over any number of iterations, one that has a gradient."""
    from dtfctl.runtime.framework.gradients import ops_between

    chosen = set(seeds)
    while True:
        ys = [body.outputs[i] for i in chosen]
        more = {i for i in variables if i not in chosen and any(ops_between([y], [body.inputs[i]]) for y in ys)}
        if not more:
            return sorted(chosen)
        chosen |= more


# What a branch has saved for its gradient is a scalar when another one runs, also where a function passes it on.
_STANDING_IN = ("If", "StatelessIf", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall")


def _element_shape(tensor: Tensor) -> Any:
    dims = tensor.shape.dims_or_none
    if dims is None or tensor.op.type in _STANDING_IN:
        return constant(-1, dtypes.int32)
    return constant([-1 if d is None else d for d in dims], dtypes.int32)


def _push_saved(op: Operation, cond: FuncGraph, body: FuncGraph, back: BackwardGraph) -> dict[Tensor, Any]:
    """Make the forward loop push what the backward body saved.

    Returns:
        For each placeholder of `back` the forward tensor it stands for and the loop's list of its values.
    """
    saved = list(back.saved.items())
    back.saved.clear()
    if not saved:
        return {}
    starts, lists = [], {}
    with op.graph.as_default(), op.graph.control_dependencies(None):
        for forward, _ in saved:
            starts.append(
                apply_op(
                    "EmptyTensorList",
                    element_shape=_element_shape(forward),
                    max_num_elements=-1,
                    element_dtype=forward.dtype.base_dtype,
                )
            )
    outers = append_outputs(op, [dtypes.variant] * len(saved))
    for (forward, placeholder), outer in zip(saved, outers):
        outer._shape = TensorShape([])
        with cond.as_default():
            cond.add_argument(dtypes.variant, TensorShape([]), "saved_list")
        with body.as_default(), body.control_dependencies(None):
            held = body.add_argument(dtypes.variant, TensorShape([]), "saved_list")
            pushed = apply_op(
                "TensorListPushBack", input_handle=held, tensor=forward, element_dtype=forward.dtype.base_dtype
            )
            body.outputs.append(pushed)
        lists[placeholder] = (forward, outer)
    op._inputs = [*op._inputs, *starts]
    op.input_types = (*op.input_types, *[dtypes.variant] * len(starts))
    op._set_attr("T", encode_attr("list(type)", [t.dtype for t in op._inputs]))
    op._set_attr("cond", encode_attr("func", register_body(cond, op.graph)))
    op._set_attr("body", encode_attr("func", register_body(body, op.graph)))
    op._set_attr("output_shapes", encode_attr("list(shape)", [t.shape for t in body.inputs]))
    return lists


def _replace_uses(graph: FuncGraph, old: Tensor, new: Tensor) -> None:
    """Let every op of `graph` use `new` instead of `old`, which stops being an input."""
    for op in graph.get_operations():
        if op is new.op:
            continue
        for i, tensor in enumerate(op._inputs):
            if tensor is old:
                op._update_input(i, new)
    graph.inputs = [t for t in graph.inputs if t is not old]
    graph._operations.pop(old.op.name, None)


def _reorder(graph: FuncGraph) -> None:
    """Put loop inputs first, then captures, which may have been made before the last loop inputs were."""
    captures = set(graph.internal_captures)
    graph.inputs = [t for t in graph.inputs if t not in captures]
