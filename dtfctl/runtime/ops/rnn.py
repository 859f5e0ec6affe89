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
        inputs: [batch, time, ...], or [time, batch, ...] with `time_major`; or such tensors in a structure, which the
            cell is called with.
        sequence_length: int [batch]; past it outputs are zero and the state stays.
        initial_state: the start; zeros of `dtype` when None.
        dtype: of the outputs; the state's when None.

    Returns:
        Outputs in the layout of the inputs and the structure of the cell's `output_size`, and the last state.

    Raises:
        ValueError: neither an initial state nor a dtype is given.
    """
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(x) for x in nest.flatten(inputs)]
        flat = flat if time_major else [_transposed(x) for x in flat]
        time, batch = _dimension(flat[0], 0), _dimension(flat[0], 1)
        if initial_state is None:
            if dtype is None:
                raise ValueError("If there is no initial_state, you must give a dtype.")
            initial_state = cell.zero_state(batch, dtype)
        state = nest.map_structure(lambda s: s if isinstance(s, TensorArray) else convert_to_tensor(s), initial_state)
        lengths = None
        if sequence_length is not None:
            lengths = apply_op("Cast", x=convert_to_tensor(sequence_length), DstT=dtypes.int32)
        steps = convert_to_tensor(time, dtypes.int32)
        sources = [TensorArray(x.dtype.base_dtype, size=steps).unstack(x) for x in flat]
        kind = nest.flatten(state)[0].dtype if dtype is None else dtypes.as_dtype(dtype)
        static_batch = flat[0].shape[1] if flat[0].shape.rank is not None else None
        sizes = cell.output_size
        shapes = [TensorShape([static_batch]).concatenate(size) for size in nest.flatten(sizes)]
        results = [TensorArray(kind, size=steps, element_shape=shape) for shape in shapes]

        def body(i: Tensor, out: list[TensorArray], held: Any) -> Any:
            given = []
            for x, source in zip(flat, sources, strict=True):
                step = source.read(i)
                step.set_shape(x.shape[1:])
                given.append(step)
            output, new = cell(nest.pack_sequence_as(inputs, given) if nest.is_nested(inputs) else given[0], held)
            parts = nest.flatten(output)
            if lengths is not None:
                active = apply_op("Less", x=i, y=lengths)
                parts = [_where(active, part, apply_op("ZerosLike", x=part)) for part in parts]
                new = nest.map_structure(lambda n, o: _where(active, n, o), new, held)
            return i + 1, [array.write(i, part) for array, part in zip(out, parts, strict=True)], new

        _, out, last = while_loop(
            lambda i, o, s: apply_op("Less", x=i, y=steps),
            body,
            (constant(0), results, state),
            parallel_iterations=parallel_iterations or 32,
            maximum_iterations=steps,
        )
        static = time if isinstance(time, int) else None
        outputs = []
        for array, shape in zip(out, shapes, strict=True):
            stacked = array.stack()
            stacked.set_shape(TensorShape([static]).concatenate(shape))
            outputs.append(stacked if time_major else _transposed(stacked))
        return (nest.pack_sequence_as(sizes, outputs) if nest.is_nested(sizes) else outputs[0]), last


def _where(active: Tensor, a: Any, b: Any) -> Any:
    """Take rows of one or the other; what has no rows goes on."""
    if isinstance(a, TensorArray) or a.shape.rank == 0:
        return a
    if a.shape.rank == 2:
        mask = apply_op("ExpandDims", input=active, dim=-1)
        out: Tensor = apply_op("SelectV2", condition=mask, t=a, e=b)
    else:
        out = apply_op("Select", condition=active, t=a, e=b)
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
        steps = [nest.map_structure(convert_to_tensor, x) for x in inputs]
        if initial_state is None:
            if dtype is None:
                raise ValueError("If no initial_state is provided, dtype must be specified")
            initial_state = cell.zero_state(_dimension(nest.flatten(steps[0])[0], 0), dtype)
        state = initial_state
        lengths = None if sequence_length is None else convert_to_tensor(sequence_length, dtypes.int32)
        for i, x in enumerate(steps):
            if i:
                opened.reuse_variables()
            output, new = cell(x, state)
            if lengths is not None:
                active = apply_op("Greater", x=lengths, y=constant(i, dtypes.int32))
                output = nest.map_structure(
                    lambda part, a=active: _where(a, part, apply_op("ZerosLike", x=part)), output
                )
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
        with variable_scope("fw") as fw:
            forward, state_fw = dynamic_rnn(
                cell_fw, x, sequence_length, initial_state_fw, dtype, parallel_iterations, swap_memory, time_major, fw
            )
        with variable_scope("bw") as bw:
            turned = reverse(x)
            backward, state_bw = dynamic_rnn(
                cell_bw, turned, sequence_length, initial_state_bw, dtype, parallel_iterations, swap_memory,
                time_major, bw,
            )  # fmt: skip
    return (forward, reverse(backward)), (state_fw, state_bw)
