"""Assertions about tensors with TF1's names: checked while building where values are known, else by Assert ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.operands import typed_pair


def _assert(condition: Tensor, data: Sequence[Any], summarize: int | None, name: str | None) -> Operation:
    tensors = [convert_to_tensor(d) for d in data]
    return make_op("Assert", name, condition=condition, data=tensors, summarize=3 if summarize is None else summarize)


def Assert(condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None) -> Operation:
    """Fail with InvalidArgumentError, printing `summarize` items of each of `data`, when `condition` is false."""
    with name_scope(name, "Assert"):
        return _assert(convert_to_tensor(condition), data, summarize, None)


def _comparison(
    python_name: str, symbol: str, dynamic: Callable[..., Tensor], static: Callable[[Any, Any], Any]
) -> Callable[..., Operation]:
    def function(
        x: Any,
        y: Any,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with name_scope(name, python_name) as scope:
            left, right = typed_pair(x, y)
            right = convert_to_tensor(right, left.dtype.base_dtype)
            a, b = constant_value(left), constant_value(right)
            if a is not None and b is not None:
                holds = np.asarray(static(a, b))
                if not holds.all():
                    raise InvalidArgumentError(
                        f"{message or ''}\nCondition x {symbol} y did not hold.\nx ({left.name}) = {a}\ny "
                        f"({right.name}) = {b}"
                    )
                return make_op("NoOp", scope)
            given = None if data is None else [*([] if message is None else [message]), *data]
            shown = given or [
                message or "",
                f"Condition x {symbol} y did not hold element-wise:",
                f"x ({left.name}) = ",
                left,
                f"y ({right.name}) = ",
                right,
            ]
            return _assert(math_ops.reduce_all(dynamic(left, right)), shown, summarize, scope)

    function.__name__ = function.__qualname__ = python_name
    function.__doc__ = f"Raise InvalidArgumentError unless x {symbol} y everywhere."
    return function


assert_equal = _comparison("assert_equal", "==", math_ops.equal, np.equal)
assert_none_equal = _comparison("assert_none_equal", "!=", math_ops.not_equal, np.not_equal)
assert_less = _comparison("assert_less", "<", math_ops.less, np.less)
assert_less_equal = _comparison("assert_less_equal", "<=", math_ops.less_equal, np.less_equal)
assert_greater = _comparison("assert_greater", ">", math_ops.greater, np.greater)
assert_greater_equal = _comparison("assert_greater_equal", ">=", math_ops.greater_equal, np.greater_equal)


def _sign(python_name: str, compare: Callable[..., Operation], zero_first: bool) -> Callable[..., Operation]:
    def function(
        x: Any,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        tensor = convert_to_tensor(x)
        zero = constant(0, tensor.dtype.base_dtype)
        pair = (zero, tensor) if zero_first else (tensor, zero)
        return compare(*pair, data=data, summarize=summarize, message=message, name=name or python_name)

    function.__name__ = function.__qualname__ = python_name
    return function


assert_positive = _sign("assert_positive", assert_less, True)
assert_non_negative = _sign("assert_non_negative", assert_less_equal, True)
assert_negative = _sign("assert_negative", assert_less, False)
assert_non_positive = _sign("assert_non_positive", assert_less_equal, False)


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Raise InvalidArgumentError unless |x - y| <= atol + rtol * |y| everywhere."""
    with name_scope(name, "assert_near") as scope:
        left, right = typed_pair(x, y)
        kind = left.dtype.real_dtype
        eps = 10 * float(np.finfo(kind.np).eps) if kind.np.kind == "f" else 10 * 2.0**-7
        relative = convert_to_tensor(eps if rtol is None else rtol, kind)
        absolute = convert_to_tensor(eps if atol is None else atol, kind)
        right = convert_to_tensor(right, left.dtype.base_dtype)
        limit = absolute + relative * math_ops.abs(right)
        holds = math_ops.reduce_all(math_ops.less_equal(math_ops.abs(left - right), limit))
        return _assert(holds, data or [message or "", "x and y not equal to tolerance", left, right], summarize, scope)


def _static_rank(x: Any) -> tuple[Tensor, int | None]:
    tensor = x.values if isinstance(x, SparseTensor) else convert_to_tensor(x)
    return tensor, x.shape.rank if isinstance(x, SparseTensor) else tensor.shape.rank


def _rank_check(
    x: Any, rank: Any, holds: Callable[[Any, Any], Any], dynamic: Callable[..., Tensor], words: str, scope: str
) -> Operation:
    tensor, have = _static_rank(x)
    wanted = constant_value(convert_to_tensor(rank))
    if have is not None and wanted is not None:
        if not holds(have, int(wanted)):
            raise ValueError(
                f"Tensor {tensor.name} must have {words} {int(wanted)}.  Received rank {have}, shape {tensor.shape}"
            )
        return make_op("NoOp", scope)
    condition = dynamic(array_ops.rank(x), convert_to_tensor(rank))
    return _assert(condition, [f"Tensor {tensor.name} must have {words}", rank], None, scope)


def assert_rank(
    x: Any, rank: Any, data: Any = None, summarize: Any = None, message: Any = None, name: str | None = None
) -> Operation:
    """Raise ValueError (or InvalidArgumentError in a step) unless x has the rank."""
    with name_scope(name, "assert_rank") as scope:
        return _rank_check(x, rank, lambda a, b: a == b, math_ops.equal, "rank", scope)


def assert_rank_at_least(
    x: Any, rank: Any, data: Any = None, summarize: Any = None, message: Any = None, name: str | None = None
) -> Operation:
    with name_scope(name, "assert_rank_at_least") as scope:
        return _rank_check(x, rank, lambda a, b: a >= b, math_ops.greater_equal, "rank at least", scope)


def assert_rank_in(
    x: Any, ranks: Sequence[int], data: Any = None, summarize: Any = None, message: Any = None, name: str | None = None
) -> Operation:
    with name_scope(name, "assert_rank_in") as scope:
        tensor, have = _static_rank(x)
        if have is not None:
            if have not in list(ranks):
                raise ValueError(f"Tensor {tensor.name} must have rank in {tuple(ranks)}.  Received rank {have}")
            return make_op("NoOp", scope)
        condition = math_ops.reduce_any(math_ops.equal(array_ops.rank(x), constant(list(ranks))))
        return _assert(condition, [f"Tensor {tensor.name} must have rank in {tuple(ranks)}"], None, scope)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    x = convert_to_tensor(tensor)
    if x.shape.rank not in (None, 0):
        raise ValueError(f"{message or ''}Expected scalar shape for {x.name}, saw shape: {x.shape}.")
    return x


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raise TypeError unless the tensor is of the type."""
    from dtfctl.runtime.framework.dtypes import as_dtype

    x = tensor.values if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor)
    if x.dtype.base_dtype is not as_dtype(tf_type).base_dtype:
        raise TypeError(f"{message or ''}{x.name} must be of type {as_dtype(tf_type)!r}; got {x.dtype!r}")
    return make_op("NoOp", name or "assert_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    tensor = convert_to_tensor(x)
    if not tensor.dtype.base_dtype.is_integer:
        raise TypeError(f"{message or ''}Expected 'x' to be integer type.  Found: {tensor.dtype!r} of {tensor.name}")
    return make_op("NoOp", name or "statically_determined_was_integer")


def assert_same_float_dtype(tensors: Sequence[Any] | None = None, dtype: Any = None) -> Any:
    """Find the one floating type of all tensors.

    Raises:
        ValueError: they differ, or it is no floating type.
    """
    from dtfctl.runtime.framework.dtypes import as_dtype, float32

    found = None if dtype is None else as_dtype(dtype).base_dtype
    for tensor in tensors or []:
        if tensor is None:
            continue
        kind = as_dtype(tensor.dtype).base_dtype
        if found is not None and kind is not found:
            raise ValueError(f"Tensor type mismatch: got {kind!r}, expected {found!r}")
        found = kind
    found = found or float32
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found!r}.")
    return found


def assert_proper_iterable(values: Any) -> None:
    """Raise TypeError for what iterates by accident: tensors, arrays, strings."""
    if isinstance(values, (Tensor, SparseTensor, np.ndarray, str, bytes)):
        raise TypeError(f"Expected argument 'values' to be a 'proper' iterable.  Found: {type(values)}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"Expected argument 'values' to be iterable.  Found: {type(values)}")


def is_numeric_tensor(tensor: Any) -> bool:
    if not isinstance(tensor, Tensor):
        return False
    kind = tensor.dtype.base_dtype
    return kind.is_floating or kind.is_integer or kind.is_complex or kind.is_quantized


def _steps(x: Any) -> Tensor:
    flat = array_ops.reshape(convert_to_tensor(x), [-1])
    return flat[1:] - flat[:-1]


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "is_non_decreasing"):
        steps = _steps(x)
        return math_ops.reduce_all(math_ops.less_equal(constant(0, steps.dtype.base_dtype), steps))


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "is_strictly_increasing"):
        steps = _steps(x)
        return math_ops.reduce_all(math_ops.less(constant(0, steps.dtype.base_dtype), steps))


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """Check x for NaN and infinities in every step, and pass it on."""
    tensor = convert_to_tensor(t if x is None else x)
    checked = array_ops.check_numerics(tensor, (msg if message is None else message) or "")
    with tensor.graph.control_dependencies([checked]):
        return array_ops.identity(tensor, name=name)


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> Operation:
    """Raise ValueError, or InvalidArgumentError in a step, unless tensors have shapes that fit each other.

    Args:
        shapes: a dict, or pairs, of tensors and the sizes of their dimensions: a number; a text that is the same size
            wherever it stands; None or "." for any. "*" or ... first is any dimensions before those named.
    """
    given = [
        (convert_to_tensor(x), _wanted_sizes(w)) for x, w in (shapes.items() if isinstance(shapes, dict) else shapes)
    ]
    known: dict[str, Any] = {}
    checks: list[Operation] = []
    said = {"data": data, "summarize": summarize}
    with name_scope(name, "assert_shapes") as scope:
        for x, wanted in given:
            loose = bool(wanted) and wanted[0] in ("*", ...)
            sizes = wanted[1:] if loose else wanted
            check = assert_rank_at_least if loose else assert_rank
            checks.append(check(x, len(sizes), message=message, **said))
            for at, size in enumerate(sizes, -len(sizes)):
                if size in (None, "."):
                    continue
                static = None if x.shape.rank is None else x.shape.as_list()[at]
                have = array_ops.shape(x)[at] if static is None else static
                want = known.setdefault(size, have) if isinstance(size, str) else int(size)
                if isinstance(have, int) and isinstance(want, int):
                    if have != want:
                        raise ValueError(
                            f"{message or ''} Tensor {x.name} must have size {want}, its shape is {x.shape}"
                        )
                    continue
                if isinstance(have, int):
                    known[size] = have
                if have is not want:
                    checks.append(assert_equal(have, want, message=message, **said))
        return group(*checks, name=scope)


def _wanted_sizes(wanted: Any) -> list[Any]:
    """Return a shape's sizes as a list: a text is a size for each of its letters."""
    if isinstance(wanted, (int, np.integer)):
        return [wanted]
    return list(wanted.as_list() if hasattr(wanted, "as_list") else wanted)
