"""Models with attention: a Transformer, an encoder as BERT's with its loss, and graph attention of two kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.zoo import Model, dense, numbers, randomly, sizes, weights


def _normalized(tf: Any, x: Any, name: str) -> Any:
    """Normalize each row, as programs of before `tf.contrib.layers.layer_norm` and after it write it."""
    with tf.variable_scope(name):
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        size = int(x.shape[-1])
        return (x - mean) * tf.rsqrt(variance + 1e-6) * weights(tf, "scale", size) + weights(tf, "offset", size)


def _gelu(tf: Any, x: Any) -> Any:
    """Activate as BERT does."""
    return x * 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))


def _attended(tf: Any, x: Any, batch: int, length: int, heads: int, mask: Any, name: str) -> Any:
    """Let each position look at all others; x has two dimensions."""
    width = int(x.shape[-1])
    size = width // heads

    def split(y: Any) -> Any:
        return tf.transpose(tf.reshape(y, [batch, length, heads, size]), [0, 2, 1, 3])

    with tf.variable_scope(name):
        query, key, value = (split(dense(tf, x, width, part)) for part in ("query", "key", "value"))
        scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(size).astype(np.float32)
        if mask is not None:
            scores = scores + mask
        context = tf.matmul(tf.nn.softmax(scores), value)
        return dense(tf, tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch * length, width]), width, "out")


def _block(tf: Any, x: Any, batch: int, length: int, heads: int, mask: Any, activation: Any, name: str) -> Any:
    with tf.variable_scope(name):
        x = _normalized(tf, x + _attended(tf, x, batch, length, heads, mask, "attention"), "first")
        inner = dense(tf, x, 4 * int(x.shape[-1]), "wide", activation)
        return _normalized(tf, x + dense(tf, inner, int(x.shape[-1]), "narrow"), "second")


def transformer(tf: Any, batch: int) -> Model:
    """A language model: 2 layers, 4 heads, 128 wide, 64 tokens a row, Adam."""
    length, width, words = 64, 128, 1000
    tokens = tf.placeholder(tf.int32, [batch, length])
    table = weights(tf, "table", words, width)
    x = tf.nn.embedding_lookup(table, tokens) * np.float32(np.sqrt(width)) + weights(tf, "places", length, width)
    x = tf.reshape(x, [batch * length, width])
    later = np.triu(np.full((length, length), -1e9, np.float32), 1)
    for n in range(2):
        x = _block(tf, x, batch, length, 4, later, lambda y: _gelu(tf, y), f"layer{n}")
    logits = tf.reshape(tf.matmul(x, table, transpose_b=True), [batch, length, words])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits[:, :-1])
    loss = tf.reduce_mean(losses)
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return Model(loss, [train], {tokens: numbers("tokens", words, batch, length)}, forward=logits)


def lengths(tf: Any, batch: int) -> Model:
    """An encoder over sentences that are padded to the longest of their batch: 40 batches of 16 to 64 tokens; Adam."""
    width, words, heads = 128, 1000, 4
    tokens = tf.placeholder(tf.int32, [batch, None])
    labels = tf.placeholder(tf.int32, [batch])
    length = tf.shape(tokens)[1]
    x = tf.nn.embedding_lookup(weights(tf, "table", words, width), tokens) + weights(tf, "places", 64, width)[:length]
    x = tf.reshape(x, [batch * length, width])
    x.set_shape([None, width])
    padding = tf.cast(tf.equal(tokens, 0), tf.float32)[:, None, None, :] * -1e9
    for n in range(2):
        x = _block(tf, x, batch, length, heads, padding, lambda y: _gelu(tf, y), f"layer{n}")
    logits = dense(tf, tf.reduce_mean(tf.reshape(x, [batch, length, width]), 1), 10, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    others = [{tokens: numbers(f"tokens{n}", words, batch, n)} for n in sizes(40, 16, 64)]
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return Model(loss, [train], {labels: numbers("labels", 10, batch)}, others, logits)


def bert(tf: Any, batch: int) -> Model:
    """An encoder with masks, segments and both of BERT's losses: 2 layers, 2 heads, 128 wide; Adam, clipped norms."""
    length, width, words, masked = 64, 128, 2000, 10
    ids, segments = (tf.placeholder(tf.int32, [batch, length]) for _ in range(2))
    mask = tf.placeholder(tf.float32, [batch, length])
    places = tf.placeholder(tf.int32, [batch, masked])
    answers, following = tf.placeholder(tf.int32, [batch, masked]), tf.placeholder(tf.int32, [batch])
    keep = tf.placeholder(tf.float32, [batch * length, width])
    table = weights(tf, "table", words, width)
    x = tf.gather(table, ids) + tf.reshape(
        tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), 2), weights(tf, "segments", 2, width)), [batch, length, width]
    )
    x = x + tf.expand_dims(weights(tf, "places", length, width), 0)
    x = _normalized(tf, tf.reshape(x, [batch * length, width]), "input") * keep
    hidden = (1.0 - tf.reshape(mask, [batch, 1, 1, length])) * -10000.0
    for n in range(2):
        x = _block(tf, x, batch, length, 2, hidden, lambda y: _gelu(tf, y), f"layer{n}")
    flat = tf.reshape(places + tf.reshape(tf.range(batch) * length, [-1, 1]), [-1])
    chosen = dense(tf, tf.gather(x, flat), width, "transform", lambda y: _gelu(tf, y))
    logits = tf.matmul(_normalized(tf, chosen, "transformed"), table, transpose_b=True) + weights(tf, "words", words)
    truth = tf.one_hot(tf.reshape(answers, [-1]), words)
    loss = tf.reduce_mean(-tf.reduce_sum(tf.nn.log_softmax(logits) * truth, axis=-1))
    first = tf.reshape(x, [batch, length, width])[:, 0]
    pooled = dense(tf, first, width, "pooler", tf.tanh)
    next_logits = dense(tf, pooled, 2, "next")
    loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=next_logits))
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    train = tf.train.AdamOptimizer(1e-4).apply_gradients(list(zip(gradients, variables)))
    feeds = {
        ids: numbers("ids", words, batch, length),
        segments: numbers("segments", 2, batch, length),
        mask: (numbers("mask", 10, batch, length) > 0).astype("f4"),
        places: numbers("places", length, batch, masked),
        answers: numbers("answers", words, batch, masked),
        following: numbers("following", 2, batch),
        keep: (numbers("keep", 10, batch * length, width) > 0).astype("f4") / 0.9,
    }
    return Model(loss, [train], feeds, forward=pooled)


def _graph(nodes: int, edges: int) -> tuple[Any, Any]:
    """Make the edges of a graph, sorted as sparse tensors want them, each node with one to itself."""
    pairs = numbers("edges", nodes, edges, 2)
    own = np.stack([np.arange(nodes)] * 2, 1)
    found = np.unique(np.concatenate([pairs, own]), axis=0).astype(np.int64)
    return found[:, 0], found[:, 1]


def graph_attention(tf: Any, batch: int) -> Model:
    """Graph attention over a dense matrix: `batch` nodes, 8 heads of 8, then classes; Adam and L2."""
    nodes, features, classes = batch, 128, 7
    rows, columns = _graph(nodes, 4 * nodes)
    bias = np.full((1, nodes, nodes), -1e9, np.float32)
    bias[0, rows, columns] = 0
    x = tf.placeholder(tf.float32, [1, nodes, features])
    mask = tf.placeholder(tf.float32, [1, nodes, nodes])

    def head(y: Any, size: int, activation: Any, name: str) -> Any:
        with tf.variable_scope(name):
            made = tf.nn.conv1d(y, weights(tf, "w", 1, int(y.shape[-1]), size), 1, "VALID")
            here = tf.nn.conv1d(made, weights(tf, "here", 1, size, 1), 1, "VALID") + weights(tf, "b1", 1)
            there = tf.nn.conv1d(made, weights(tf, "there", 1, size, 1), 1, "VALID") + weights(tf, "b2", 1)
            scores = tf.nn.softmax(tf.nn.leaky_relu(here + tf.transpose(there, [0, 2, 1])) + mask)
            return activation(tf.matmul(scores, made) + weights(tf, "b", size))

    hidden = tf.concat([head(x, 8, tf.nn.elu, f"head{n}") for n in range(8)], -1)
    logits = tf.reshape(head(hidden, classes, tf.identity, "out"), [nodes, classes])
    truth = np.eye(classes, dtype="f4")[numbers("classes", classes, nodes)]
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=truth, logits=logits))
    loss += 5e-4 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if len(v.shape) > 1])
    train = tf.train.AdamOptimizer(5e-3).minimize(loss)
    return Model(loss, [train], {x: randomly("nodes", 1, nodes, features), mask: bias}, forward=logits)


def sparse_graph_attention(tf: Any, batch: int) -> Model:
    """Graph attention over a graph's edges by sparse tensors: `batch` nodes, 4 heads of 8; Adam."""
    nodes, features, classes = batch, 128, 7
    rows, columns = _graph(nodes, 4 * nodes)
    x = tf.placeholder(tf.float32, [nodes, features])
    indices = np.stack([rows, columns], 1)

    def head(y: Any, size: int, activation: Any, name: str) -> Any:
        with tf.variable_scope(name):
            made = tf.matmul(y, weights(tf, "w", int(y.shape[-1]), size))
            here = tf.reshape(tf.matmul(made, weights(tf, "here", size, 1)), [-1])
            there = tf.reshape(tf.matmul(made, weights(tf, "there", size, 1)), [-1])
            scores = tf.nn.leaky_relu(tf.gather(here, rows) + tf.gather(there, columns))
            attention = tf.sparse_softmax(tf.SparseTensor(indices, scores, [nodes, nodes]))
            return activation(tf.sparse_tensor_dense_matmul(attention, made) + weights(tf, "b", size))

    hidden = tf.concat([head(x, 8, tf.nn.elu, f"head{n}") for n in range(4)], -1)
    logits = head(hidden, classes, tf.identity, "out")
    labels = numbers("classes", classes, nodes)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.AdamOptimizer(5e-3).minimize(loss)
    return Model(loss, [train], {x: randomly("nodes", nodes, features)}, forward=logits)
