"""Models with tables, whose gradients are rows: word2vec, DeepFM, wide and deep; and small networks of many steps."""

from __future__ import annotations

from typing import Any

from benchmarks.programs.zoo import Model, dense, numbers, randomly, weights


def word2vec(tf: Any, batch: int) -> Model:
    """Skip-grams with NCE, 50,000 words of 128, 64 sampled; gradient descent."""
    words, size = 50_000, 128
    inputs, labels = tf.placeholder(tf.int32, [batch]), tf.placeholder(tf.int64, [batch, 1])
    embedded = tf.nn.embedding_lookup(weights(tf, "table", words, size), inputs)
    losses = tf.nn.nce_loss(
        weights=weights(tf, "nce_table", words, size),
        biases=weights(tf, "nce_biases", words),
        labels=labels,
        inputs=embedded,
        num_sampled=64,
        num_classes=words,
        # The same numbers on both sides.
        sampled_values=_sampled(tf, labels, words, 64),
    )
    loss = tf.reduce_mean(losses)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    feeds = {inputs: numbers("words", words, batch), labels: numbers("context", words, batch, 1)}
    return Model(loss, [train], feeds, forward=embedded)


def _sampled(tf: Any, labels: Any, words: int, count: int) -> Any:
    return tf.nn.log_uniform_candidate_sampler(labels, 1, count, True, words, seed=3)


def _looked_up(tf: Any, ids: Any, fields: int, size: int, name: str) -> Any:
    table = weights(tf, name, fields * 1000, size)
    return tf.nn.embedding_lookup(table, ids)


def deepfm(tf: Any, batch: int) -> Model:
    """A factorization machine beside three dense layers, 39 fields of 1000 values, 16 wide; Adagrad."""
    fields, size = 39, 16
    ids, values = tf.placeholder(tf.int32, [batch, fields]), tf.placeholder(tf.float32, [batch, fields])
    labels = tf.placeholder(tf.float32, [batch])
    once = tf.reduce_sum(tf.reshape(_looked_up(tf, ids, fields, 1, "once_table"), [batch, fields]) * values, 1)
    embedded = _looked_up(tf, ids, fields, size, "table") * tf.expand_dims(values, 2)
    total = tf.square(tf.reduce_sum(embedded, 1))
    pairs = 0.5 * tf.reduce_sum(total - tf.reduce_sum(tf.square(embedded), 1), 1)
    deep = tf.reshape(embedded, [batch, fields * size])
    for n, units in enumerate((256, 128, 64)):
        deep = dense(tf, deep, units, f"deep{n}", tf.nn.relu)
    logits = once + pairs + tf.reshape(dense(tf, deep, 1, "out"), [-1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))
    train = tf.train.AdagradOptimizer(0.01, 1e-8 + 0.1).minimize(loss)
    feeds = {
        ids: numbers("fields", 1000, batch, fields) + 1000 * numbers("zero", 1, fields),
        values: abs(randomly("values", batch, fields)),
        labels: numbers("labels", 2, batch).astype("f4"),
    }
    return Model(loss, [train], feeds, forward=tf.sigmoid(logits))


def wide_and_deep(tf: Any, batch: int) -> Model:
    """A linear model over crossed columns with Ftrl beside dense layers over embeddings with Adagrad."""
    fields, size, numeric = 8, 8, 5
    ids, crossed = (tf.placeholder(tf.int64, [batch, fields]) for _ in range(2))
    x, labels = tf.placeholder(tf.float32, [batch, numeric]), tf.placeholder(tf.float32, [batch, 1])
    with tf.variable_scope("wide"):
        wide = tf.reduce_sum(tf.gather(weights(tf, "table", 10_000, 1), crossed), 1) + weights(tf, "bias", 1)
    with tf.variable_scope("deep"):
        tables = [weights(tf, f"table{n}", 1000, size) for n in range(fields)]
        deep = tf.concat([*(tf.nn.embedding_lookup(t, ids[:, n]) for n, t in enumerate(tables)), x], 1)
        for n, units in enumerate((100, 75, 50, 25)):
            deep = dense(tf, deep, units, f"layer{n}", tf.nn.relu)
        deep = dense(tf, deep, 1, "out")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=wide + deep, labels=labels))
    optimizers = {"wide": tf.train.FtrlOptimizer(0.1), "deep": tf.train.AdagradOptimizer(0.05)}
    train = tf.group(
        *(
            optimizer.minimize(loss, var_list=[v for v in tf.trainable_variables() if v.op.name.startswith(part)])
            for part, optimizer in optimizers.items()
        )
    )
    feeds = {
        ids: numbers("ids", 1000, batch, fields).astype("i8"),
        crossed: numbers("crossed", 10_000, batch, fields).astype("i8"),
        x: randomly("numeric", batch, numeric),
        labels: numbers("labels", 2, batch, 1).astype("f4"),
    }
    return Model(loss, [train], feeds, forward=wide + deep)


def dqn(tf: Any, batch: int) -> Model:
    """Deep Q-learning as for CartPole: learn from a few steps beside a network that stays; Adam, Huber's loss."""
    states, next_states = (tf.placeholder(tf.float32, [None, 4]) for _ in range(2))
    actions, rewards = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])

    def network(x: Any, name: str) -> Any:
        with tf.variable_scope(name):
            return dense(tf, dense(tf, dense(tf, x, 64, "d1", tf.nn.relu), 64, "d2", tf.nn.relu), 2, "out")

    now, later = network(states, "online"), network(next_states, "target")
    goal = tf.stop_gradient(rewards + 0.99 * tf.reduce_max(later, 1))
    taken = tf.reduce_sum(now * tf.one_hot(actions, 2), 1)
    loss = tf.reduce_mean(tf.losses.huber_loss(goal, taken))
    online = [v for v in tf.trainable_variables() if v.op.name.startswith("online")]
    train = tf.train.AdamOptimizer(1e-3).minimize(loss, var_list=online)
    action = tf.argmax(now, 1)
    feeds = {
        states: randomly("states", batch, 4),
        next_states: randomly("next", batch, 4),
        actions: numbers("actions", 2, batch),
        rewards: randomly("rewards", batch),
    }
    return Model(loss, [train], feeds, forward=action)
