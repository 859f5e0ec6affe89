"""`tf.contrib.legacy_seq2seq`: sequences as lists of tensors, one for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime import api as tf

__all__ = [
    "basic_rnn_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]


def rnn_decoder(
    decoder_inputs: Sequence[Any], initial_state: Any, cell: Any, loop_function: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """Run a cell over inputs step by step.

    Args:
        decoder_inputs: a list of float [batch, n].
        initial_state: the cell's first state.
        cell: a recurrent cell.
        loop_function: called with the last output and the step; its result is the next input in place of the given one.

    Returns:
        The outputs, a list, and the last state.
    """
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for step, given in enumerate(decoder_inputs):
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, step)
            if step > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
            if loop_function is not None:
                previous = output
        return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, dtype: Any = tf.float32, scope: Any = None
) -> tuple[list[Any], Any]:
    """Encode one list of inputs into a state with a copy of the cell, and decode another from there."""
    import copy

    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), list(encoder_inputs), dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: Any = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Encode and decode with the same variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        name = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, list(encoder_inputs), dtype=dtype, scope=name)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, name)


def _extract_argmax_and_embed(embedding: Any, projection: Any, update_embedding: bool) -> Any:
    def following(previous: Any, _: int) -> Any:
        if projection is not None:
            previous = tf.nn.xw_plus_b(previous, projection[0], projection[1])
        found = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return found if update_embedding else tf.stop_gradient(found)

    return following


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Decode ids, a list of int [batch], or from the first the likeliest at each step where `feed_previous`."""
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        if output_projection is not None and output_projection[0].shape[1].value not in (None, num_symbols):
            raise ValueError(f"the projection gives {output_projection[0].shape[1]} symbols, not {num_symbols}")
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        following = (
            _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        given = [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs]
        return rnn_decoder(given, initial_state, cell, following)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Encode a list of ids int [batch], and decode another; without a projection the outputs are [batch, symbols]."""
    import copy

    from dtfctl.contrib.rnn import OutputProjectionWrapper

    with tf.variable_scope(scope or "embedding_rnn_seq2seq"):
        with tf.variable_scope("rnn", dtype=dtype):
            kind = dtype or tf.float32
            table = tf.get_variable("EmbeddingWrapper/embedding", [num_encoder_symbols, embedding_size], kind)
            vectors = [tf.nn.embedding_lookup(table, tf.reshape(ids, [-1])) for ids in encoder_inputs]
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), vectors, dtype=kind)
        decoding = cell if output_projection is not None else OutputProjectionWrapper(cell, num_decoder_symbols)
        return embedding_rnn_decoder(
            decoder_inputs, state, decoding, num_decoder_symbols, embedding_size, output_projection, feed_previous
        )


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Return the weighted cross entropy of each example: float [batch].

    Args:
        logits: a list of float [batch, classes].
        targets: a list of int [batch].
        weights: a list of float [batch].
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: called with labels and logits.

    Raises:
        ValueError: the lists are not equally long.
    """
    if not len(targets) == len(logits) == len(weights):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            labels = tf.reshape(target, [-1]) if softmax_loss_function is None else target
            losses.append(function(labels=labels, logits=logit) * weight)
        total = tf.add_n(losses)
        return total / (tf.add_n(list(weights)) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Return the sum of `sequence_loss_by_example`, or its mean over the batch."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        each = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        total = tf.reduce_sum(each)
        return total / tf.cast(tf.shape(targets[0])[0], total.dtype) if average_across_batch else total
