"""Higher-order functions over the first axis of tensors: map_fn, foldl, foldr, scan; loops over TensorArrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import dimension_value
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.while_loop import while_loop


def _elements(elems: Any) -> tuple[list[Tensor], Tensor]:
    """Flatten to tensors; give the length of their first axis, as a constant where it is known."""
    flat = [convert_to_tensor(e, name="elem") for e in nest.flatten(elems)]
    for tensor in flat:
        if tensor.shape.rank == 0:
            raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
    static = next((n for t in flat if t.shape.rank and (n := dimension_value(t.shape[0])) is not None), None)
    if static is not None:
        return flat, constant(static, dtypes.int32)
    shape = apply_op("Shape", input=flat[0])
    length = apply_op("StridedSlice", input=shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return flat, length


def _unstacked(flat: list[Tensor], length: Tensor) -> list[TensorArray]:
    return [TensorArray(t.dtype, size=length, infer_shape=True).unstack(t) for t in flat]


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply `fn` to each slice along the first axis and stack what it gives.

    Args:
        elems: a structure of tensors with equal first dimensions.
        dtype: the structure of types `fn` returns, when it differs from that of `elems`.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    signature = fn_output_signature if fn_output_signature is not None else dtype
    with context.get_default_graph().name_scope(name or "map"):
        flat, length = _elements(elems)
        arrays = _unstacked(flat, length)
        structure = elems if signature is None else signature
        types = [t.dtype for t in flat] if signature is None else [dtypes.as_dtype(d) for d in nest.flatten(signature)]
        results = [TensorArray(t, size=length, infer_shape=infer_shape) for t in types]

        def body(i: Tensor, arrays_out: list[TensorArray]) -> Any:
            value = fn(nest.pack_sequence_as(elems, [a.read(i) for a in arrays]))
            nest.assert_same_structure(structure, value)
            written = [a.write(i, v) for a, v in zip(arrays_out, nest.flatten(value))]
            for outer, inner in zip(results, written):
                outer._element_shape = inner._element_shape
            return i + 1, written

        _, out = while_loop(
            lambda i, _: i < length,
            body,
            (constant(0), results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            maximum_iterations=length,
        )
        return nest.pack_sequence_as(structure, [_stacked(a, r) for a, r in zip(out, results)])


def _stacked(array: TensorArray, known: TensorArray) -> Tensor:
    array._element_shape, array._known_size = known._element_shape, known._known_size
    return array.stack()


def _fold(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, parallel: int, back_prop: bool, name: str, right: bool
) -> Any:
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with context.get_default_graph().name_scope(name):
        flat, length = _elements(elems)
        arrays = _unstacked(flat, length)

        def element(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [a.read(i) for a in arrays])

        last = length - 1
        if initializer is None:
            start, first = element(last if right else constant(0)), 1
        else:
            start, first = nest.map_structure(convert_to_tensor, initializer), 0

        def body(i: Tensor, accumulated: Any) -> Any:
            return i + 1, fn(accumulated, element(last - i if right else i))

        _, result = while_loop(
            lambda i, _: i < length,
            body,
            (constant(first), start),
            parallel_iterations=parallel,
            back_prop=back_prop,
            maximum_iterations=length,
        )
        return result


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Fold fn(... fn(fn(initializer, elems[0]), elems[1]) ...); without initializer the first element starts."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, name or "foldl", right=False)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Fold like `foldl`, from the last element to the first."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, name or "foldr", right=True)


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Stack all intermediate results of a fold along the first axis."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with context.get_default_graph().name_scope(name or "scan"):
        flat, length = _elements(elems)
        arrays = _unstacked(flat, length)

        def element(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [a.read(i) for a in arrays])

        last = length - 1

        def place(i: Any) -> Any:
            return last - i if reverse else i

        first = 0 if initializer is not None else 1
        start = (
            element(place(constant(0))) if initializer is None else nest.map_structure(convert_to_tensor, initializer)
        )
        starts = nest.flatten(start)
        results = [TensorArray(t.dtype, size=length, infer_shape=infer_shape, element_shape=t.shape) for t in starts]
        if first:
            results = [a.write(place(constant(0)), t) for a, t in zip(results, starts)]

        def body(i: Tensor, accumulated: Any, arrays_out: list[TensorArray]) -> Any:
            value = fn(accumulated, element(place(i)))
            nest.assert_same_structure(start, value)
            written = [a.write(place(i), v) for a, v in zip(arrays_out, nest.flatten(value))]
            for outer, inner in zip(results, written):
                outer._element_shape = inner._element_shape
            return i + 1, value, written

        _, _, out = while_loop(
            lambda i, a, b: i < length,
            body,
            (constant(first), start, results),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            maximum_iterations=length,
        )
        return nest.pack_sequence_as(start, [_stacked(a, r) for a, r in zip(out, results)])
