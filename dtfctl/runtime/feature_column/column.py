"""What columns have in common: a name, how they are parsed, how they are computed from features once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf


class FeatureColumn:
    """What a feature means to a model. Columns are values: equal ones stand for the same."""

    @property
    def name(self) -> str:
        """The name under which the column's variables and ops are made."""
        raise NotImplementedError

    @property
    def scope_name(self) -> str:
        """The scope of the column's variables."""
        return self.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """How `tf.parse_example` finds the features that the column is made of."""
        raise NotImplementedError

    def transform(self, features: Features) -> Any:
        """Compute the column from features; `Features.get` calls it once."""
        raise NotImplementedError

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)


class IdsAndWeights(NamedTuple):
    """Sparse ids in [0, num_buckets), and a weight for each or None for 1."""

    ids: Any
    weights: Any


class CategoricalColumn(FeatureColumn):
    """A column of ids."""

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        raise NotImplementedError

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        """Return the ids of each example."""
        return IdsAndWeights(features.get(self), None)


class DenseColumn(FeatureColumn):
    """A column of numbers."""

    @property
    def variable_shape(self) -> Any:
        """The shape of one example's numbers."""
        raise NotImplementedError

    def dense_tensor(self, features: Features, collections: Any = None, trainable: bool = True) -> Any:
        """Return the numbers, of shape [batch, *variable_shape]; makes what variables that takes."""
        return features.get(self)


class SequenceDenseColumn(FeatureColumn):
    """A column of numbers at each step of a sequence."""

    def sequence_dense_tensor(
        self, features: Features, collections: Any = None, trainable: bool = True
    ) -> tuple[Any, Any]:
        """Return the numbers, of shape [batch, longest, *variable_shape], and the sequences' lengths."""
        raise NotImplementedError


class Features:
    """Features by name, and columns computed from them, each once."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._raw = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """Return a feature as a tensor of at least two dimensions, or a column's transformation.

        Raises:
            ValueError: there is no such feature, or it is a scalar.
        """
        if key in self._made:
            return self._made[key]
        if key in self._raw:
            made = _at_least_two_dimensions(key, as_tensor(self._raw[key]))
        elif isinstance(key, FeatureColumn):
            made = key.transform(self)
        elif isinstance(key, str):
            raise ValueError(f"Feature {key} is not in features dictionary.")
        else:
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')
        self._made[key] = made
        return made


def as_tensor(value: Any) -> Any:
    """Return a feature as a tensor, sparse ones as they are."""
    if isinstance(value, tf.SparseTensor):
        return value
    return tf.SparseTensor(*value) if type(value).__name__ == "SparseTensorValue" else tf.convert_to_tensor(value)


def _at_least_two_dimensions(key: str, tensor: Any) -> Any:
    def expanded() -> Any:
        if isinstance(tensor, tf.SparseTensor):
            return tf.sparse_reshape(tensor, [tf.shape(tensor)[0], 1])
        return tf.expand_dims(tensor, -1)

    rank = tensor.get_shape().ndims
    if rank == 0:
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {tensor}")
    if rank is not None:
        return tensor if rank != 1 else expanded()
    if isinstance(tensor, tf.SparseTensor):
        return tensor
    message = f"Feature (key: {key}) cannot have rank 0. Given: {tensor}"
    with tf.control_dependencies([tf.assert_positive(tf.rank(tensor), message=message)]):
        return tf.cond(tf.equal(1, tf.rank(tensor)), expanded, lambda: tensor)


def to_sparse(tensor: Any, ignore_value: Any = None) -> Any:
    """Return a tensor as a sparse one without the elements that mean nothing: "", -1, or `ignore_value`."""
    tensor = as_tensor(tensor)
    if isinstance(tensor, tf.SparseTensor):
        return tensor
    with tf.name_scope(None, "to_sparse_input", [tensor, ignore_value]):
        if ignore_value is None:
            ignore_value = "" if tensor.dtype == tf.string else -1 if tensor.dtype.is_integer else 0.0
        # Strings cannot be cast, and need not be.
        if tensor.dtype != tf.string:
            ignore_value = tf.cast(ignore_value, tensor.dtype, name="ignore_value")
        indices = tf.where(tf.not_equal(tensor, ignore_value), name="indices")
        values = tf.gather_nd(tensor, indices, name="values")
        return tf.SparseTensor(indices, values, tf.shape(tensor, out_type=tf.int64, name="dense_shape"))


def normalized(columns: Any) -> list[Any]:
    """Return columns as a list.

    Raises:
        ValueError: there are none, one is not a column, or two have the same name.
    """
    if isinstance(columns, FeatureColumn):
        columns = [columns]
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(columns) if isinstance(columns, Iterator) else columns
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"Items of feature_columns must be a FeatureColumn. Given (type {type(column)}): {column}."
            )
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, Any] = {}
    for column in columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and {by_name[column.name]}. This usually "
                "means that these columns refer to same base feature. Either one must be discarded or a duplicated "
                "but renamed item must be inserted in features dict."
            )
        by_name[column.name] = column
    return list(columns)


def require_string_key(key: Any) -> None:
    """Raise ValueError where a feature's name is no string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}; value {key}.")


def require_string_or_int(dtype: Any, what: str) -> None:
    """Raise ValueError where ids cannot be of a type."""
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(f"{what} dtype must be string or integer. dtype: {dtype}.")
