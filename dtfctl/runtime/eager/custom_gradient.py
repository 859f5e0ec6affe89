"""Functions with gradients of their own, in graphs and in eager programs alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.eager.tape import GradientTape
from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph_keys import GraphKeys, control_dependencies
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.ops.variable_scope import get_variable_scope, variable_scope


def custom_gradient(f: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorator: the function gives its result (a tensor or a structure) and a function of gradients.

    That one takes the gradient of each tensor of the result, and gives one (or None) for each argument. Where the
    function uses variables it also takes `variables=` (a list) and gives a pair: gradients of arguments, of variables.

    Raises:
        ValueError: (in a graph) it is called with keyword arguments, or gives a wrong number of gradients.
        TypeError: it uses variables and its gradient function does not take them.
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        executes = context.get_default_graph().executes
        if kwargs and not executes:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                "enabled."
            )
        flat_args = [convert_to_tensor(a) for a in nest.flatten([args, kwargs])]
        given, named = nest.pack_sequence_as([args, kwargs], flat_args)
        with GradientTape(persistent=True) as tape:
            result, grad_fn = f(*given, **named)
        flat = [convert_to_tensor(t) for t in nest.flatten(result)]
        variables = list(tape.watched_variables()) if executes else _variables_between(flat, flat_args)
        own = {id(a) for a in nest.flatten([args, kwargs])}
        variables = sorted((v for v in variables if id(v) not in own), key=lambda v: v.name)
        if variables and not _takes_variables(grad_fn):
            raise TypeError(
                "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
                f"{[v.name for v in variables]}"
            )
        whole = [*flat, *flat_args, *(convert_to_tensor(v) for v in variables)]
        op = make_op("IdentityN", input=whole)
        outputs = list(op.outputs)
        outputs[0].op._gradient_function = _gradient(grad_fn, len(flat), len(flat_args), variables)
        for tensor, original in zip(outputs, whole):
            tensor.set_shape(original.shape)
        first = outputs[: len(flat)]
        return nest.pack_sequence_as(result, first) if nest.is_nested(result) else first[0]

    return decorated


def _gradient(
    grad_fn: Callable[..., Any], results: int, arguments: int, variables: Sequence[Any]
) -> Callable[..., list[Any]]:
    def gradient(op: Operation, *grads: Any) -> list[Any]:
        if variables:
            found, of_variables = grad_fn(*grads[:results], variables=list(variables))
            if len(of_variables) != len(variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        else:
            found, of_variables = grad_fn(*grads[:results]), []
        flat = list(nest.flatten(found))
        if len(flat) != arguments:
            raise ValueError(
                f"custom_gradient function expected to return {arguments} gradients, but returned {len(flat)} instead."
            )
        return [None] * results + flat + list(of_variables)

    return gradient


def _takes_variables(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def _variables_between(results: list[Tensor], arguments: list[Tensor]) -> list[Any]:
    """Trainable variables that results depend on otherwise than through the arguments."""
    stop = {t.op for t in arguments}
    seen: set[Operation] = set()
    pending = [t.op for t in results]
    while pending:
        op = pending.pop()
        if op in seen or op in stop:
            continue
        seen.add(op)
        pending += [t.op for t in op.inputs]
        for outer, inner in getattr(op.graph, "captures", ()):
            if inner.op is op:
                pending.append(outer.op)
    trained = outermost_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES)
    return [v for v in trained if v.op in seen or v._gradient_source.op in seen]


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with the gradient of the identity: that of its result goes to its argument."""

    @custom_gradient
    def through(*args: Any, **kwargs: Any) -> Any:
        def gradient(*grads: Any, variables: Sequence[Any] = ()) -> Any:
            return (grads, [None] * len(variables)) if variables else grads

        return f(*args, **kwargs), gradient

    return functools.wraps(f)(through)


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, whose inner values are not kept for its gradient but computed again: less memory for more time."""

    @custom_gradient
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        scope = get_variable_scope()
        result = f(*args, **kwargs)

        def gradient(*grads: Any, variables: Sequence[Any] = ()) -> Any:
            if context.get_default_graph().executes:
                return _again_eagerly(f, args, kwargs, grads, variables)
            # Not before the gradient is there, or the values would be kept all the same.
            with control_dependencies([no_op() if g is None else g for g in grads]):
                fresh = list(make_op("IdentityN", input=list(nest.flatten(args))).outputs)
            with variable_scope(scope, reuse=True):
                again = f(*nest.pack_sequence_as(args, fresh))
            found = gradients(list(nest.flatten(again)), [*fresh, *variables], list(grads))
            return (found[: len(fresh)], found[len(fresh) :]) if variables else found

        return result, gradient

    return functools.wraps(f)(recomputed)


def _again_eagerly(f: Any, args: Any, kwargs: Any, grads: Sequence[Any], variables: Sequence[Any]) -> Any:
    with GradientTape() as tape:
        tape.watch(nest.flatten([args, kwargs]))
        again = f(*args, **kwargs)
    flat = nest.flatten([args, kwargs])
    found = tape.gradient(again, [*flat, *variables], list(grads))
    return (found[: len(flat)], found[len(flat) :]) if variables else found
