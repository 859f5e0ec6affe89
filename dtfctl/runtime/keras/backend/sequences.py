"""Sequences: a function applied step by step, and labels that are not aligned with their steps (CTC)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras.backend.settings import epsilon
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.sparse_ops import conversion
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.while_loop import while_loop


def _swapped(x: Any) -> Any:
    return array_ops.transpose(x, [1, 0, *range(2, x.shape.ndims)])


def _chosen(mask: Any, new: Any, old: Any) -> Any:
    """Take what is new where the mask of [batch, 1] or [batch] holds."""
    for _ in range(new.shape.ndims - mask.shape.ndims):
        mask = array_ops.expand_dims(mask, -1)
    return array_ops.where_v2(mask, new, old)


def rnn(
    step_function: Callable[[Any, Any], tuple[Any, Any]],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Apply a function to one step after another of [batch, steps, ...].

    Args:
        step_function: from the inputs of a step and the states, with the constants after them, to the outputs and the
            new states.
        go_backwards: begin with the last step.
        mask: [batch, steps]: where it is false, states stay and the output is that of the step before.
        constants: more tensors for each step.
        unroll: make the ops of each step rather than a loop; how many there are has to be known.
        input_length: how many steps of each example count, where there is no mask.
        time_major: inputs and outputs are [steps, batch, ...].
        zero_output_for_mask: the output is 0 where the mask is false.
        return_all_outputs: not used, as in TensorFlow 1.

    Returns:
        The last output, all outputs, the last states.

    Raises:
        ValueError: unrolled, and the number of steps is not known.
    """
    if not time_major:
        inputs = nest.map_structure(_swapped, inputs)
    flat = [convert_to_tensor(x) for x in nest.flatten(inputs)]
    for x in flat:
        x.shape.with_rank_at_least(3)
    static = flat[0].shape.as_list()
    count = array_ops.shape(flat[0])[0]
    constants = tuple(constants or ())
    if mask is not None:
        mask = mask if mask.dtype == dtypes.bool_ else math_ops.cast(mask, dtypes.bool_)
        mask = array_ops.expand_dims(mask, -1) if mask.shape.ndims == 2 else mask
        mask = mask if time_major else _swapped(mask)
    if unroll and not static[0]:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    if go_backwards:
        flat = [array_ops.reverse(x, [0]) for x in flat]
        mask = None if mask is None else array_ops.reverse(mask, [0])

    if mask is not None:
        kept: Callable[[Any], Any] | None = _reader(mask, unroll)
    elif isinstance(input_length, Tensor) and not unroll:
        if go_backwards:
            before = math_ops.reduce_max(input_length, axis=0) - 1 - input_length
            kept = partial(math_ops.less, before)
        else:
            kept = partial(math_ops.greater, input_length)
    else:
        kept = None
    readers = [_reader(x, unroll) for x in flat]

    def step(time: Any, previous: Any, states: Any) -> tuple[Any, Any]:
        """Give the flat outputs of a step, and its states in the structure of those before."""
        given = nest.pack_sequence_as(inputs, [read(time) for read in readers])
        output, new = step_function(given, (*states, *constants))
        outputs, news, olds = nest.flatten(output), nest.flatten(new), nest.flatten(states)
        for value, old in zip(news, olds):
            value.set_shape(old.shape)
        if kept is not None:
            counts = kept(time)
            outputs = [_chosen(counts, value, old) for value, old in zip(outputs, previous)]
            news = [_chosen(counts, value, old) for value, old in zip(news, olds)]
        return outputs, nest.pack_sequence_as(states, news)

    states = tuple(initial_states)
    structure, _ = step_function(nest.pack_sequence_as(inputs, [x[0] for x in flat]), (*states, *constants))
    zeros = [array_ops.zeros_like(x) for x in nest.flatten(structure)]
    if unroll:
        rows, previous = [], zeros
        for time in range(int(static[0] or 0)):
            outputs, states = step(time, zeros if zero_output_for_mask else previous, states)
            previous = outputs
            rows.append(outputs)
        stacked = [array_ops.stack(list(column)) for column in zip(*rows)]
    else:
        arrays = tuple(TensorArray(x.dtype, size=count, element_shape=x.shape) for x in zeros)

        def body(time: Any, written: Any, previous: Any, states: Any) -> Any:
            outputs, states = step(time, zeros if zero_output_for_mask else previous, states)
            return time + 1, tuple(a.write(time, x) for a, x in zip(written, outputs)), tuple(outputs), states

        _, arrays, _, states = while_loop(
            lambda time, *_: math_ops.less(time, count),
            body,
            (array_ops.zeros([], dtypes.int32), arrays, tuple(zeros), states),
        )
        stacked = [array.stack() for array in arrays]
    for value in stacked:
        value.set_shape([static[0], static[1], *value.shape.as_list()[2:]])
    last = nest.pack_sequence_as(structure, [value[-1] for value in stacked])
    every = nest.pack_sequence_as(structure, [value if time_major else _swapped(value) for value in stacked])
    return last, every, list(states)


def _reader(x: Any, unroll: bool) -> Callable[[Any], Any]:
    """Make what gives an element of the first axis by its number."""
    if unroll:
        rows = array_ops.unstack(x)
        return lambda time: rows[time]
    array = TensorArray(x.dtype, size=array_ops.shape(x)[0]).unstack(x)

    def read(time: Any) -> Any:
        found = array.read(time)
        found.set_shape(x.shape[1:])
        return found

    return read


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> SparseTensor:
    """Make the sparse labels that CTC takes of a matrix whose rows are padded."""
    labels = convert_to_tensor(labels)
    shape = array_ops.shape(labels)
    there = array_ops.sequence_mask(label_lengths, shape[1])
    places = array_ops.where(there)
    return SparseTensor(places, array_ops.gather_nd(labels, places), math_ops.cast(shape, dtypes.int64))


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Tensor:
    """Compute the CTC loss of each example, [batch, 1].

    Args:
        y_true: labels [batch, n], in rows that are padded.
        y_pred: probabilities [batch, steps, classes].
        input_length: [batch, 1]: how many steps count.
        label_length: [batch, 1]: how many labels count.
    """
    lengths = math_ops.cast(array_ops.squeeze(input_length, [-1]), dtypes.int32)
    of_labels = math_ops.cast(array_ops.squeeze(label_length, [-1]), dtypes.int32)
    sparse = ctc_label_dense_to_sparse(y_true, of_labels)
    sparse = SparseTensor(sparse.indices, math_ops.cast(sparse.values, dtypes.int32), sparse.dense_shape)
    logits = math_ops.log(array_ops.transpose(y_pred, [1, 0, 2]) + epsilon())
    return array_ops.expand_dims(nn_ops.ctc_loss(inputs=logits, labels=sparse, sequence_length=lengths), 1)


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Tensor], Tensor]:
    """Find the likeliest labels of probabilities [batch, steps, classes]; rows end with -1.

    Args:
        input_length: how many steps each example has.
        greedy: take the likeliest class of each step, rather than a search over `beam_width` beginnings.
        top_paths: how many to give, of the search.
    """
    shape = array_ops.shape(y_pred)
    logits = math_ops.log(array_ops.transpose(y_pred, [1, 0, 2]) + epsilon())
    lengths = math_ops.cast(input_length, dtypes.int32)
    if greedy:
        decoded, logs = nn_ops.ctc_greedy_decoder(logits, lengths)
    else:
        decoded, logs = nn_ops.ctc_beam_search_decoder(logits, lengths, beam_width, top_paths)
    whole = math_ops.cast(shape[:2], dtypes.int64)
    dense = [
        conversion.sparse_tensor_to_dense(SparseTensor(found.indices, found.values, whole), default_value=-1)
        for found in decoded
    ]
    return dense, logs
