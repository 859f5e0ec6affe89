"""Beam search: the likeliest sequences, several at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtfctl.contrib.seq2seq.decoder import Decoder
from dtfctl.contrib.seq2seq.helpers import lookup_of
from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest


class BeamSearchDecoderState(NamedTuple):
    """The state of each beam."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any


class BeamSearchDecoderOutput(NamedTuple):
    """What a step gives: the score and word of each beam, and the beam it goes on."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences: int32 [batch, time, beams], the best first; and what each step gave."""

    predicted_ids: Any
    beam_search_decoder_output: Any


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each example of a batch, one copy behind the other; `t` may be nested."""

    def tiled(tensor: Any) -> Any:
        tensor = tf.convert_to_tensor(tensor, name="t")
        shape, rank = tf.shape(tensor), tensor.shape.ndims
        if rank is None:
            raise ValueError("t must have statically known rank")
        wide = tf.tile(tf.expand_dims(tensor, 1), [1, multiplier] + [1] * (rank - 1))
        made = tf.reshape(wide, tf.concat([[shape[0] * multiplier], shape[1:]], 0))
        batch = tensor.shape[0].value
        made.set_shape([None if batch is None else batch * multiplier, *tensor.shape[1:]])
        return made

    with tf.name_scope(name, "tile_batch"):
        return nest.map_structure(tiled, t)


def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Any:
    """Follow beams back from their ends.

    Args:
        step_ids, parent_ids: int32 [time, batch, beams].
        max_sequence_lengths: int32 [batch].
        end_token: what fills a sequence from its end on.

    Returns:
        int32 [time, batch, beams].
    """
    with tf.name_scope(None, "GatherTree", [step_ids, parent_ids]):
        step_ids, parent_ids = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
        steps, batch, beams = tf.unstack(tf.shape(step_ids), num=3)
        lengths = tf.expand_dims(tf.convert_to_tensor(max_sequence_lengths), 1)
        made = tf.TensorArray(tf.int32, size=steps)
        ends = tf.fill([batch, beams], end_token)

        def body(time: Any, beam: Any, made: Any) -> Any:
            there = tf.broadcast_to(time < lengths, [batch, beams])
            ids = tf.where(there, tf.batch_gather(step_ids[time], beam), ends)
            beam = tf.where(there, tf.batch_gather(parent_ids[time], beam), beam)
            return time - 1, beam, made.write(time, ids)

        own = tf.tile(tf.expand_dims(tf.range(beams), 0), [batch, 1])
        _, _, made = tf.while_loop(lambda time, beam, made: time >= 0, body, (steps - 1, own, made))
        ids = made.stack()
        over = tf.cumsum(tf.cast(tf.equal(ids, end_token), tf.int32), axis=0, exclusive=True)
        return tf.where(over > 0, tf.fill(tf.shape(ids), end_token), ids)


class BeamSearchDecoder(Decoder):
    """A cell that says the likeliest sequences.

    Args:
        embedding: a matrix, or a function from ids to inputs.
        start_tokens: int32 [batch].
        end_token: the id that ends a sequence.
        initial_state: of the cell, for batch * beam_width examples (see `tile_batch`).
        beam_width: how many sequences are kept.
        output_layer: a layer from the cell's outputs to logits.
        length_penalty_weight: how much long sequences are favoured.
        coverage_penalty_weight: must be 0: coverage is not counted here.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        if coverage_penalty_weight != 0.0:
            raise ValueError("coverage_penalty_weight must be 0.0: coverage is not counted here")
        self._cell, self._layer, self._width, self._penalty = cell, output_layer, beam_width, length_penalty_weight
        self._lookup = lookup_of(embedding)
        tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        if tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._end.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch, self._known_batch = tf.size(tokens), tokens.shape[0].value
        if any(isinstance(part, tf.TensorArray) for part in nest.flatten(initial_state)):
            raise ValueError("beams do not carry TensorArrays: make the AttentionWrapper with alignment_history=False")
        self._initial = nest.map_structure(self._split, initial_state)
        self._first = self._lookup(tf.tile(tf.expand_dims(tokens, 1), [1, beam_width]))

    @property
    def batch_size(self) -> Any:
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        return True

    @property
    def output_size(self) -> Any:
        return BeamSearchDecoderOutput(*[tf.TensorShape([self._width])] * 3)

    @property
    def output_dtype(self) -> Any:
        return BeamSearchDecoderOutput(nest.flatten(self._initial)[0].dtype, tf.int32, tf.int32)

    def initialize(self, name: str | None = None) -> Any:
        dtype = nest.flatten(self._initial)[0].dtype
        zeros = tf.zeros([self._batch], tf.int32)
        finished = tf.one_hot(zeros, self._width, on_value=False, off_value=True, dtype=tf.bool)
        # Of the beams that all begin alike one counts.
        chances = tf.one_hot(zeros, self._width, on_value=0.0, off_value=-np.inf, dtype=dtype)
        lengths = tf.zeros(tf.stack([self._batch, self._width]), tf.int64)
        return finished, self._first, BeamSearchDecoderState(self._initial, chances, finished, lengths, ())

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "BeamSearchDecoderStep", [time]):
            output, cell_state = self._cell(
                nest.map_structure(self._merge, inputs), nest.map_structure(self._merge, state.cell_state)
            )
            output, cell_state = self._split(output), nest.map_structure(self._split, cell_state)
            logits = output if self._layer is None else self._layer(output)
            outputs, following = self._advance(logits, cell_state, state)
            ended = tf.reduce_all(following.finished)
            inputs = tf.cond(ended, lambda: self._first, lambda: self._lookup(outputs.predicted_ids))
        return outputs, following, inputs, following.finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _advance(self, logits: Any, cell_state: Any, state: Any) -> tuple[Any, Any]:
        """Choose the likeliest continuations of all beams."""
        words = logits.shape[-1].value or tf.shape(logits)[-1]
        chances = self._masked(tf.nn.log_softmax(logits), state.finished, words)
        total = tf.expand_dims(state.log_probs, 2) + chances
        grow = tf.cast(tf.logical_not(state.finished), tf.int64)
        no_end = 1 - tf.one_hot(self._end, words, dtype=tf.int64)
        lengths = tf.expand_dims(grow, 2) * no_end + tf.expand_dims(state.lengths, 2)
        flat = tf.stack([self._batch, self._width * words])
        scores, chosen = tf.nn.top_k(tf.reshape(self._scores(total, lengths), flat), k=self._width)
        scores.set_shape([self._known_batch, self._width])
        chosen.set_shape([self._known_batch, self._width])
        parents, ids = chosen // words, tf.mod(chosen, words)
        ended = tf.batch_gather(state.finished, parents)
        grown = tf.batch_gather(state.lengths, parents) + tf.cast(tf.logical_not(ended), tf.int64)
        following = BeamSearchDecoderState(
            nest.map_structure(lambda t: self._followed(t, parents), cell_state),
            tf.batch_gather(tf.reshape(total, flat), chosen),
            tf.logical_or(ended, tf.equal(ids, self._end)),
            grown,
            (),
        )
        return BeamSearchDecoderOutput(scores, ids, parents), following

    def _masked(self, chances: Any, finished: Any, words: Any) -> Any:
        """Let sequences that have ended say nothing but the end, for free."""
        row = tf.one_hot(self._end, words, on_value=0.0, off_value=chances.dtype.min, dtype=chances.dtype)
        ended = tf.tile(tf.reshape(row, [1, 1, -1]), tf.stack([self._batch, self._width, 1]))
        return tf.where(tf.tile(tf.expand_dims(finished, 2), tf.stack([1, 1, words])), ended, chances)

    def _scores(self, total: Any, lengths: Any) -> Any:
        if self._penalty == 0.0:
            return total
        penalty = (5.0 + tf.cast(lengths, tf.float32)) ** self._penalty / 6.0**self._penalty
        return total / tf.cast(penalty, total.dtype)

    def _followed(self, tensor: Any, parents: Any) -> Any:
        """Return a state's parts for the beams that are gone on."""
        if tensor.shape.ndims == 0:
            return tensor
        made = tf.batch_gather(tensor, parents)
        made.set_shape(tensor.shape)
        return made

    def _split(self, tensor: Any) -> Any:
        """Give a tensor of batch * beams examples an axis for the beams."""
        if tensor.shape.ndims == 0:
            return tensor
        made = tf.reshape(tensor, tf.concat([[self._batch, self._width], tf.shape(tensor)[1:]], 0))
        made.set_shape([self._known_batch, self._width, *tensor.shape[1:]])
        return made

    def _merge(self, tensor: Any) -> Any:
        """Put the beams' axis and the batch's together."""
        if tensor.shape.ndims is not None and tensor.shape.ndims < 2:
            return tensor
        made = tf.reshape(tensor, tf.concat([[self._batch * self._width], tf.shape(tensor)[2:]], 0))
        batch = None if self._known_batch is None else self._known_batch * self._width
        made.set_shape([batch, *tensor.shape[2:]])
        return made
