"""`tf.feature_column`: what no comparison with TensorFlow shows: errors, unknown shapes, tables with more ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

WORDS = ["a", "b"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda fc: fc.numeric_column("x", shape=(0,)), "greater than 0"),
        (lambda fc: fc.numeric_column("x", dtype=tf.string), "convertible to float"),
        (lambda fc: fc.numeric_column("x", shape=(2,), default_value=[1.0]), "shape of default_value"),
        (lambda fc: fc.numeric_column(1), "must be a string"),
        (lambda fc: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), "sorted list"),
        (lambda fc: fc.bucketized_column(fc.categorical_column_with_identity("x", 2), [1]), "numeric_column"),
        (lambda fc: fc.categorical_column_with_hash_bucket("x", 0), "at least 1"),
        (lambda fc: fc.categorical_column_with_hash_bucket("x", 5, tf.float32), "string or integer"),
        (lambda fc: fc.categorical_column_with_vocabulary_list("x", []), "non-empty"),
        (lambda fc: fc.categorical_column_with_vocabulary_list("x", ["a", "a"]), "Duplicate keys"),
        (lambda fc: fc.categorical_column_with_vocabulary_list("x", WORDS, default_value=0, num_oov_buckets=1), "both"),
        (lambda fc: fc.categorical_column_with_vocabulary_list("x", WORDS, tf.int64), "do not match"),
        (lambda fc: fc.categorical_column_with_vocabulary_file("x", "/nowhere/words"), "does not exist"),
        (lambda fc: fc.categorical_column_with_identity("x", 2, default_value=2), "not in range"),
        (lambda fc: fc.crossed_column(["a"], 3), "length > 1"),
        (lambda fc: fc.crossed_column(["a", fc.categorical_column_with_hash_bucket("x", 5)], 3), "not supported"),
        (lambda fc: fc.embedding_column(fc.categorical_column_with_identity("x", 2), 0), "Invalid dimension"),
        (lambda fc: fc.embedding_column(fc.categorical_column_with_identity("x", 2), 2, initializer=3), "callable"),
        (lambda fc: fc.input_layer({"x": [[1]]}, fc.categorical_column_with_identity("x", 2)), "DenseColumn"),
        (lambda fc: fc.input_layer({"y": [[1.0]]}, fc.numeric_column("x")), "not in features dictionary"),
        (lambda fc: fc.input_layer({"x": 1.0}, fc.numeric_column("x")), "rank 0"),
        (lambda fc: fc.input_layer({"x": [[1.0]]}, [fc.numeric_column("x")] * 2), "Duplicate feature column name"),
        (lambda fc: fc.linear_model({"x": [[1.0]]}, []), "must not be empty"),
        (
            lambda fc: fc.shared_embedding_columns(
                [fc.categorical_column_with_identity("x", 2), fc.categorical_column_with_identity("y", 3)], 2
            ),
            "same number of buckets",
        ),
    ],
)
def test_what_is_wrong_fails_when_it_is_made(make: Any, said: str) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=said):
        make(tf.feature_column)


def test_ids_out_of_range_fail_in_the_step() -> None:
    fc = tf.feature_column
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int64, [None, 1])
        layer = fc.input_layer({"x": x}, fc.indicator_column(fc.categorical_column_with_identity("x", 3)))
        assert session.run(layer, {x: [[2], [0]]}).tolist() == [[0, 0, 1], [1, 0, 0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="exceeds number of buckets"):
            session.run(layer, {x: [[3]]})


def test_features_whose_rank_is_known_in_a_step_only() -> None:
    fc = tf.feature_column
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32)
        layer = fc.input_layer({"x": x}, fc.numeric_column("x", shape=1))
        assert session.run(layer, {x: [1.0, 2.0]}).tolist() == [[1], [2]]
        assert session.run(layer, {x: [[1.0], [2.0]]}).tolist() == [[1], [2]]


def test_weights_that_are_summed_may_be_negative() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 1, -1], tf.int64), [3, 2])
        weights = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [2.0, -1.0, 1.0], [3, 2])
        table = tf.constant([[1.0], [10.0]])
        found = {c: tf.nn.safe_embedding_lookup_sparse([table], ids, weights, combiner=c) for c in ("sum", "mean")}
        got = session.run(found)
    assert got["sum"].tolist() == [[-8], [0], [0]]
    assert got["mean"].tolist() == [[1], [0], [0]]


def test_embeddings_of_ids_of_more_dimensions() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.SparseTensor([[0, 0, 0], [1, 1, 0], [1, 1, 1]], tf.constant([1, 0, 1], tf.int64), [2, 2, 2])
        found = tf.nn.safe_embedding_lookup_sparse(tf.constant([[1.0], [10.0]]), ids, combiner="sum", default_id=0)
        assert session.run(found).tolist() == [[[10], [1]], [[1], [11]]]


@pytest.mark.parametrize("key_dtype", [tf.string, tf.int32])
def test_what_is_no_word_gets_one_of_some_more_ids(tmp_path: Path, key_dtype: Any) -> None:
    words = ["7", "8", "9"]
    (tmp_path / "words").write_text("\n".join(words))
    known: Any = words if key_dtype is tf.string else [7, 8, 9]
    asked = np.array([["8", "5"], ["7", "6"]]) if key_dtype is tf.string else np.array([[8, 5], [7, 6]], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [
            tf.lookup.index_table_from_tensor(known, num_oov_buckets=4, dtype=key_dtype),
            tf.lookup.index_table_from_file(str(tmp_path / "words"), num_oov_buckets=4, key_dtype=key_dtype),
        ]
        if key_dtype is tf.string:
            source = tf.lookup.KeyValueTensorInitializer(known, tf.range(3, dtype=tf.int64))
            tables.append(tf.lookup.StaticVocabularyTable(source, 4))
        hashed = 3 + tf.string_to_hash_bucket_fast(["5", "6"], 4)
        session.run(tf.tables_initializer())
        found, want = session.run([[t.lookup(tf.constant(asked)) for t in tables], hashed])
        assert {int(n) for n in session.run([t.size() for t in tables])} == {7}
    for ids in found:
        assert ids.tolist() == [[1, want[0]], [0, want[1]]]


def test_combinations_as_strings() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        crossed = tf.sparse.cross([tf.constant([["a", "b"]]), tf.constant([["x"]])])
        assert session.run(crossed).values.tolist() == [b"a_X_x", b"b_X_x"]
