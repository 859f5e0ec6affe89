"""`tf.feature_column`: every kind of column through `input_layer` and `linear_model`, trained."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

GENDERS = ["female", "male", "other"]
PEOPLE = {
    "age": np.array([[23.0], [41.5], [65.0], [17.0]], np.float32),
    "scores": np.array([[0.1, 0.9], [0.4, 0.2], [1.5, -2.0], [0.0, 0.0]], np.float32),
    "gender": np.array([["female"], ["male"], ["other"], ["unknown"]]),
    "tags": np.array([["red", "blue"], ["blue", ""], ["green", "red"], ["", ""]]),
    "city": np.array([[3], [1], [0], [4]], np.int64),
}


def _fed(tf: Any) -> Any:
    kinds = {"age": tf.float32, "scores": tf.float32, "gender": tf.string, "tags": tf.string, "city": tf.int64}
    features = {k: tf.placeholder(t, [None, PEOPLE[k].shape[1]], name=k) for k, t in sorted(kinds.items())}
    return features, {features[k]: PEOPLE[k] for k in features}


def _spread(tf: Any, size: float = 0.2) -> Any:
    def make(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        wanted = [int(n) for n in shape]
        return tf.constant(np.cos(np.arange(int(np.prod(wanted))) + 1.0).reshape(wanted) * size, tf.float32)

    return make


def dense_columns(tf: Any) -> Any:
    fc = tf.feature_column
    features, feed = _fed(tf)
    age = fc.numeric_column("age", normalizer_fn=lambda x: x / 100.0)
    raw = fc.numeric_column("scores", shape=(2,))
    buckets = fc.bucketized_column(fc.numeric_column("age"), [18, 25, 30, 35, 60])
    both = fc.bucketized_column(raw, [0.0, 0.5])
    gender = fc.indicator_column(fc.categorical_column_with_vocabulary_list("gender", GENDERS))
    tags = fc.embedding_column(
        fc.categorical_column_with_hash_bucket("tags", 10), 3, initializer=_spread(tf), combiner="sum"
    )
    city = fc.indicator_column(fc.categorical_column_with_identity("city", 4, default_value=0))
    seen = {}
    layer = fc.input_layer(features, [age, raw, buckets, gender, tags, city], cols_to_vars=seen)
    other = fc.input_layer({"scores": features["scores"]}, both)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(layer, 1, kernel_initializer=_spread(tf)) - 1.0))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    names = tf.constant([v.name for v in seen[tags]])
    return [(tf.tables_initializer(), {}), ([layer, other, names], feed), *[([train, loss], feed)] * 4]


def wide_columns(tf: Any) -> Any:
    """A linear model of ids: looked up, crossed, weighted, in buckets."""
    fc = tf.feature_column
    features, feed = _fed(tf)
    features["weight"] = tf.constant([[0.5, 2.0], [1.0, 0.0], [3.0, 0.25], [0.0, 0.0]])
    buckets = fc.bucketized_column(fc.numeric_column("age"), [18, 25, 30, 35, 60])
    gender = fc.categorical_column_with_vocabulary_list("gender", GENDERS, num_oov_buckets=2)
    tags = fc.categorical_column_with_hash_bucket("tags", 10)
    columns = [
        buckets,
        gender,
        fc.weighted_categorical_column(tags, "weight"),
        fc.crossed_column([buckets, "gender"], 20),
        fc.crossed_column(
            [fc.crossed_column(["gender", "tags"], 7), fc.categorical_column_with_identity("city", 5)], 9
        ),
        fc.numeric_column("scores", shape=2),
    ]
    logits = fc.linear_model(features, columns, units=2)
    mean = fc.linear_model(features, [gender, tags], sparse_combiner="mean")
    labels = tf.one_hot([0, 1, 1, 0], 2)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)) + tf.reduce_sum(
        mean
    )
    train = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)
    return [(tf.tables_initializer(), {}), *[([train, loss, logits, mean], feed)] * 4]


def shared_columns(tf: Any) -> Any:
    """Embeddings that share a matrix, weighted ids, and a vocabulary in a file."""
    fc = tf.feature_column
    path = os.path.join(tempfile.mkdtemp(), "words.txt")
    with open(path, "w") as file:
        file.write("a\nb\nc\nd\n")
    watched = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 1]], ["a", "c", "d", "zz"], [3, 2])
    bought = tf.SparseTensor([[0, 0], [2, 0]], ["b", "a"], [3, 2])
    amount = tf.SparseTensor([[0, 0], [2, 0]], [0.5, 4.0], [3, 2])
    first = fc.categorical_column_with_vocabulary_file("watched", path, vocabulary_size=4, num_oov_buckets=1)
    second = fc.weighted_categorical_column(
        fc.categorical_column_with_vocabulary_file("bought", path, 4, num_oov_buckets=1), "amount"
    )
    features = {"watched": watched, "bought": bought, "amount": amount}
    columns = fc.shared_embedding_columns([first, second], 2, initializer=_spread(tf), max_norm=0.3)
    layer = fc.input_layer(features, [*columns, fc.indicator_column(second)])
    loss = tf.reduce_sum(tf.square(layer))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    spec = fc.make_parse_example_spec([first, second])
    keys = tf.constant([f"{k} {spec[k].dtype.name}" for k in sorted(spec)])
    return [(tf.tables_initializer(), {}), ([layer, keys], {}), *[([train, loss], {})] * 3]


def parsed_columns(tf: Any) -> Any:
    """Examples parsed by the columns' own spec, as an input function does."""
    fc = tf.feature_column
    columns = [
        fc.numeric_column("x", shape=(2,), default_value=[1.0, 2.0]),
        fc.indicator_column(fc.categorical_column_with_hash_bucket("word", 5)),
        fc.embedding_column(fc.categorical_column_with_identity("id", 3), 2, initializer=_spread(tf)),
    ]
    examples = []
    for x, words, ids in [([0.5, 1.5], [b"a", b"b"], [0]), (None, [], [2, 2]), ([3.0, 4.0], [b"a"], [])]:
        example = tf.train.Example()
        if x is not None:
            example.features.feature["x"].float_list.value.extend(x)
        example.features.feature["word"].bytes_list.value.extend(words)
        example.features.feature["id"].int64_list.value.extend(ids)
        examples.append(example.SerializeToString())
    parsed = tf.parse_example(tf.constant(examples), fc.make_parse_example_spec(columns))
    with tf.variable_scope("net"):
        layer = fc.input_layer(parsed, columns)
    with tf.variable_scope("net", reuse=True):
        again = fc.input_layer(parsed, columns)
    return [([layer, again], {})]


def sequence_columns(tf: Any) -> Any:
    fc = tf.feature_column
    sequences = tf.contrib.feature_column
    words = sequences.sequence_categorical_column_with_vocabulary_list("words", ["a", "b", "c"])
    columns = [
        fc.embedding_column(words, 2, initializer=_spread(tf)),
        sequences.sequence_numeric_column("x"),
    ]
    features = {
        "words": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["c", "a", "b"], [2, 2]),
        "x": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2]),
    }
    made, length = sequences.sequence_input_layer(features, columns)
    counted, _ = sequences.sequence_input_layer(features, fc.indicator_column(words))
    return [(tf.tables_initializer(), {}), ([made, length, counted], {})]
