"""Datasets of ragged, sparse and optional elements against stock TensorFlow's, and what they refuse."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.names.datasets_programs import PROGRAMS, elements, plain, words
from tests.unit.names.programs import expected

WANT = expected("datasets")


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as opened:
        yield opened


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_dataset_has_tensorflows_elements(name: str) -> None:
    (want,) = base64.b64decode(WANT[name][0]["strings"][0]).decode().splitlines()
    # Recorded where shapes have numbers; those of TF1 programs show dimensions.
    assert [re.sub(r"Dimension\((\w+)\)", r"\1", said) for said in PROGRAMS[name](tf)] == [want]
    assert set(WANT) == set(PROGRAMS)


def test_ragged_values_of_a_generator() -> None:
    """Stock TensorFlow takes them of eager tensors only."""
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    values = [tf.ragged.constant_value([[1, 2], [3]]), tf.ragged.constant_value([[4]])]
    dataset = tf.data.Dataset.from_generator(lambda: iter(values), output_signature=spec)
    assert elements(tf, dataset) == [{"ragged": [[1, 2], [3]]}, {"ragged": [[4]]}]
    wrong = tf.data.Dataset.from_generator(lambda: iter([[1]]), output_signature=spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
        elements(tf, wrong)


def test_sparse_batches_refuse_what_does_not_fit() -> None:
    with pytest.raises(tf.errors.DataLossError, match="larger than the row shape"):
        elements(tf, words(tf).sparse_batch(2, [2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible with the row shape"):
        elements(tf, words(tf).sparse_batch(2, [2, 2]))
    with pytest.raises(TypeError, match="elements have a single component"):
        tf.data.Dataset.range(3).map(lambda n: (n, n)).sparse_batch(2, [2])


def test_elements_of_unknown_rank_are_batched_as_tensors() -> None:
    dataset = tf.data.Dataset.from_generator(lambda: ([i] * i for i in range(3)), tf.int32).ragged_batch(2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="different shapes"):
        elements(tf, dataset)


def test_sparse_elements_are_not_padded() -> None:
    rows = tf.data.Dataset.from_tensor_slices(tf.SparseTensor([[0, 1]], [1.0], [2, 4]))
    with pytest.raises(TypeError, match="only supported for datasets that produce tensor elements"):
        rows.padded_batch(2, [4])


def test_rows_of_ragged_rows_are_not_taken_apart() -> None:
    with pytest.raises(ValueError, match="no ragged rows"):
        words(tf).ragged_batch(2).unbatch().unbatch()


def test_an_iterator_refuses_elements_of_another_kind() -> None:
    ragged, sparse = words(tf).ragged_batch(2), words(tf).sparse_batch(2, [6])
    iterator = tf.data.Iterator.from_structure(tf.int64, [None, 6], output_classes=tf.SparseTensor)
    iterator.make_initializer(sparse)
    for other in (ragged, words(tf)):
        with pytest.raises(TypeError, match="Expected output classes"):
            iterator.make_initializer(other)
    with pytest.raises(TypeError, match="Expected output types"):
        iterator.make_initializer(sparse.map(lambda s: tf.cast(s, tf.float32)))
    with pytest.raises(TypeError, match="get_output_classes"):
        tf.data.Iterator.from_structure(tf.int64, output_classes=dict)
    with pytest.raises(TypeError, match="incompatible types"):
        ragged.concatenate(sparse)
    for dense, other in ((words(tf), sparse), (tf.data.Dataset.range(2), words(tf).map(lambda _: 1.0))):
        with pytest.raises(TypeError, match="incompatible types"):
            dense.concatenate(other)


def test_a_value_that_is_not_there_cannot_be_taken() -> None:
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(0))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
        session.run(iterator.get_next_as_optional().get_value())


def test_optionals_have_the_names_of_tensorflow_1() -> None:
    empty = tf.data.experimental.Optional.none_from_structure(tf.TensorSpec([], tf.int32))
    assert empty.value_structure == empty.element_spec == tf.TensorSpec([], tf.int32)
    assert tf.experimental.Optional is tf.data.experimental.Optional


def test_sparse_batches_feed_linear_models() -> None:
    """A TF1 program: sentences to sparse ids, batched, into an embedding."""
    sentences = tf.data.Dataset.from_tensor_slices(np.array([[1, 0], [2, 3], [3, 3]]))
    batches = sentences.map(lambda ids: tf.boolean_mask(ids, ids > 0)).sparse_batch(2, [2])
    ids = tf.data.make_one_shot_iterator(batches).get_next()
    table = tf.constant([[0.0], [1.0], [10.0], [100.0]])
    total = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum")
    with tf.Session() as session:
        assert plain(session.run(total)) == [[1.0], [110.0]]
        assert plain(session.run(total)) == [[200.0]]
