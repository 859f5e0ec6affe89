"""`tf.contrib.legacy_seq2seq`: sequences as lists of tensors, one for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest
from dtfctl.runtime.programs.counterparts.rnn_cell_impl import _linear

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "model_with_buckets",
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
        vectors, kind = _embedded(encoder_inputs, num_encoder_symbols, embedding_size, dtype)
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), vectors, dtype=kind)
        decoding = cell if output_projection is not None else OutputProjectionWrapper(cell, num_decoder_symbols)
        return embedding_rnn_decoder(
            decoder_inputs, state, decoding, num_decoder_symbols, embedding_size, output_projection, feed_previous
        )


def _embedded(encoder_inputs: Sequence[Any], symbols: int, size: int, dtype: Any) -> tuple[list[Any], Any]:
    """Look ids up in a table with the name that the wrapper of an encoder's cell gives it."""
    kind = dtype or tf.float32
    with tf.variable_scope("rnn", dtype=dtype):
        table = tf.get_variable("EmbeddingWrapper/embedding", [symbols, size], kind)
        return [tf.nn.embedding_lookup(table, tf.reshape(ids, [-1])) for ids in encoder_inputs], kind


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Any = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Run a cell over inputs step by step, with attention over a memory (Vinyals et al., 2014).

    Args:
        decoder_inputs: a list of float [batch, n].
        initial_state: the cell's first state.
        attention_states: the memory, float [batch, places, width]; places and width must be known.
        cell: a recurrent cell.
        output_size: how wide the outputs are; as the cell's when None.
        num_heads: how often the memory is read in a step.
        loop_function: called with the last output and the step; its result is the next input in place of the given one.
        dtype: of the variables.
        scope: where the variables are.
        initial_state_attention: read the memory with the first state; else the first step sees zeros.

    Returns:
        The outputs, a list of [batch, output_size], and the last state.

    Raises:
        ValueError: there are no inputs or no heads, or the memory's shape is not known.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    memory = tf.convert_to_tensor(attention_states)
    width = memory.shape[2].value
    if width is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {memory.shape}")
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as own:
        dtype = own.dtype
        size = output_size or cell.output_size
        batch = tf.shape(decoder_inputs[0])[0]
        places = memory.shape[1].value or tf.shape(memory)[1]
        # What a head makes of the memory, as pictures of one column.
        hidden = tf.reshape(memory, [-1, places, 1, width])
        keys, weights = [], []
        for head in range(num_heads):
            kernel = tf.get_variable(f"AttnW_{head}", [1, 1, width, width], dtype)
            keys.append(tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME"))
            weights.append(tf.get_variable(f"AttnV_{head}", [width], dtype))

        def read(query: Any) -> list[Any]:
            joined = tf.concat(nest.flatten(query), 1) if nest.is_nested(query) else query
            found = []
            for head in range(num_heads):
                with tf.variable_scope(f"Attention_{head}"):
                    asked = tf.reshape(_linear(joined, width, True), [-1, 1, 1, width])
                    score = tf.reduce_sum(weights[head] * tf.tanh(keys[head] + asked), [2, 3])
                    looked = tf.reshape(tf.nn.softmax(score), [-1, places, 1, 1])
                    found.append(tf.reshape(tf.reduce_sum(looked * hidden, [1, 2]), [-1, width]))
            return found

        state, outputs, previous = initial_state, [], None
        read_before = [tf.zeros(tf.stack([batch, width]), dtype) for _ in range(num_heads)]
        for value in read_before:
            value.set_shape([None, width])
        if initial_state_attention:
            read_before = read(initial_state)
        for step, given in enumerate(decoder_inputs):
            if step > 0:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, step)
            across = given.shape.with_rank(2)[1].value
            if across is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            output, state = cell(_linear([given, *read_before], across, True), state)
            if step == 0 and initial_state_attention:
                with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                    read_before = read(state)
            else:
                read_before = read(state)
            with tf.variable_scope("AttnOutputProjection"):
                result = _linear([output, *read_before], size, True)
            previous = result if loop_function is not None else None
            outputs.append(result)
        return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Decode ids with attention, or from the first the likeliest at each step where `feed_previous`."""
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as own:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], own.dtype)
        following = (
            _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        return attention_decoder(
            [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size or cell.output_size,
            num_heads,
            following,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Encode a list of ids int [batch], and decode another with attention over what the encoder gave at each step.

    Without a projection the outputs are [batch, symbols]. `feed_previous` may be a tensor.
    """
    import copy

    from dtfctl.contrib.rnn import OutputProjectionWrapper

    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as own:
        vectors, kind = _embedded(encoder_inputs, num_encoder_symbols, embedding_size, own.dtype)
        given, state = tf.nn.static_rnn(copy.deepcopy(cell), vectors, dtype=kind)
        memory = tf.concat([tf.reshape(e, [-1, 1, cell.output_size]) for e in given], 1)
        size, decoding = None, cell
        if output_projection is None:
            size, decoding = num_decoder_symbols, OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeds: bool, reuse: bool | None, update: bool) -> tuple[list[Any], Any]:
            with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
                return embedding_attention_decoder(
                    decoder_inputs,
                    state,
                    memory,
                    decoding,
                    num_decoder_symbols,
                    embedding_size,
                    num_heads,
                    size,
                    output_projection,
                    feeds,
                    update,
                    initial_state_attention=initial_state_attention,
                )

        if isinstance(feed_previous, bool):
            return decode(feed_previous, None, True)

        def flat(feeds: bool, reuse: bool | None) -> list[Any]:
            outputs, last = decode(feeds, reuse, False)
            return [*outputs, *nest.flatten(last)]

        found = tf.cond(feed_previous, lambda: flat(True, None), lambda: flat(False, True))
        count = len(decoder_inputs)
        return list(found[:count]), nest.pack_sequence_as(state, found[count:])


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Any,
    softmax_loss_function: Any = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """Make a model for each bucket, a pair of lengths, of the same variables.

    Args:
        encoder_inputs, decoder_inputs: lists of int [batch].
        targets: a list of int [batch].
        weights: a list of float [batch].
        buckets: pairs of how many steps are encoded and decoded, the longest last.
        seq2seq: makes the outputs and the state of inputs that are encoded and decoded.
        softmax_loss_function: as for `sequence_loss`.
        per_example_loss: give losses [batch] and not numbers.

    Returns:
        The outputs and the loss of each bucket.

    Raises:
        ValueError: the lists are shorter than the last bucket.
    """
    for given, length, what in (
        (encoder_inputs, buckets[-1][0], "encoder_inputs"),
        (targets, buckets[-1][1], "targets"),
        (weights, buckets[-1][1], "weights"),
    ):
        if len(given) < length:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last bucket ({length}).")
    judge = sequence_loss_by_example if per_example_loss else sequence_loss
    all_outputs, losses = [], []
    with tf.name_scope(name, "model_with_buckets"):
        for number, (encoded, decoded) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if number else None):
                outputs, _ = seq2seq(list(encoder_inputs[:encoded]), list(decoder_inputs[:decoded]))
                all_outputs.append(outputs)
                losses.append(
                    judge(outputs, targets[:decoded], weights[:decoded], softmax_loss_function=softmax_loss_function)
                )
    return all_outputs, losses


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
