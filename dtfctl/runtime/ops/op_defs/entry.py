"""How an op is entered in the table: its signature and, where they are short, its shape rule, gradient and function.

    define = OpFamily("nn")

    @define.op(
        "Relu(features: T) -> (activations: T); T: type in {float, double}",
        shape="unchanged",
        gradient=lambda op, grad: apply_op("ReluGrad", gradients=grad, features=op.outputs[0]),
        exports=("nn.relu",),
    )
    def relu(features: Any, name: str | None = None) -> Tensor:
        \"\"\"max(x, 0).\"\"\"

The function has no body: its parameters are the op's inputs and attributes, and calling it builds the op. An op without
a function of its own is a call that decorates nothing. What is longer than a line stands in `ops/shapes` and
`ops/gradients`, registered under the op's name, and is imported when first needed.

`exports` are the function's names in `tf`; `tools/gen_api_exports.py` writes the imports of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar

from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested
from dtfctl.runtime.framework.op_signature import add_notation, register_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import not_differentiable, register_gradient, register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, broadcast_static
from dtfctl.runtime.ops.operands import typed_pair

F = TypeVar("F", bound=Callable[..., Any])
ShapeRule = Literal["unchanged", "broadcast", "merged"] | Sequence[Any] | Callable[[Operation], Any]
Gradient = Callable[..., Any] | Literal["none"] | None


class Unary(Protocol):
    """The function of an op of each element."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor: ...


class Binary(Protocol):
    """The function of an op of two broadcast arguments."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor: ...


def define_op(
    notation: str,
    *,
    shape: ShapeRule | None = None,
    gradient: Gradient = None,
    renamed: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Add an op of a program's own: what it takes and gives, its shape, its gradient and the function that builds it.

    Args:
        notation: the signature ("Ripple(x: T) -> (y: T); amplitude: float = 0.1; T: type in {float, double}").
        shape: "unchanged" (the first input's), "broadcast" (that of the first two inputs broadcast together), "merged"
            (all inputs have one shape), one shape an output, or a function of the Operation that gives them. Shapes
            are unknown without one.
        gradient: a function of the Operation and one gradient an output, which gives one gradient (or None) an input,
            or a single one; "none" where gradients stop.
        renamed: parameters of the decorated function that the signature names otherwise, with its names.

    Returns:
        A decorator: the function it is put on has no body, and builds the op from its arguments.

    Raises:
        InvalidArgumentError: the notation cannot be parsed, or another op of that name exists.
        KeyError: another gradient is registered for the op.
    """
    op_type = register_op(notation).name
    _register(op_type, shape, gradient)
    return _builds(op_type, renamed)


class OpFamily:
    """The ops of one family of the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exports: dict[str, Callable[..., Any] | None] = {}
        """The functions that are names of `tf` as they are, by those ("nn.relu"); None before an entry has its own."""

    def op(
        self,
        notation: str,
        *,
        shape: ShapeRule | None = None,
        gradient: Gradient = None,
        renamed: Mapping[str, str] | None = None,
        also: Mapping[str, str] | None = None,
        exports: Sequence[str] = (),
    ) -> Callable[[F], F]:
        """Enter an op, like `define_op`; the notation is parsed when the op is first asked for.

        `exports` are the names in `tf` ("nn.relu") that the decorated function has; `also` its parameters that are
        second names of others, with those others.
        """
        op_type = add_notation(self.name, notation)
        _register(op_type, shape, gradient)
        self._export(exports, None)
        builds: Callable[[F], F] = _builds(op_type, renamed, also)

        def decorate(function: F) -> F:
            build = builds(function)
            self._export(exports, build)
            return build

        return decorate

    def unary(
        self,
        notation: str,
        *,
        shape: ShapeRule = "unchanged",
        gradient: Gradient = None,
        exports: Sequence[str] = (),
        scope: str | None = None,
    ) -> Unary:
        """Enter an op of each element and return its function, which takes a SparseTensor's values, too.

        Args:
            scope: the name scope that TensorFlow's function of that op opens, if it does.
        """
        op_type = add_notation(self.name, notation)
        _register(op_type, shape, gradient)
        argument = notation[len(op_type) + 1 : notation.index(":")]

        def function(x: Any, name: str | None = None) -> Tensor:
            if isinstance(x, SparseTensor):
                return SparseTensor(x.indices, function(x.values, name=name), x.dense_shape)  # type: ignore[return-value]
            if scope is None:
                return apply_op(op_type, name, **{argument: x})
            with name_scope(name, scope):
                return apply_op(op_type, **{argument: x})

        function.__name__ = function.__qualname__ = op_type.lower()
        function.__doc__ = f"The {op_type} op, element by element (a SparseTensor's values)."
        self._export(exports, function)
        return function

    def binary(
        self,
        notation: str,
        *,
        shape: ShapeRule = "broadcast",
        gradient: Gradient = None,
        default_name: str | None = None,
        exports: Sequence[str] = (),
        scope: str | None = None,
    ) -> Binary:
        """Enter an op of two broadcast arguments and return its function: the one with a type gives it to the other.

        Args:
            scope: the name scope that TensorFlow's function of that op opens, if it does.
        """
        op_type = add_notation(self.name, notation)
        _register(op_type, shape, gradient)

        def function(x: Any, y: Any, name: str | None = None) -> Tensor:
            x, y = typed_pair(x, y)
            if scope is None:
                return apply_op(op_type, name or default_name, x=x, y=y)
            with name_scope(name, scope):
                return apply_op(op_type, x=x, y=y)

        function.__name__ = function.__qualname__ = op_type.lower()
        function.__doc__ = f"The {op_type} op on broadcast arguments."
        self._export(exports, function)
        return function

    def _export(self, names: Sequence[str], function: Callable[..., Any] | None) -> None:
        for name in names:
            if self.exports.get(name) is not None:
                raise ValueError(f"tf.{name} is exported by two entries of one module")
            self.exports[name] = function


def unchanged(op: Operation) -> list[TensorShape]:
    """Give one output the shape of the first input."""
    return [op.inputs[0].shape]


def broadcast(op: Operation) -> list[TensorShape]:
    """Give one output the shape of the first two inputs broadcast together.

    Raises:
        ValueError: they do not fit each other.
    """
    a, b = op.inputs[0].shape, op.inputs[1].shape
    try:
        return [broadcast_static(a, b)]
    except ValueError:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b} for '{op.name}' (op: '{op.type}')") from None


def merged(op: Operation) -> list[TensorShape]:
    """Give one output the shape that all inputs share.

    Raises:
        ValueError: they have different ones.
    """
    shape = op.inputs[0].shape
    for tensor in op.inputs[1:]:
        try:
            shape = shape.merge_with(tensor.shape)
        except ValueError:
            raise ValueError(f"Shapes must be equal, but are {shape} and {tensor.shape} for '{op.name}'") from None
    return [shape]


_RULES: dict[str, Callable[[Operation], Any]] = {"unchanged": unchanged, "broadcast": broadcast, "merged": merged}


def _register(op_type: str, shape: ShapeRule | None, gradient: Gradient) -> None:
    if isinstance(shape, str):
        register_shape(op_type)(_RULES[shape])
    elif callable(shape):
        register_shape(op_type)(shape)
    elif shape is not None:
        constant = list(shape)
        register_shape(op_type)(lambda op: constant)
    if gradient == "none":
        not_differentiable(op_type)
    elif callable(gradient):
        register_gradient(op_type)(gradient)


def _builds(op_type: str, renamed: Mapping[str, str] | None, also: Mapping[str, str] | None = None) -> Callable[[F], F]:
    given = renamed or {}
    second = also or {}

    def decorate(function: F) -> F:
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        start = dict(zip(parameters[len(parameters) - len(defaults) :], defaults))
        names = {p: given.get(p, p) for p in parameters if p not in second}

        @wraps(function)
        def build(*args: Any, **kwargs: Any) -> Any:
            function(*args, **kwargs)  # Has no body: it refuses the arguments that Python would.
            values = {**start, **dict(zip(parameters, args)), **kwargs}
            for alias, first in second.items():
                if values[alias] is not None:
                    if values[first] is not None:
                        raise ValueError(f"Cannot specify both '{alias}' and '{first}'.")
                    values[first] = values[alias]
            return apply_op_nested(op_type, **{name: values[p] for p, name in names.items()})

        vars(build).update(op_type=op_type, arguments=names)
        return build  # type: ignore[return-value]

    return decorate
