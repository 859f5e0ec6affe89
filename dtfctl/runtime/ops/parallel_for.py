"""Loops whose iterations do not depend on each other: `vectorized_map`, and Jacobians.

An iteration is traced once and runs as the body of a loop, several at a time where the engine has threads for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.check_ops import assert_equal
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.while_loop import while_loop

_PARALLEL = 10


def for_loop(
    loop_fn: Callable[[Any], Any], loop_fn_dtypes: Any, iters: Any, parallel_iterations: int | None = None
) -> Any:
    """Stack what `loop_fn` gives for 0 to iters - 1.

    Args:
        loop_fn_dtypes: the structure of types that it returns; None may stand where a type does.

    Raises:
        ValueError: it returns another number of values.
    """
    types = nest.flatten(loop_fn_dtypes)
    count = convert_to_tensor(iters, dtypes.int32)
    absent: list[bool] = []

    def body(i: Tensor, arrays: list[TensorArray]) -> Any:
        found = nest.flatten(loop_fn(i))
        if len(found) != len(types):
            raise ValueError(
                f"Number of expected outputs {len(types)}, does not match the number of actual outputs {len(found)} "
                f"from loop_fn: {loop_fn} with output {found}."
            )
        absent[:] = [value is None for value in found]
        return i + 1, [a if v is None else a.write(i, v) for a, v in zip(arrays, found, strict=True)]

    arrays = [TensorArray(dtypes.as_dtype(t).base_dtype, size=count) for t in types]
    _, arrays = while_loop(
        lambda i, _: i < count,
        body,
        (constant(0), arrays),
        parallel_iterations=parallel_iterations or _PARALLEL,
        maximum_iterations=count,
    )
    stacked = [None if nothing else a.stack() for a, nothing in zip(arrays, absent, strict=True)]
    known = constant_value(count)
    for tensor in stacked:
        if tensor is not None and tensor.shape.rank is not None and known is not None:
            tensor.set_shape(TensorShape([int(known)]).concatenate(tensor.shape[1:]))
    return nest.pack_sequence_as(loop_fn_dtypes, stacked)


def pfor(
    loop_fn: Callable[[Any], Any],
    iters: Any,
    fallback_to_while_loop: bool = True,
    parallel_iterations: int | None = None,
    warn: bool = False,
) -> Any:
    """Stack what `loop_fn` gives for 0 to iters - 1, in the structure of what it returns.

    Ops that it returns, and ops of others, run in each iteration; None stays None.

    Raises:
        ValueError: `parallel_iterations` is below 2.
    """
    if parallel_iterations is not None and parallel_iterations < 2:
        raise ValueError(
            f"Argument `parallel_iterations` must be None or an integer above 1. Received: {parallel_iterations}."
        )
    returned: list[Any] = []
    values: list[Any] = []

    def trial(i: Any) -> list[Any]:
        returned[:] = [loop_fn(i)]
        values[:] = map(_value_of, nest.flatten(returned[0]))
        return [value for value in values if isinstance(value, Tensor)]

    probe = FuncGraph("loop_body", context.get_default_graph())
    probe.trace(trial, [probe.add_argument(dtypes.int32, TensorShape([]), "i")])

    def step(i: Tensor) -> list[Tensor]:
        leaves = nest.flatten(loop_fn(i))
        ops = [leaf for leaf in leaves if isinstance(leaf, Operation)]
        with context.get_default_graph().control_dependencies(ops):
            values = [_value_of(leaf) for leaf in leaves]
            tensors = [v for v in values if isinstance(v, Tensor)]
            return [array_ops.identity(t) for t in tensors] if ops else tensors

    wanted = [value.dtype for value in values if isinstance(value, Tensor)]
    known = constant_value(iters) if isinstance(iters, Tensor) else iters
    rows = TensorShape([None if known is None else int(known)])
    found = iter(for_loop(step, wanted, iters, parallel_iterations) if wanted else ())
    out: list[Any] = []
    for value in values:
        out.append(next(found) if isinstance(value, Tensor) else None)
        if isinstance(value, Tensor):
            out[-1].set_shape(rows.concatenate(value.shape))
    return nest.pack_sequence_as(returned[0], out)


def _value_of(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, Operation):
        return leaf
    if isinstance(leaf, SparseTensor):
        raise TypeError("An iteration returns a SparseTensor: return its indices, values and shape, or make it dense")
    return convert_to_tensor(leaf)


def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Apply `fn` to each row of the tensors in `elems` and stack what it gives, in the structure that it returns.

    Tensors whose first dimension is 1 are given to each call alike.

    Raises:
        ValueError: first dimensions that are neither 1 nor equal.
    """
    flat = [convert_to_tensor(e) for e in nest.flatten(elems)]
    known = [e.shape[0].value if e.shape.rank is not None else None for e in flat]
    sizes = {n for n in known if n not in (None, 1)}
    if len(sizes) > 1:
        raise ValueError(
            "Since the number of elements to map is not the same for all of `elems`, they cannot be mapped together. "
            f"Received first dimensions: {known}."
        )
    count: Any
    if None in known:
        count = math_ops.reduce_max(array_ops.stack([array_ops.shape(e)[0] for e in flat]))
    else:
        count = max(sizes, default=1)

    def row(tensor: Tensor, first: int | None, i: Any) -> Tensor:
        if first == 1:
            return tensor[0]
        if first is None:
            return array_ops.gather(tensor, math_ops.minimum(i, array_ops.shape(tensor)[0] - 1))
        return array_ops.gather(tensor, i)

    def step(i: Any) -> Any:
        return fn(nest.pack_sequence_as(elems, [row(t, n, i) for t, n in zip(flat, known, strict=True)]))

    return pfor(step, count)


def jacobian(output: Any, inputs: Any, use_pfor: bool = True, parallel_iterations: int | None = None) -> Any:
    """Differentiate each element of `output` by each of `inputs`: tensors of shape output.shape + input.shape.

    None where an input has no influence.
    """
    flat = nest.flatten(inputs)
    output = convert_to_tensor(output)
    elements = array_ops.reshape(output, [-1])
    size = output.shape.num_elements()

    def step(i: Any) -> list[Any]:
        return [_dense(g) for g in gradients(array_ops.gather(elements, i), flat)]

    found = pfor(step, array_ops.size(output) if size is None else size)
    shaped = []
    for grad, x in zip(found, flat, strict=True):
        if grad is not None:
            whole = array_ops.concat([array_ops.shape(output), array_ops.shape(grad)[1:]], 0)
            grad = array_ops.reshape(grad, whole)
            grad.set_shape(output.shape.concatenate(x.shape))
        shaped.append(grad)
    return nest.pack_sequence_as(inputs, shaped)


def batch_jacobian(output: Any, inp: Any, use_pfor: bool = True, parallel_iterations: int | None = None) -> Any:
    """Differentiate each row's elements of `output` by the same row of `inp`: [batch, *output row, *input row].

    Raises:
        ValueError: they have other numbers of rows.
    """
    if not output.shape[0].is_compatible_with(inp.shape[0]):
        raise ValueError(
            f"Need first dimension of `output` shape ({output.shape}) and `inp` shape ({inp.shape}) to match."
        )
    sizes = array_ops.shape(output)
    rows = output.shape[0].value
    batch = sizes[0] if rows is None else rows
    elements = output.shape[1:].num_elements()
    count = array_ops.size(output) // batch if elements is None else elements
    with context.get_default_graph().control_dependencies([assert_equal(batch, array_ops.shape(inp)[0])]):
        table = array_ops.reshape(output, array_ops.stack([batch, count]))

    def step(i: Any) -> Any:
        return _dense(gradients(array_ops.gather(table, i, axis=1), inp)[0])

    found = pfor(step, count)
    if found is None:
        return None
    by_row = array_ops.transpose(array_ops.reshape(found, array_ops.stack([count, batch, -1])), [1, 0, 2])
    whole = array_ops.reshape(by_row, array_ops.concat([sizes, array_ops.shape(inp)[1:]], 0))
    whole.set_shape(output.shape.concatenate(inp.shape[1:]))
    return whole


def _dense(grad: Any) -> Any:
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad
