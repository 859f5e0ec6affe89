"""Columns of numbers: given, put into buckets, embedded, counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.feature_column.categorical import WeightedCategoricalColumn
from dtfctl.runtime.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Features,
    IdsAndWeights,
    SequenceDenseColumn,
    require_string_key,
)
from dtfctl.runtime.feature_column.sequence import SequenceCategoricalColumn, sequence_length


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """Numbers as they are, or as `normalizer_fn` makes them."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape(self.shape)

    def transform(self, features: Features) -> Any:
        """Return the feature as float32."""
        given = features.get(self.key)
        if isinstance(given, tf.SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                f"key: {self.key}"
            )
        return tf.cast(given if self.normalizer_fn is None else self.normalizer_fn(given), tf.float32)


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Which of the intervals between boundaries a number is in: one-hot, or as an id."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self) -> int:
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform(self, features: Features) -> Any:
        """Return the intervals."""
        return tf.raw_ops.Bucketize(input=features.get(self.source_column), boundaries=list(self.boundaries))

    def dense_tensor(self, features: Features, collections: Any = None, trainable: bool = True) -> Any:
        return tf.one_hot(
            tf.cast(features.get(self), tf.int64), depth=len(self.boundaries) + 1, on_value=1.0, off_value=0.0
        )

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        given, width = features.get(self), self.source_column.shape[0]
        batch = tf.shape(given)[0]
        rows = tf.reshape(tf.tile(tf.expand_dims(tf.range(0, batch), 1), [1, width]), [-1])
        columns = tf.tile(tf.range(0, width), [batch])
        ids = tf.reshape(given, [-1]) + (len(self.boundaries) + 1) * columns
        indices = tf.cast(tf.transpose(tf.stack([rows, columns])), tf.int64)
        return IdsAndWeights(tf.SparseTensor(indices, ids, tf.cast(tf.stack([batch, width]), tf.int64)), None)


@dataclass(frozen=True)
class _Embedded(DenseColumn, SequenceDenseColumn):
    """Rows of a matrix, combined by example."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool

    __lt__ = FeatureColumn.__lt__

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape([self.dimension])

    def transform(self, features: Features) -> Any:
        """Return the ids."""
        return features.get(self.categorical_column)

    def _matrix(self, collections: Any, trainable: bool) -> Any:
        return tf.get_variable(
            "embedding_weights",
            shape=(self.categorical_column.num_buckets, self.dimension),
            dtype=tf.float32,
            initializer=self.initializer,
            trainable=self.trainable and trainable,
            collections=collections,
        )

    def _looked_up(self, features: Features, collections: Any, trainable: bool) -> Any:
        ids, weights = self.categorical_column.sparse_tensors(features)
        matrix = self._matrix(collections, trainable)
        if self.ckpt_to_load_from is not None:
            tf.train.init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: matrix})
        rank = ids.dense_shape.shape.num_elements()
        safe = self.use_safe_embedding_lookup or rank is None or rank > 2
        common: dict[str, Any] = {"combiner": self.combiner, "name": f"{self.name}_weights", "max_norm": self.max_norm}
        if safe:
            return tf.nn.safe_embedding_lookup_sparse(matrix, ids, weights, **common)
        return tf.nn.embedding_lookup_sparse(matrix, ids, weights, "div", **common)

    def dense_tensor(self, features: Features, collections: Any = None, trainable: bool = True) -> Any:
        require_no_sequence(self, self.categorical_column)
        return self._looked_up(features, collections, trainable)

    def sequence_dense_tensor(
        self, features: Features, collections: Any = None, trainable: bool = True
    ) -> tuple[Any, Any]:
        require_sequence(self, self.categorical_column)
        found = self._looked_up(features, collections, trainable)
        return found, sequence_length(self.categorical_column.sparse_tensors(features).ids)


@dataclass(frozen=True)
class EmbeddingColumn(_Embedded):
    """Rows of a matrix of the column's own."""

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"


@dataclass(frozen=True)
class SharedEmbeddingColumn(_Embedded):
    """Rows of a matrix that several columns look into; the graph's collection of its name holds it."""

    collection_name: str = ""

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope_name(self) -> str:
        return self.collection_name

    def _matrix(self, collections: Any, trainable: bool) -> Any:
        shape = (self.categorical_column.num_buckets, self.dimension)
        there = tf.get_collection(self.collection_name)
        if not there:
            made = super()._matrix(collections, trainable)
            tf.add_to_collection(self.collection_name, made)
            return made
        advice = "Choose a unique name for this collection, and do not add any variables to it."
        if len(there) > 1:
            raise ValueError(f"Collection {there} can only contain one variable. {advice}")
        if there[0].shape.as_list() != list(shape):
            raise ValueError(
                f"Shared embedding collection {self.collection_name} contains variable {there[0].name} of unexpected "
                f"shape {there[0].shape}. Expected shape is {shape}. {advice}"
            )
        return there[0]

    def _looked_up(self, features: Features, collections: Any, trainable: bool) -> Any:
        with tf.name_scope(None, default_name=self.name):
            return super()._looked_up(features, collections, trainable)


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn, SequenceDenseColumn):
    """How often each id is in an example, or the sum of its weights."""

    categorical_column: CategoricalColumn

    __lt__ = FeatureColumn.__lt__

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape([1, self.categorical_column.num_buckets])

    def transform(self, features: Features) -> Any:
        """Count the ids."""
        ids, weights = self.categorical_column.sparse_tensors(features)
        depth = self.categorical_column.num_buckets
        if weights is not None:
            merged = tf.sparse_merge(sp_ids=ids, sp_values=weights, vocab_size=depth)
            merged = tf.sparse_slice(merged, [0, 0], merged.dense_shape)
            return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)
        dense = tf.sparse_tensor_to_dense(ids, default_value=-1)
        return tf.reduce_sum(tf.one_hot(dense, depth=depth, on_value=1.0, off_value=0.0), axis=[-2])

    def dense_tensor(self, features: Features, collections: Any = None, trainable: bool = True) -> Any:
        require_no_sequence(self, self.categorical_column)
        return features.get(self)

    def sequence_dense_tensor(
        self, features: Features, collections: Any = None, trainable: bool = True
    ) -> tuple[Any, Any]:
        require_sequence(self, self.categorical_column)
        return features.get(self), sequence_length(self.categorical_column.sparse_tensors(features).ids)


def require_no_sequence(column: Any, categorical: Any) -> None:
    """Raise ValueError where a column of sequences is asked for one value an example."""
    if isinstance(categorical, SequenceCategoricalColumn):
        raise ValueError(
            f"In {column.name}: categorical_column must not be of type SequenceCategoricalColumn. Use "
            "categorical_column_with_* for input_layer, or sequence_input_layer for sequences."
        )


def require_sequence(column: Any, categorical: Any) -> None:
    """Raise ValueError where a column of single values is asked for a sequence."""
    if not isinstance(categorical, SequenceCategoricalColumn):
        raise ValueError(
            f"In {column.name}: categorical_column must be of type SequenceCategoricalColumn to use "
            "sequence_input_layer. Use one of sequence_categorical_column_with_*."
        )


def numeric_column(
    key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = tf.float32, normalizer_fn: Any = None
) -> NumericColumn:
    """Make a column of numbers.

    Args:
        key: the feature.
        shape: of one example.
        default_value: for `tf.parse_example`, where an example lacks the feature.
        normalizer_fn: called with the feature's tensor.
    """
    shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    for dimension in shape:
        if not isinstance(dimension, (int, np.integer)):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if dimension < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    require_string_key(key)
    return NumericColumn(key, shape, _default(default_value, shape, dtype, key), dtype, normalizer_fn)


def _default(value: Any, shape: tuple[int, ...], dtype: Any, key: str) -> Any:
    """Return a default as nested tuples of the column's shape."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind == "f" and dtype.is_integer:
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}")
    if array.ndim and array.shape != shape:
        raise ValueError(f"The shape of default_value must be equal to given shape. default_value: {value}, key: {key}")
    return _tuples(np.broadcast_to(array, shape).astype(dtype.as_numpy_dtype).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def bucketized_column(source_column: NumericColumn, boundaries: Any) -> BucketizedColumn:
    """Make a column of the intervals that a numeric column's numbers are in: (-inf, b0), [b0, b1), ... [bn, inf)."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    ordered = isinstance(boundaries, (list, tuple)) and boundaries
    if not ordered or any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def _embedding_options(
    dimension: Any, initializer: Any, ckpt_to_load_from: Any, tensor_name_in_ckpt: Any, what: str
) -> Any:
    """Check the options of embeddings; return the initializer."""
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified. {what}")
    return initializer or tf.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Make a column of rows of a trained matrix, looked up by the ids of another column.

    Args:
        combiner: how an example's rows are combined: "mean", "sqrtn" or "sum".
        max_norm: to which rows are clipped before.
        use_safe_embedding_lookup: False promises that each example has ids, and none below 0.
    """
    what = f"Embedding of column_name: {getattr(categorical_column, 'name', categorical_column)}"
    initializer = _embedding_options(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, what)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def shared_embedding_columns(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Make embedding columns that look into one matrix; their columns of ids are of one kind and size."""
    initializer = _embedding_options(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, "")
    ordered = sorted(categorical_columns, key=lambda c: str(c.name))
    first = _unweighted(ordered[0])
    if not isinstance(first, CategoricalColumn):
        raise ValueError(f"All categorical_columns must be subclasses of CategoricalColumn. Given: {first}")
    for column in map(_unweighted, ordered[1:]):
        if not isinstance(column, type(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                f"weighted_categorical_column of the same type. Given: {first} and {column}"
            )
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. "
                f"Given: {first} with {first.num_buckets} and {column} with {column.num_buckets}"
            )
    name = shared_embedding_collection_name or "_".join(c.name for c in ordered) + "_shared_embedding"
    return [
        SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            initializer,
            ckpt_to_load_from,
            tensor_name_in_ckpt,
            max_norm,
            trainable,
            use_safe_embedding_lookup,
            name,
        )
        for column in categorical_columns
    ]


def _unweighted(column: Any) -> Any:
    return column.categorical_column if isinstance(column, WeightedCategoricalColumn) else column


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Make a column of how often each id is in an example."""
    return IndicatorColumn(categorical_column)
