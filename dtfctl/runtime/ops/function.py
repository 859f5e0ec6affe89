"""`function` and `Defun`: Python functions traced into the graph's function library, called through one op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype, float32
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.bodies import (
    BackwardGraph,
    append_outputs,
    bodies_of,
    input_gradients,
    is_differentiable,
    register_body,
)


class TensorSpec:
    """Type and shape of an argument."""

    def __init__(self, shape: Any = None, dtype: Any = float32, name: str | None = None) -> None:
        self.shape, self.dtype, self.name = as_shape(shape), as_dtype(dtype), name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Describe a tensor, by the name of its op."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """Describe what another spec does, by another name if it is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.shape.dims_or_none, self.dtype, self.name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Tell whether a tensor, or what another spec describes, can be of this type and shape."""
        return bool(
            self.dtype == spec_or_tensor.dtype.base_dtype and self.shape.is_compatible_with(spec_or_tensor.shape)
        )

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


class Function:
    """A traced Python function. Each combination of argument types and shapes (and Python values) is traced once."""

    def __init__(self, python_function: Callable[..., Any], name: str | None, input_signature: Any) -> None:
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self.name = name or getattr(python_function, "__name__", "function").replace("<lambda>", "lambda")
        self.input_signature = input_signature
        self._traces: dict[Any, tuple[FuncGraph, Any]] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = context.get_default_graph()
        leaves = nest.flatten((list(args), kwargs))
        if self.input_signature is not None:
            specs = nest.flatten(list(self.input_signature))
            if len(specs) != len(leaves):
                raise TypeError(f"{self.name} takes {len(specs)} arguments by its input_signature, got {len(leaves)}")
            leaves = [convert_to_tensor(v, s.dtype) for v, s in zip(leaves, specs)]
        is_tensor = [isinstance(v, (Tensor, np.ndarray)) or hasattr(v, "_as_graph_element") for v in leaves]
        tensors = [convert_to_tensor(v) for v, t in zip(leaves, is_tensor) if t]
        key = (id(graph), *(_key(v, t) for v, t in zip(leaves, is_tensor)))
        traced = self._traces.get(key)
        if traced is None:
            traced = self._traces[key] = self._trace(args, kwargs, leaves, is_tensor, tensors)
        body, structure = traced
        outputs = call(body, tensors)
        leaf = iter(outputs)
        flat = [next(leaf) if v is not None else None for v in nest.flatten(structure, expand_composites=True)]
        return nest.pack_sequence_as(structure, flat, expand_composites=True)

    def _trace(
        self, args: Any, kwargs: Any, leaves: list[Any], is_tensor: list[bool], tensors: list[Tensor]
    ) -> tuple[FuncGraph, Any]:
        body = FuncGraph(f"__inference_{self.name}")
        specs = None if self.input_signature is None else nest.flatten(list(self.input_signature))
        with body.as_default():
            inner, outers = [], iter(tensors)
            for i, (value, tensor) in enumerate(zip(leaves, is_tensor)):
                if tensor:
                    outer = next(outers)  # converted outside: a variable is read there, not by the body
                    shape = outer.shape if specs is None else specs[i].shape
                    inner.append(body.add_argument(outer.dtype.base_dtype, shape, "arg", like=outer))
                else:
                    inner.append(value)
            new_args, new_kwargs = nest.pack_sequence_as((list(args), kwargs), inner)
            result = self.python_function(*new_args, **new_kwargs)
            stateful = [op for op in body.get_operations() if op.signature.is_stateful]
            flat = [v for v in nest.flatten(result, expand_composites=True) if v is not None]
            body.outputs = [body.capture(_plain(v)) for v in flat]
            body.control_outputs = stateful
        return body, result


def _plain(value: Any) -> Tensor:
    if isinstance(value, Operation):
        with context.get_default_graph().control_dependencies([value]):
            return convert_to_tensor(True)
    return convert_to_tensor(value._as_graph_element() if hasattr(value, "_as_graph_element") else value)


def _key(value: Any, is_tensor: bool) -> Any:
    if is_tensor:
        tensor = convert_to_tensor(value) if not isinstance(value, np.ndarray) else None
        if tensor is None:
            return (str(value.dtype), value.shape)
        return (tensor.dtype.base_dtype, tensor.shape.dims_or_none)
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return ("value", type(value), value)


def call(body: FuncGraph, arguments: Sequence[Tensor]) -> list[Tensor]:
    """Call a traced body in the default graph.

    Returns:
        Its outputs, with their static shapes.
    """
    graph: Any = context.get_default_graph()
    if graph.executes:
        outputs: list[Tensor] = graph.call(body, arguments)
        return outputs
    inputs = [*arguments, *body.external_captures]
    op = make_op(
        "StatefulPartitionedCall" if body.is_stateful else "PartitionedCall",
        args=inputs,
        Tin=[t.dtype for t in inputs],
        Tout=[t.dtype for t in body.outputs],
        f=register_body(body, graph),
    )
    op._bodies = [body]
    for outer, inner in zip(op.outputs, body.outputs):
        outer._shape = inner.shape
        outer._handle_data = inner._handle_data
    return op.outputs[: len(body.outputs)]


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = False,
    name: str | None = None,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
) -> Any:
    """Make calls of the decorated function one op that runs its traced body.

    Args:
        input_signature: a sequence of TensorSpec; one trace for all shapes that fit.
        autograph: Python control flow is not rewritten; use tf.cond and tf.while_loop.
        jit_compile, reduce_retracing: how TensorFlow would compile it; results do not depend on them.

    Raises:
        NotImplementedError: autograph is asked for.
    """
    if autograph:
        raise NotImplementedError("tf.function(autograph=True): use tf.cond and tf.while_loop inside the function")

    def decorate(f: Callable[..., Any]) -> Function:
        return Function(f, name, input_signature)

    return decorate if func is None else decorate(func)


class Defun:
    """TF1's decorator for functions of fixed argument types: `@Defun(tf.float32, tf.float32)`."""

    def __init__(self, *input_types: Any, **options: Any) -> None:
        self._types = [as_dtype(t) for t in input_types]
        self._name = options.pop("func_name", None)
        self._python_gradient = options.pop("python_grad_func", None)
        options.pop("noinline", None)
        self._shape_func = options.pop("shape_func", None)
        if options:
            raise NotImplementedError(f"Defun: unsupported options {sorted(options)}")

    def __call__(self, python_function: Callable[..., Any]) -> Any:
        types = self._types
        signature = [TensorSpec(None, t) for t in types] if types else None
        inner = Function(python_function, self._name, signature)
        gradient = self._python_gradient

        @functools.wraps(python_function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            flat = nest.flatten(result)
            if gradient is not None and flat:
                flat[0].op._gradient_function = gradient
            return result

        return wrapper


@register_gradient("PartitionedCall", "StatefulPartitionedCall")
def _call_gradient(op: Operation, *grads: Any) -> list[Any]:
    """Differentiate a call by calling the body's gradient; values it needs become further outputs of the forward op."""
    (body,) = bodies_of(op)
    back = BackwardGraph(f"{body.name}_grad", body, dict(zip(body.inputs, op.inputs)))
    known = [g for g in grads[: len(body.outputs)] if g is not None]
    positions = [i for i, t in enumerate(body.inputs) if is_differentiable(t)]
    with back.as_default():
        arguments = [back.add_argument(g.dtype, g.shape, "grad") for g in known]
        supplied = iter(arguments)
        ins = [None if g is None else next(supplied) for g in grads[: len(body.outputs)]]
        found = input_gradients(back, body.outputs[: len(ins)], ins, [body.inputs[i] for i in positions])
        kept = [(i, g) for i, g in zip(positions, found) if g is not None]
        back.outputs = [back.capture(g) for _, g in kept]
    _save(op, body, back)
    captures = back.external_captures
    back.inputs = [*arguments, *back.internal_captures]
    inputs = [*known, *captures]
    new = make_op(
        "StatefulPartitionedCall" if back.is_stateful else "PartitionedCall",
        args=inputs,
        Tin=[t.dtype for t in inputs],
        Tout=[t.dtype for t in back.outputs],
        f=register_body(back, context.get_default_graph()),
    )
    new._bodies = [back]
    out: list[Any] = [None] * len(op.inputs)
    for (i, g), tensor in zip(kept, new.outputs):
        tensor._shape = TensorShape(None) if op.inputs[i].dtype.name == "resource" else g.shape
        out[i] = tensor
    return out


def _save(op: Operation, body: FuncGraph, back: BackwardGraph) -> None:
    saved = list(back.saved.items())
    back.saved.clear()
    if not saved:
        return
    for (forward, placeholder), outer in zip(saved, append_outputs(op, [f.dtype.base_dtype for f, _ in saved])):
        outer._shape, outer._handle_data = forward.shape, forward._handle_data
        body.outputs.append(forward)
        back._captures[outer] = placeholder
    op._set_attr("Tout", encode_attr("list(type)", [t.dtype for t in op.outputs]))
    op._set_attr("f", encode_attr("func", register_body(body, op.graph)))
