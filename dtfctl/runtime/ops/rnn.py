"""Recurrent networks over sequences: dynamic_rnn, static_rnn and their bidirectional forms."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.rnn_cell import RNNCell
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.variable_scope import variable_scope
from dtfctl.runtime.ops.while_loop import while_loop


def _transposed(x: Tensor) -> Tensor:
    """Swap batch and time: [batch, time, ...] <-> [time, batch, ...]."""
    rank = x.shape.rank
    if rank is None:
        raise ValueError("inputs must have a known rank")
    return apply_op("Transpose", x=x, perm=[1, 0, *range(2, rank)], name="transpose")


def _dimension(x: Tensor, axis: int) -> Any:
    known = x.shape[axis].value if x.shape.rank is not None else None
    if known is not None:
        return known
    shape = apply_op("Shape", input=x)
    return apply_op("StridedSlice", input=shape, begin=[axis], end=[axis + 1], strides=[1], shrink_axis_mask=1)


def dynamic_rnn(
    cell: RNNCell,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Tensor, Any]:
    """Run a cell over a sequence.

    Args:
        inputs: [batch, time, n], or [time, batch, n] with `time_major`.
        sequence_length: int [batch]; past it outputs are zero and the state stays.
        initial_state: the start; zeros of `dtype` when None.

    Returns:
        Outputs in the layout of the inputs, and the last state.

    Raises:
        ValueError: neither an initial state nor a dtype is given.
    """
    with variable_scope(scope or "rnn"):
        x = convert_to_tensor(inputs)
        x = x if time_major else _transposed(x)
        time, batch = _dimension(x, 0), _dimension(x, 1)
        if initial_state is None:
            if dtype is None:
                raise ValueError("If there is no initial_state, you must give a dtype.")
            initial_state = cell.zero_state(batch, dtype)
        state = nest.map_structure(convert_to_tensor, initial_state)
        lengths = None
        if sequence_length is not None:
            lengths = apply_op("Cast", x=convert_to_tensor(sequence_length), DstT=dtypes.int32)
        steps = convert_to_tensor(time, dtypes.int32)
        source = TensorArray(x.dtype.base_dtype, size=steps).unstack(x)
        kind = nest.flatten(state)[0].dtype
        results = TensorArray(kind, size=steps, element_shape=TensorShape([x.shape[1], cell.output_size]))

        def body(i: Tensor, held: Any, out: TensorArray) -> Any:
            step = source.read(i)
            step.set_shape(x.shape[1:])
            output, new = cell(step, held)
            if lengths is not None:
                active = apply_op("Less", x=i, y=lengths)
                output = _where(active, output, apply_op("ZerosLike", x=output))
                new = nest.map_structure(lambda n, o: _where(active, n, o), new, held)
            return i + 1, new, out.write(i, output)

        _, last, out = while_loop(
            lambda i, s, o: apply_op("Less", x=i, y=steps),
            body,
            (constant(0), state, results),
            parallel_iterations=parallel_iterations or 32,
            maximum_iterations=steps,
        )
        stacked = out.stack()
        static = time if isinstance(time, int) else None
        stacked.set_shape([static, x.shape[1], cell.output_size])
        return (stacked if time_major else _transposed(stacked)), last


def _where(active: Tensor, a: Tensor, b: Tensor) -> Tensor:
    mask = apply_op("ExpandDims", input=active, dim=-1)
    out: Tensor = apply_op("SelectV2", condition=mask, t=a, e=b)
    out.set_shape(a.shape)
    return out


def static_rnn(
    cell: RNNCell,
    inputs: list[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Run a cell over a list of [batch, n] inputs, unrolled in the graph.

    Raises:
        ValueError: the list is empty, or neither an initial state nor a dtype is given.
    """
    if not inputs:
        raise ValueError("inputs must not be empty")
    outputs: list[Tensor] = []
    with variable_scope(scope or "rnn") as opened:
        steps = [convert_to_tensor(x) for x in inputs]
        if initial_state is None:
            if dtype is None:
                raise ValueError("If no initial_state is provided, dtype must be specified")
            initial_state = cell.zero_state(_dimension(steps[0], 0), dtype)
        state = initial_state
        lengths = None if sequence_length is None else convert_to_tensor(sequence_length, dtypes.int32)
        for i, x in enumerate(steps):
            if i:
                opened.reuse_variables()
            output, new = cell(x, state)
            if lengths is not None:
                active = apply_op("Greater", x=lengths, y=constant(i, dtypes.int32))
                output = _where(active, output, apply_op("ZerosLike", x=output))
                held = state
                new = nest.map_structure(lambda n, o, a=active: _where(a, n, o), new, held)
            outputs.append(output)
            state = new
    return outputs, state


def bidirectional_dynamic_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, Any]]:
    """Run two cells over a sequence, one from each end: ((out_fw, out_bw), (state_fw, state_bw))."""
    x = convert_to_tensor(inputs)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reverse(t: Tensor) -> Tensor:
        if sequence_length is not None:
            return apply_op(
                "ReverseSequence", input=t, seq_lengths=sequence_length, seq_dim=time_axis, batch_dim=batch_axis
            )
        return apply_op("ReverseV2", tensor=t, axis=[time_axis])

    with variable_scope(scope or "bidirectional_rnn"):
        forward, state_fw = dynamic_rnn(
            cell_fw, x, sequence_length, initial_state_fw, dtype, parallel_iterations, time_major=time_major, scope="fw"
        )
        backward, state_bw = dynamic_rnn(
            cell_bw,
            reverse(x),
            sequence_length,
            initial_state_bw,
            dtype,
            parallel_iterations,
            time_major=time_major,
            scope="bw",
        )
    return (forward, reverse(backward)), (state_fw, state_bw)
