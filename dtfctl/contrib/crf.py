"""`tf.contrib.crf`: linear-chain conditional random fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime import api as tf

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def _lengths(sequence_lengths: Any) -> Any:
    return tf.maximum(tf.cast(sequence_lengths, tf.int32), 0)


def _transposed(inputs: Any) -> Any:
    return tf.transpose(inputs, [1, 0, 2])


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """Add up what the inputs give to the tags of each sequence.

    Args:
        tag_indices: int [batch, steps].
        sequence_lengths: int [batch].
        inputs: float [batch, steps, tags].
    """
    tags = tf.shape(inputs)[2]
    chosen = tf.one_hot(tag_indices, tags, dtype=inputs.dtype)
    steps = tf.sequence_mask(_lengths(sequence_lengths), tf.shape(tag_indices)[1], dtype=inputs.dtype)
    return tf.reduce_sum(tf.reduce_sum(chosen * inputs, axis=2) * steps, axis=1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Add up what the transitions [tags, tags] give to each tag after the one before it."""
    table = tf.convert_to_tensor(transition_params)
    tags, count = tf.shape(table)[0], tf.shape(tag_indices)[1] - 1
    pairs = tag_indices[:, :-1] * tf.cast(tags, tag_indices.dtype) + tag_indices[:, 1:]
    given = tf.gather(tf.reshape(table, [-1]), pairs)
    steps = tf.sequence_mask(tf.maximum(_lengths(sequence_lengths) - 1, 0), count, dtype=given.dtype)
    return tf.reduce_sum(given * steps, axis=1)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Score sequences of tags, unnormalized: float [batch]; 0 where a sequence is empty."""
    indices = tf.cast(tag_indices, tf.int32)
    score = crf_unary_score(indices, sequence_lengths, inputs)
    score += crf_binary_score(indices, sequence_lengths, transition_params)
    return tf.where(tf.equal(_lengths(sequence_lengths), 0), tf.zeros_like(score), score)


def _forward(inputs: Any, sequence_lengths: Any, transitions: Any, allowed: Any = None) -> Any:
    """Sum over all tags of exp(score), step by step: logarithms [batch, tags] at each sequence's end."""
    steps = _transposed(inputs if allowed is None else inputs + tf.log(tf.cast(allowed, inputs.dtype)))
    ends = _lengths(sequence_lengths) - 1
    table = tf.expand_dims(transitions, 0)

    def advance(at: Any, alphas: Any) -> tuple[Any, Any]:
        new = tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + table, axis=1) + steps[at]
        goes_on = tf.expand_dims(tf.cast(tf.less_equal(at, ends), alphas.dtype), 1)
        keeps = tf.where(tf.tile(goes_on, [1, tf.shape(new)[1]]) > 0, new, alphas)
        keeps.set_shape(alphas.shape)
        return at + 1, keeps

    count = tf.shape(steps)[0]
    first = tf.identity(steps[0])
    first.set_shape([inputs.shape[0], inputs.shape[2]])
    return tf.while_loop(lambda at, _: at < count, advance, (tf.constant(1), first))[1]


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Compute the logarithm of the sum of exp(score) over all sequences of tags: float [batch]."""
    norm = tf.reduce_logsumexp(_forward(inputs, sequence_lengths, transition_params), axis=1)
    return tf.where(tf.less_equal(_lengths(sequence_lengths), 0), tf.zeros_like(norm), norm)


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Score all sequences whose tags are allowed by `tag_bitmap` [batch, steps, tags] together: float [batch]."""
    score = tf.reduce_logsumexp(_forward(inputs, sequence_lengths, transition_params, tag_bitmap), axis=1)
    return tf.where(tf.less_equal(_lengths(sequence_lengths), 0), tf.zeros_like(score), score)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """Compute the log probability of sequences of tags, and give the transitions it was computed with.

    Args:
        inputs: float [batch, steps, tags], what speaks for each tag.
        tag_indices: int [batch, steps].
        sequence_lengths: int [batch].
        transition_params: float [tags, tags]; the variable "transitions" when None.

    Returns:
        Float [batch], and the transitions.
    """
    tags = inputs.get_shape()[2].value
    if transition_params is None:
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """Find the best sequence of tags for one sequence of arrays, not of tensors.

    Args:
        score: [steps, tags].
        transition_params: [tags, tags].

    Returns:
        The tags, and their score.
    """
    best = np.zeros_like(score)
    came = np.zeros_like(score, dtype=np.int32)
    best[0] = score[0]
    for step in range(1, len(score)):
        paths = np.expand_dims(best[step - 1], 1) + transition_params
        best[step] = score[step] + np.max(paths, 0)
        came[step] = np.argmax(paths, 0)
    tags = [int(np.argmax(best[-1]))]
    for before in came[:0:-1]:
        tags.append(int(before[tags[-1]]))
    return tags[::-1], np.max(best[-1])


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """Find the best sequence of tags for each of a batch.

    Args:
        potentials: float [batch, steps, tags].
        transition_params: float [tags, tags].
        sequence_length: int [batch].

    Returns:
        Tags int32 [batch, steps], 0 after a sequence's end, and the scores float [batch].
    """
    steps = _transposed(potentials)
    lengths = _lengths(sequence_length)
    table = tf.expand_dims(transition_params, 0)
    shape = tf.shape(potentials)
    batch, tags = shape[0], shape[2]
    same = tf.tile(tf.expand_dims(tf.range(tags), 0), [batch, 1])

    def forward(state: Any, at: Any) -> tuple[Any, Any]:
        best, _ = state
        paths = tf.expand_dims(best, 2) + table
        runs = tf.tile(tf.expand_dims(at < lengths, 1), [1, tags])
        new = tf.where(runs, tf.reduce_max(paths, axis=1) + steps[at], best)
        return new, tf.where(runs, tf.argmax(paths, axis=1, output_type=tf.int32), same)

    bests, came = tf.scan(forward, tf.range(1, shape[1]), (steps[0], same))
    bests = tf.concat([tf.expand_dims(steps[0], 0), bests], 0)
    last = bests[-1]
    end = tf.argmax(last, axis=1, output_type=tf.int32)

    def backward(tag: Any, before: Any) -> Any:
        return tf.reduce_sum(tf.where(tf.equal(same, tf.expand_dims(tag, 1)), before, tf.zeros_like(before)), axis=1)

    earlier = tf.scan(backward, came, end, reverse=True)
    found = tf.transpose(tf.concat([earlier, tf.expand_dims(end, 0)], 0))
    found.set_shape(potentials.shape[:2])
    within = tf.sequence_mask(tf.maximum(lengths, 1), shape[1], dtype=tf.int32)
    return found * within, tf.reduce_max(last, axis=1)
