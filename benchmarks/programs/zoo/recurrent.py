"""Recurrent models: LSTMs in a loop and unrolled, GRUs by `dynamic_rnn` in both directions, and seq2seq."""

from __future__ import annotations

from typing import Any

from benchmarks.programs.zoo import Model, dense, numbers, randomly, sizes, weights

_CLASSES = 10


class Gru:
    """A cell as programs write their own: called with an input and a state, gives an output and the next state."""

    def __init__(self, tf: Any, units: int) -> None:
        self.tf = tf
        self.state_size = self.output_size = units

    def zero_state(self, batch: int, dtype: Any) -> Any:
        return self.tf.zeros([batch, self.state_size], dtype)

    def __call__(self, x: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        tf, units = self.tf, self.state_size
        with tf.variable_scope(scope or "gru", reuse=tf.AUTO_REUSE):
            gates = tf.sigmoid(dense(tf, tf.concat([x, state], 1), 2 * units, "gates"))
            reset, update = tf.split(gates, 2, 1)
            candidate = tf.tanh(dense(tf, tf.concat([x, reset * state], 1), units, "candidate"))
            state = update * state + (1 - update) * candidate
        return state, state


def _lstm(tf: Any, x: Any, cell: Any, hidden: Any, units: int, name: str) -> tuple[Any, Any]:
    """Make one step of an LSTM; the next cell and its output."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        gates = dense(tf, tf.concat([x, hidden], 1), 4 * units, "gates")
    i, j, f, o = tf.split(gates, 4, 1)
    cell = cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
    return cell, tf.tanh(cell) * tf.sigmoid(o)


def _classified(tf: Any, x: Any, hidden: Any, batch: int, shape: tuple[int, ...]) -> Model:
    logits = dense(tf, hidden, _CLASSES, "logits")
    labels = numbers("labels", _CLASSES, batch)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return Model(loss, [tf.train.AdamOptimizer(1e-3).minimize(loss)], {x: randomly("x", *shape)}, forward=logits)


def lstm_loop(tf: Any, batch: int) -> Model:
    """An LSTM of 128 over 28 rows of 28 in a `while_loop`; Adam."""
    units, steps, size = 128, 28, 28
    x = tf.placeholder(tf.float32, [batch, steps, size])
    rows = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2]))
    with tf.variable_scope("cell/gates"):
        w, b = weights(tf, "w", size + units, 4 * units), weights(tf, "b", 4 * units)

    def body(at: Any, cell: Any, hidden: Any) -> tuple[Any, Any, Any]:
        row = rows.read(at)
        row.set_shape([batch, size])
        i, j, f, o = tf.split(tf.matmul(tf.concat([row, hidden], 1), w) + b, 4, 1)
        cell = cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return at + 1, cell, tf.tanh(cell) * tf.sigmoid(o)

    zeros = tf.zeros([batch, units])
    _, _, hidden = tf.while_loop(lambda at, *_: at < steps, body, (0, zeros, zeros))
    return _classified(tf, x, hidden, batch, (batch, steps, size))


def sentences(tf: Any, batch: int) -> Model:
    """A GRU by `dynamic_rnn` over words of sentences that end early; 40 batches of 8 to 40 words; clipped Adam."""
    units, words = 128, 2000
    tokens = tf.placeholder(tf.int32, [batch, None])
    ends, labels = tf.placeholder(tf.int32, [batch]), tf.placeholder(tf.int32, [batch])
    x = tf.nn.embedding_lookup(weights(tf, "table", words, units), tokens)
    _, last = tf.nn.dynamic_rnn(Gru(tf, units), x, ends, dtype=tf.float32)
    logits = dense(tf, last, _CLASSES, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = tf.train.AdamOptimizer(1e-3).apply_gradients(list(zip(gradients, variables)))
    others = [
        {tokens: numbers(f"tokens{n}", words, batch, n), ends: numbers(f"ends{n}", n, batch) + 1}
        for n in sizes(40, 8, 40)
    ]
    return Model(loss, [train], {labels: numbers("labels", _CLASSES, batch)}, others, logits)


def lstm_unrolled(tf: Any, batch: int) -> Model:
    """Two LSTMs of 128 over 20 rows of 32, unrolled; Adam."""
    units, steps, size = 128, 20, 32
    x = tf.placeholder(tf.float32, [batch, steps, size])
    zeros = tf.zeros([batch, units])
    states = [(zeros, zeros)] * 2
    for row in tf.unstack(x, axis=1):
        layer = row
        for n in range(2):
            states[n] = _lstm(tf, layer, *states[n], units, f"lstm{n}")
            layer = states[n][1]
    return _classified(tf, x, layer, batch, (batch, steps, size))


def gru(tf: Any, batch: int) -> Model:
    """A GRU of 64 by `dynamic_rnn` over rows of different lengths; Adam."""
    steps, size = 20, 32
    x = tf.placeholder(tf.float32, [batch, steps, size])
    lengths = numbers("lengths", steps, batch) + 1
    _, state = tf.nn.dynamic_rnn(Gru(tf, 64), x, lengths, dtype=tf.float32)
    return _classified(tf, x, state, batch, (batch, steps, size))


def bidirectional(tf: Any, batch: int) -> Model:
    """Two GRUs of 64 by `bidirectional_dynamic_rnn`, all of their outputs averaged; Adam."""
    steps, size = 20, 32
    x = tf.placeholder(tf.float32, [batch, steps, size])
    lengths = numbers("lengths", steps, batch) + 1
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(Gru(tf, 64), Gru(tf, 64), x, lengths, dtype=tf.float32)
    return _classified(tf, x, tf.reduce_mean(tf.concat(outputs, 2), 1), batch, (batch, steps, size))


def seq2seq(tf: Any, batch: int) -> Model:
    """Two GRUs of 64 with additive attention and teacher forcing, 12 words to 10; Adam with clipped norms."""
    units, words, source, target = 64, 500, 12, 10
    read = tf.placeholder(tf.int32, [batch, source])
    written = tf.placeholder(tf.int32, [batch, target])
    table = weights(tf, "table", words, units)
    memory, state = tf.nn.dynamic_rnn(Gru(tf, units), tf.nn.embedding_lookup(table, read), dtype=tf.float32)
    keys = tf.reshape(
        tf.matmul(tf.reshape(memory, [-1, units]), weights(tf, "keys", units, units)), [-1, source, units]
    )
    score, ask = weights(tf, "score", units, 1), weights(tf, "ask", units, units)
    decoder = Gru(tf, units)
    inputs = tf.nn.embedding_lookup(table, written)
    outputs = []
    for n in range(target - 1):
        query = tf.expand_dims(tf.matmul(state, ask), 1)
        scores = tf.reshape(tf.matmul(tf.reshape(tf.tanh(keys + query), [-1, units]), score), [batch, source])
        context = tf.reduce_sum(tf.expand_dims(tf.nn.softmax(scores), 2) * memory, 1)
        _, state = decoder(tf.concat([inputs[:, n], context], 1), state, "decoder")
        outputs.append(state)
    logits = dense(tf, tf.reshape(tf.stack(outputs, 1), [batch * (target - 1), units]), words, "logits")
    labels = tf.reshape(written[:, 1:], [-1])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = tf.train.AdamOptimizer(1e-3).apply_gradients(list(zip(gradients, variables)))
    feeds = {read: numbers("read", words, batch, source), written: numbers("written", words, batch, target)}
    return Model(loss, [train], feeds, forward=logits)
