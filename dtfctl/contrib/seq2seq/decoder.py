"""Decoders, and the loop that runs one."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfctl.contrib.seq2seq.helpers import Helper, transposed
from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest


class Decoder:
    """One step of a decoder, and where it begins."""

    @property
    def batch_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The shapes of a step's outputs, without the batch."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether what has ended may go on in another place, as beams do."""
        return False

    def initialize(self, name: str | None = None) -> Any:
        """Return (finished, first inputs, first state)."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Return (outputs, next state, next inputs, finished)."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Return the outputs and the state at the end."""
        return outputs, final_state


class BasicDecoderOutput(NamedTuple):
    """What a step gives: the cell's output, and what was sampled from it."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell, what feeds it, and a layer over its outputs.

    Args:
        cell: an RNNCell.
        helper: a Helper.
        initial_state: of the cell.
        output_layer: a layer from the cell's outputs to logits.
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        self._cell, self._helper, self._initial_state, self._layer = cell, helper, initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        return BasicDecoderOutput(output_size_of(self._cell, self._layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        return BasicDecoderOutput(nest.flatten(self._initial_state)[0].dtype, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "BasicDecoderStep", [time]):
            output, state = self._cell(inputs, state)
            if self._layer is not None:
                output = self._layer(output)
            ids = self._helper.sample(time=time, outputs=output, state=state)
            finished, inputs, state = self._helper.next_inputs(time=time, outputs=output, state=state, sample_ids=ids)
        return BasicDecoderOutput(output, ids), state, inputs, finished


def output_size_of(cell: Any, layer: Any) -> Any:
    """Return the shape of one output of a cell, after a layer if there is one."""
    units = getattr(layer, "units", None)
    return tf.TensorShape(cell.output_size if units is None else units)


def _zeros(size: Any, dtype: Any, batch_size: Any) -> Any:
    return tf.zeros(tf.concat([[batch_size], tf.TensorShape(size).as_list()], 0), dtype)


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> Any:
    """Run a decoder until every sequence has ended.

    Args:
        output_time_major: whether outputs are [time, batch, ...].
        impute_finished: whether what comes after a sequence's end is zeros, and its state stays.
        maximum_iterations: the most steps.

    Returns:
        Outputs, the last state, and the lengths of the sequences.

    Raises:
        TypeError: it is no Decoder.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with tf.variable_scope(scope, "decoder"):
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(maximum_iterations, dtype=tf.int32, name="maximum_iterations")
            if maximum_iterations.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        zeros = nest.map_structure(
            lambda s, d: _zeros(s, d, decoder.batch_size), decoder.output_size, decoder.output_dtype
        )
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, tf.greater_equal(0, maximum_iterations))
        arrays = nest.map_structure(lambda d: tf.TensorArray(d, size=0, dynamic_size=True), decoder.output_dtype)

        def going(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
            return tf.logical_not(tf.reduce_all(finished))

        def body(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
            outputs, new_state, new_inputs, ended = decoder.step(time, inputs, state)
            ended = ended if decoder.tracks_own_finished else tf.logical_or(ended, finished)
            lengths = tf.where(tf.logical_not(finished), tf.fill(tf.shape(lengths), time + 1), lengths)
            if impute_finished:
                outputs = nest.map_structure(lambda out, zero: tf.where(finished, zero, out), outputs, zeros)
                new_state = nest.map_structure(lambda new, old: _kept(finished, new, old), new_state, state)
            arrays = nest.map_structure(lambda array, out: array.write(time, out), arrays, outputs)
            return time + 1, arrays, new_state, new_inputs, ended, lengths

        start = (
            tf.constant(0, tf.int32),
            arrays,
            state,
            inputs,
            finished,
            tf.zeros_like(finished, dtype=tf.int32),
        )
        _, arrays, state, _, _, lengths = tf.while_loop(
            going,
            body,
            start,
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs = nest.map_structure(lambda array: array.stack(), arrays)
        outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(transposed, outputs)
    return outputs, state, lengths


def _kept(finished: Any, new: Any, old: Any) -> Any:
    """Return the old state of sequences that have ended, the new one of others."""
    if isinstance(old, tf.TensorArray):
        return new
    new.set_shape(old.shape)
    return new if new.shape.ndims == 0 else tf.where(finished, old, new)
