"""Recurrent networks whose inputs a function gives, step by step, and lists read from both ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.array_ops import identity
from dtfctl.runtime.ops.rnn import _dimension, static_rnn
from dtfctl.runtime.ops.rnn_cell.base import RNNCell, zero_state_of
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.variable_scope import variable_scope
from dtfctl.runtime.ops.while_loop import while_loop


def raw_rnn(
    cell: RNNCell,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a cell until every sequence is finished.

    Args:
        loop_fn: (time, output, state, loop_state) -> (finished [batch], next input, next state, what to emit, next
            loop_state); at time 0 the output, state and loop_state are None, and it gives the first state and, to be
            emitted, a structure of one element's shapes and types (None: the cell's outputs).

    Returns:
        TensorArrays of what was emitted, the last state, the last loop_state.
    """
    with variable_scope(scope or "rnn"):
        finished, first, state, emitted, loop_state = loop_fn(constant(0), None, None, None)
        flat_input = [convert_to_tensor(t) for t in nest.flatten(first)]
        batch = _dimension(flat_input[0], 0)
        state = nest.map_structure(convert_to_tensor, state)
        has_loop_state = loop_state is not None
        kind = nest.flatten(state)[0].dtype.base_dtype
        if emitted is None:
            structure: Any = cell.output_size
            kinds = [(TensorShape(size), kind) for size in nest.flatten(structure)]
        else:
            structure = emitted
            kinds = [(t.shape, t.dtype.base_dtype) for t in map(convert_to_tensor, nest.flatten(emitted))]
        static = flat_input[0].shape[:1]
        arrays = [
            TensorArray(dtype, size=0, dynamic_size=True, element_shape=static.concatenate(shape))
            for shape, dtype in kinds
        ]
        zeros = [zero_state_of(batch, shape.as_list(), dtype) for shape, dtype in kinds]

        def body(time: Tensor, done: Tensor, given: Any, out: Any, held: Any, own: Any) -> Any:
            output, new = cell(given, held)
            ends, following, new, emit, new_own = loop_fn(time + 1, output, new, own if has_loop_state else None)
            values = [convert_to_tensor(e) for e in nest.flatten(output if emit is None else emit)]
            kept = [_unless(done, value, zero) for value, zero in zip(values, zeros)]
            new = nest.map_structure(lambda n, h: _unless(done, n, h), new, held)
            written = [array.write(time, value) for array, value in zip(out, kept)]
            ended = apply_op("LogicalOr", x=done, y=convert_to_tensor(ends))
            return time + 1, ended, following, written, new, (new_own if has_loop_state else own)

        start = loop_state if has_loop_state else constant(0)
        _, _, _, out, last, own = while_loop(
            lambda time, done, *_: apply_op(
                "LogicalNot", x=apply_op("All", input=done, reduction_indices=constant([0], dtypes.int32))
            ),
            body,
            [constant(0), convert_to_tensor(finished), first, arrays, state, start],
            parallel_iterations=parallel_iterations or 32,
        )
        return nest.pack_sequence_as(structure, out), last, own if has_loop_state else None


def _unless(done: Tensor, value: Any, otherwise: Any) -> Any:
    """Choose `value` for the sequences that go on, `otherwise` for those that are finished."""
    if getattr(value, "_flow_of_array", None) is not None:
        return value
    tensor = convert_to_tensor(value)
    if tensor.shape.rank == 0:
        return tensor
    shape = apply_op("ConcatV2", values=[[-1], constant([1] * ((tensor.shape.rank or 1) - 1), dtypes.int32)], axis=0)
    out: Tensor = apply_op("SelectV2", condition=apply_op("Reshape", tensor=done, shape=shape), t=otherwise, e=tensor)
    out.set_shape(tensor.shape)
    return out


def static_bidirectional_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: list[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Tensor], Any, Any]:
    """Run two cells over a list of [batch, n] inputs, one from each end; their outputs stand side by side.

    Raises:
        ValueError: the list is empty.
    """
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            ahead, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, forward)
        with variable_scope("bw") as backward:
            turned = _reversed(inputs, sequence_length)
            behind, state_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, backward)
        pairs = zip(ahead, _reversed(behind, sequence_length))
        outputs = [apply_op("ConcatV2", values=[a, b], axis=1) for a, b in pairs]
    return outputs, state_fw, state_bw


def _reversed(inputs: list[Any], lengths: Any) -> list[Any]:
    if lengths is None:
        return list(reversed(inputs))
    stacked = apply_op("Pack", values=inputs)
    turned = apply_op("ReverseSequence", input=stacked, seq_lengths=lengths, seq_dim=0, batch_dim=1)
    parts = apply_op_outputs("Unpack", value=turned, num=len(inputs))
    return parts if isinstance(parts, list) else [parts]


def static_state_saving_rnn(
    cell: Any, inputs: Any, state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs from a state that something keeps from step to step, and give it the next one.

    Args:
        state_saver: has `state(name)`, which gives a state, and `save_state(name, state)`, which makes an op.
        state_name: a name for each part of the cell's state, in its structure.

    Raises:
        ValueError: there are more or fewer names than parts of the state.
    """
    names, sizes = nest.flatten(state_name), nest.flatten(cell.state_size)
    if len(names) != len(sizes):
        raise ValueError(f"#names({len(names)}) does not match #elements of the cell's state ({len(sizes)})")
    begin = nest.pack_sequence_as(cell.state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, begin, sequence_length=sequence_length, scope=scope)
    parts = nest.flatten(state)
    saved = [state_saver.save_state(name, part) for name, part in zip(names, parts, strict=True)]
    with control_dependencies(saved):
        outputs[-1] = nest.map_structure(identity, outputs[-1])
        parts = [identity(part) for part in parts]
    return outputs, nest.pack_sequence_as(cell.state_size, parts)
