"""Static shape functions and gradient functions by op type; families are imported when first needed.

@register_shape("MatMul")
def _matmul_shape(op: Operation) -> list[Any]: ...      # one shape (anything `as_shape` takes) an output

@register_gradient("Square")
def _square_grad(op: Operation, grad: Tensor) -> Any: ... # one gradient (or None) an input, or a single one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.framework.input_ranks import check_input_ranks
from dtfctl.runtime.framework.op_library import load_family, load_operators
from dtfctl.runtime.framework.op_signature import op_family
from dtfctl.runtime.framework.tensor_shape import as_shape

if TYPE_CHECKING:
    from dtfctl.runtime.framework.operation import Operation

ShapeFunction = Callable[["Operation"], Any]
GradientFunction = Callable[..., Any]

_SHAPES: dict[str, ShapeFunction] = {}
_GRADIENTS: dict[str, GradientFunction | None] = {}


def register_shape(*ops: str) -> Callable[[ShapeFunction], ShapeFunction]:
    """Register the decorated function as the one that gives the static output shapes of these ops."""

    def add(function: ShapeFunction) -> ShapeFunction:
        for op in ops:
            _SHAPES[op] = function
        return function

    return add


def register_gradient(*ops: str) -> Callable[[GradientFunction], GradientFunction]:
    """Register the decorated function, which builds gradients of these ops' inputs from those of their outputs.

    Raises:
        KeyError: another gradient is registered for one of them.
    """

    def add(function: GradientFunction) -> GradientFunction:
        for op in ops:
            if _GRADIENTS.get(op, function) is not function:
                raise KeyError(f"Registering two gradient with name '{op}'!")
            _GRADIENTS[op] = function
        return function

    return add


def not_differentiable(*ops: str) -> None:
    """Let gradients stop at these ops."""
    for op in ops:
        _GRADIENTS[op] = None


def infer_shapes(op: Operation) -> None:
    """Set the static shapes of an op's outputs; unknown where no shape function is registered.

    Raises:
        ValueError: the inputs' shapes do not fit the op.
    """
    check_input_ranks(op)
    function = _SHAPES.get(op.type)
    if function is None:
        load_family("shapes", op_family(op.type))
        function = _SHAPES.get(op.type)
        if function is None:
            return
    try:
        shapes = function(op)
    except (TypeError, IndexError, OverflowError, ZeroDivisionError) as e:
        # Constants of another rank, length or value than the function computes with.
        raise ValueError(f"The inputs of '{op.name}' (op: '{op.type}') do not fit it: {e}") from e
    for tensor, shape in zip(op.outputs, shapes):
        tensor._shape = as_shape(shape)


def find_gradient(op_type: str) -> GradientFunction | None:
    """Find the gradient function of an op type; None when it is not differentiable.

    Raises:
        LookupError: nothing is registered for it.
    """
    load_operators()
    if op_type not in _GRADIENTS:
        load_family("gradients", op_family(op_type))
    if op_type not in _GRADIENTS:
        raise LookupError(f"No gradient defined for operation type '{op_type}'.")
    return _GRADIENTS[op_type]


def has_gradient(op_type: str) -> bool:
    """Tell whether the op type is differentiable (used by the generated documentation)."""
    try:
        return find_gradient(op_type) is not None
    except LookupError:
        return False
