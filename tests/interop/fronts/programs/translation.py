"""`tf.contrib.seq2seq`: decoders fed by the truth and by themselves, attention, beams, trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.fronts.programs.distributions import _ramp

WORDS = np.array([[2, 3, 4, 1], [5, 2, 1, 0]], np.int32)


def decoded(tf: Any) -> Any:
    """An encoder and a decoder, trained by the truth, then greedy."""
    s2s, cell = tf.contrib.seq2seq, tf.nn.rnn_cell
    matrix = tf.get_variable("embedding", [7, 3], initializer=_ramp(tf, 0.5))
    with tf.variable_scope("model", initializer=_ramp(tf, 0.3)):
        source = tf.nn.embedding_lookup(matrix, tf.constant([[1, 2, 3], [4, 5, 0]]))
        _, state = tf.nn.dynamic_rnn(cell.GRUCell(4), source, [3, 2], dtype=tf.float32, scope="encoder")
        layer = tf.layers.Dense(7, use_bias=False, name="projection")
        helper = s2s.TrainingHelper(tf.nn.embedding_lookup(matrix, WORDS), [4, 3])
        decoder = s2s.BasicDecoder(cell.GRUCell(4, name="said"), helper, state, layer)
        outputs, final, lengths = s2s.dynamic_decode(decoder, impute_finished=True)
        loss = s2s.sequence_loss(outputs.rnn_output, tf.constant(WORDS), tf.sequence_mask([4, 3], 4, tf.float32))
        each = s2s.sequence_loss(
            outputs.rnn_output, tf.constant(WORDS), tf.sequence_mask([4, 3], 4, tf.float32), average_across_batch=False
        )
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.variable_scope("model", reuse=True):
        greedy = s2s.GreedyEmbeddingHelper(matrix, [0, 0], 1)
        asked = s2s.BasicDecoder(cell.GRUCell(4, name="said", reuse=True), greedy, state, layer)
        said, _, count = s2s.dynamic_decode(asked, maximum_iterations=5)
    shown = [loss, each, outputs.rnn_output, outputs.sample_id, final, lengths, said.sample_id, count]
    # What is said greedily reads the variables by itself, so not in the step that changes them.
    return [(shown, {}), (train, {})] * 4


def _attending(tf: Any, kind: str, **options: Any) -> Any:
    s2s, cell = tf.contrib.seq2seq, tf.nn.rnn_cell
    memory = tf.constant(np.sin(np.arange(30)).reshape(2, 3, 5), tf.float32)
    with tf.variable_scope("model", initializer=_ramp(tf, 0.3)):
        mechanism = getattr(s2s, kind)(4, memory, memory_sequence_length=[3, 2], **options)
        wrapped = s2s.AttentionWrapper(cell.BasicLSTMCell(4), mechanism, attention_layer_size=6, alignment_history=True)
        matrix = tf.get_variable("embedding", [7, 3])
        helper = s2s.TrainingHelper(tf.nn.embedding_lookup(matrix, WORDS), [4, 3])
        decoder = s2s.BasicDecoder(wrapped, helper, wrapped.zero_state(2, tf.float32), tf.layers.Dense(7))
        outputs, final, _ = s2s.dynamic_decode(decoder)
        loss = s2s.sequence_loss(outputs.rnn_output, tf.constant(WORDS), tf.ones([2, 4]))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    shown = [loss, outputs.rnn_output, final.cell_state.h, final.attention, final.alignment_history.stack()]
    return [([train, *shown], {})] * 3


def luong_attention(tf: Any) -> Any:
    return _attending(tf, "LuongAttention", scale=True)


def bahdanau_attention(tf: Any) -> Any:
    return _attending(tf, "BahdanauAttention", normalize=True)


def beams(tf: Any) -> Any:
    s2s, cell = tf.contrib.seq2seq, tf.nn.rnn_cell
    with tf.variable_scope("model", initializer=_ramp(tf, 0.9)):
        matrix = tf.get_variable("embedding", [6, 3])
        memory = s2s.tile_batch(tf.constant(np.cos(np.arange(24)).reshape(2, 3, 4), tf.float32), 3)
        mechanism = s2s.BahdanauAttention(4, memory, s2s.tile_batch(tf.constant([3, 2]), 3))
        wrapped = s2s.AttentionWrapper(cell.GRUCell(4), mechanism, 5)
        state = wrapped.zero_state(6, tf.float32)
        decoder = s2s.BeamSearchDecoder(
            wrapped, matrix, [0, 3], 1, state, 3, tf.layers.Dense(6, use_bias=False), length_penalty_weight=0.6
        )
        outputs, final, lengths = s2s.dynamic_decode(decoder, maximum_iterations=6)
    steps = outputs.beam_search_decoder_output
    return [([outputs.predicted_ids, steps.scores, steps.parent_ids, final.log_probs, final.lengths, lengths], {})]
