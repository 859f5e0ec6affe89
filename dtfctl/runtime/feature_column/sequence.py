"""Columns of sequences, and the layer that takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.feature_column import categorical
from dtfctl.runtime.feature_column.column import (
    CategoricalColumn,
    FeatureColumn,
    Features,
    IdsAndWeights,
    SequenceDenseColumn,
    normalized,
    require_string_key,
)


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """Ids at each step of a sequence."""

    categorical_column: CategoricalColumn

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> Any:
        """Return the ids as they are in the feature."""
        return self.categorical_column.transform(features)

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        ids, weights = self.categorical_column.sparse_tensors(features)
        shape = tf.shape(ids)
        wanted = [shape[0], shape[1], tf.reduce_prod(shape[2:])]
        reshaped = None if weights is None else tf.sparse_reshape(weights, wanted)
        return IdsAndWeights(tf.sparse_reshape(ids, wanted), reshaped)


@dataclass(frozen=True)
class SequenceNumericColumn(SequenceDenseColumn):
    """Numbers at each step of a sequence."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape(self.shape)

    def transform(self, features: Features) -> Any:
        """Return the feature, its values normalized."""
        given = features.get(self.key)
        return given if self.normalizer_fn is None else self.normalizer_fn(given)

    def sequence_dense_tensor(
        self, features: Features, collections: Any = None, trainable: bool = True
    ) -> tuple[Any, Any]:
        given = features.get(self)
        dense = tf.sparse_tensor_to_dense(given, default_value=self.default_value)
        shape = tf.shape(dense)
        # A parsed example has its steps one behind the other.
        dense = tf.cast(tf.reshape(dense, tf.concat([shape[:1], [-1], list(self.shape)], 0)), tf.float32)
        dense.set_shape([None, None, *self.shape])
        per_step = self.variable_shape.num_elements() if given.shape.ndims == 2 else 1
        return dense, sequence_length(given, per_step or 1)


def sequence_length(sparse: Any, per_step: int = 1) -> Any:
    """Return the number of steps of each example, as int64."""
    with tf.name_scope(None, "sequence_length"):
        rows, columns = sparse.indices[:, 0], sparse.indices[:, 1]
        lengths = tf.segment_max(columns, rows) + 1
        lengths = tf.cast(tf.ceil(lengths / per_step), tf.int64)
        missing = tf.shape(sparse, out_type=tf.int64)[:1] - tf.shape(lengths, out_type=tf.int64)
        return tf.concat([lengths, tf.zeros(missing, tf.int64)], 0)


def sequence_input_layer(
    features: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True
) -> tuple[Any, Any]:
    """Make the input of a recurrent network.

    Returns:
        A float32 tensor [batch, longest, numbers] and the int64 lengths [batch].
    """
    columns = normalized(feature_columns)
    for column in columns:
        if not isinstance(column, SequenceDenseColumn):
            raise ValueError(
                "All feature_columns must be of type SequenceDenseColumn. You can wrap a "
                f"sequence_categorical_column with an embedding_column or indicator_column. Given: {column}"
            )
    collections = with_default_collections(weight_collections)
    with tf.variable_scope(None, default_name="sequence_input_layer", values=list(features.values())):
        source, outputs, lengths = Features(features), [], []
        for column in sorted(columns, key=lambda c: str(c.name)):
            with tf.variable_scope(None, default_name=column.scope_name):
                dense, length = column.sequence_dense_tensor(source, collections, trainable)
                width = column.variable_shape.num_elements()
                shape = tf.shape(dense)
                outputs.append(tf.reshape(dense, tf.stack([shape[0], shape[1], width])))
                outputs[-1].set_shape([None, None, width])
                lengths.append(length)
        checks = [
            tf.assert_equal(lengths[0], other, message="the columns' sequences differ in length")
            for other in lengths[1:]
        ]
        with tf.control_dependencies(checks):
            return tf.concat(outputs, -1), tf.identity(lengths[0])


def with_default_collections(collections: Any) -> list[str]:
    """Return the collections that a layer's variables go to."""
    keys = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    given = list(collections or [])
    return [*given, *(key for key in keys if key not in given)]


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = tf.string
) -> SequenceCategoricalColumn:
    """Make a column of hashed ids at each step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Make a column of given ids at each step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> SequenceCategoricalColumn:
    """Make a column of ids looked up in a file at each step."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """Make a column of ids looked up in a list at each step."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )


def sequence_numeric_column(
    key: str, shape: Any = (1,), default_value: float = 0.0, dtype: Any = tf.float32, normalizer_fn: Any = None
) -> SequenceNumericColumn:
    """Make a column of numbers at each step; `default_value` fills shorter sequences."""
    shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    require_string_key(key)
    return SequenceNumericColumn(key, shape, default_value, dtype, normalizer_fn)
