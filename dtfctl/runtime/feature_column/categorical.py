"""Columns of ids: hashed, looked up, given, crossed, weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.feature_column.column import (
    CategoricalColumn,
    Features,
    IdsAndWeights,
    as_tensor,
    require_string_key,
    require_string_or_int,
    to_sparse,
)


@dataclass(frozen=True)
class _Keyed(CategoricalColumn):
    """A column of one feature of varying length."""

    key: str

    __lt__ = CategoricalColumn.__lt__

    @property
    def name(self) -> str:
        return self.key

    @property
    def _kind(self) -> Any:
        """The type of the feature: whole numbers where the column has no field for it."""
        return getattr(self, "dtype", tf.int64)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(self._kind)}

    def _input(self, features: Features) -> Any:
        """Return the feature as a sparse tensor of the column's kind."""
        given = to_sparse(features.get(self.key))
        require_string_or_int(given.dtype, f"column_name: {self.key} input_tensor")
        if self._kind.is_integer != given.dtype.is_integer:
            raise ValueError(
                f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, "
                f"column dtype: {self._kind}, tensor dtype: {given.dtype}"
            )
        return given


@dataclass(frozen=True)
class HashedCategoricalColumn(_Keyed):
    """Ids are hashes of strings or whole numbers."""

    hash_bucket_size: int
    dtype: Any = tf.string

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform(self, features: Features) -> Any:
        """Hash each value."""
        given = self._input(features)
        values = given.values if self.dtype == tf.string else tf.as_string(given.values)
        ids = tf.string_to_hash_bucket_fast(values, self.hash_bucket_size, name="lookup")
        return tf.SparseTensor(given.indices, ids, given.dense_shape)


@dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_Keyed):
    """Ids are lines of a file."""

    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: Any
    default_value: int

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def transform(self, features: Features) -> Any:
        """Look each value up."""
        given, key_dtype = _as_keys(self._input(features), self.dtype)
        table = tf.lookup.index_table_from_file(
            vocabulary_file=self.vocabulary_file,
            num_oov_buckets=self.num_oov_buckets,
            vocab_size=self.vocabulary_size,
            default_value=self.default_value,
            key_dtype=key_dtype,
            name=f"{self.key}_lookup",
        )
        return table.lookup(given)


@dataclass(frozen=True)
class VocabularyListCategoricalColumn(_Keyed):
    """Ids are places in a list."""

    vocabulary_list: tuple[Any, ...]
    dtype: Any
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def transform(self, features: Features) -> Any:
        """Look each value up."""
        given, key_dtype = _as_keys(self._input(features), self.dtype)
        table = tf.lookup.index_table_from_tensor(
            self.vocabulary_list,
            default_value=self.default_value,
            num_oov_buckets=self.num_oov_buckets,
            dtype=key_dtype,
            name=f"{self.key}_lookup",
        )
        return table.lookup(given)


def _as_keys(given: Any, dtype: Any) -> tuple[Any, Any]:
    return (tf.cast(given, tf.int64), tf.int64) if given.dtype.is_integer else (given, dtype)


@dataclass(frozen=True)
class IdentityCategoricalColumn(_Keyed):
    """Ids are the feature's values."""

    number_buckets: int
    default_value: int | None

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def transform(self, features: Features) -> Any:
        """Check each id, or replace those that are out of range."""
        given = to_sparse(features.get(self.key))
        if not given.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {given.dtype}")
        values = tf.cast(given.values, tf.int64, name="values")
        buckets = tf.cast(self.number_buckets, tf.int64, name="num_buckets")
        zero = tf.cast(0, tf.int64, name="zero")
        if self.default_value is None:
            checks = [
                tf.assert_less(
                    values,
                    buckets,
                    data=(values, buckets),
                    message=f'Bucket index for categorical column "{self.name}" exceeds number of buckets',
                    name="assert_less_than_num_buckets",
                ),
                tf.assert_greater_equal(
                    values,
                    zero,
                    data=(values,),
                    message=f'Negative bucket index for categorical column "{self.name}"',
                    name="assert_greater_or_equal_0",
                ),
            ]
            with tf.control_dependencies(checks):
                values = tf.identity(values)
        else:
            default = tf.fill(tf.shape(values), tf.cast(self.default_value, tf.int64), name="default_values")
            outside = tf.logical_or(values < zero, values >= buckets, name="out_of_range")
            values = tf.where(outside, default, values)
        return tf.SparseTensor(given.indices, values, given.dense_shape)


@dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """Ids of another column, each with a weight from a feature."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: Any

    __lt__ = CategoricalColumn.__lt__

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec = self.categorical_column.parse_example_spec
        if self.weight_feature_key in spec:
            raise ValueError(f"Parse config {spec[self.weight_feature_key]} already exists.")
        return {**spec, self.weight_feature_key: tf.VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> IdsAndWeights:
        """Return the ids and their weights."""
        weights = as_tensor(features.get(self.weight_feature_key))
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = to_sparse(weights, ignore_value=0.0)
        if not weights.dtype.is_floating:
            weights = tf.cast(weights, tf.float32)
        return IdsAndWeights(features.get(self.categorical_column), weights)

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        made: IdsAndWeights = features.get(self)
        return made


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Ids are hashes of combinations of features."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    __lt__ = CategoricalColumn.__lt__

    @property
    def name(self) -> str:
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in self.leaves()))

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: tf.VarLenFeature(tf.string)} if isinstance(key, str) else key.parse_example_spec)
        return spec

    def leaves(self) -> list[Any]:
        """Return the keys, those of crossed columns among them in their place."""
        return [leaf for key in self.keys for leaf in (key.leaves() if isinstance(key, CrossedColumn) else [key])]

    def transform(self, features: Features) -> Any:
        """Hash each combination."""
        inputs = []
        for key in self.leaves():
            if isinstance(key, str):
                inputs.append(features.get(key))
                continue
            ids, weights = key.sparse_tensors(features)
            if weights is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
                    f"Given column: {key.name}"
                )
            inputs.append(ids)
        return tf.sparse.cross_hashed(inputs, self.hash_bucket_size, self.hash_key)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = tf.string) -> CategoricalColumn:
    """Make a column whose ids are hashes of a feature's values.

    Args:
        key: the feature: strings or whole numbers, sparse, or dense with "" or -1 where there is none.
        hash_bucket_size: how many ids there are.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    require_string_key(key)
    dtype = tf.as_dtype(dtype)
    require_string_or_int(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> CategoricalColumn:
    """Make a column whose ids are the lines of a file.

    Args:
        vocabulary_size: how many lines count; all of them when None.
        num_oov_buckets: how many more ids what is not in the file is hashed to; else it is `default_value`, or left
            out.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with tf.gfile.GFile(vocabulary_file) as file:
            vocabulary_size = sum(1 for _ in file)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_oov(key, num_oov_buckets, default_value is not None)
    dtype = tf.as_dtype(dtype)
    require_string_or_int(dtype, f"column_name: {key}")
    require_string_key(key)
    default = -1 if default_value is None else default_value
    return VocabularyFileCategoricalColumn(key, vocabulary_file, vocabulary_size, num_oov_buckets or 0, dtype, default)


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> CategoricalColumn:
    """Make a column whose ids are places in a list; others get one of `num_oov_buckets` more, or the default."""
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = tf.as_dtype(np.array(vocabulary_list).dtype)
    _check_oov(key, num_oov_buckets, default_value != -1)
    require_string_or_int(own, f"column_name: {key} vocabulary")
    dtype = own if dtype is None else tf.as_dtype(dtype)
    if dtype.is_integer != own.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}")
    require_string_or_int(dtype, f"column_name: {key}")
    require_string_key(key)
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets)


def _check_oov(key: str, num_oov_buckets: int, has_default: bool) -> None:
    if num_oov_buckets and has_default:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets and num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> CategoricalColumn:
    """Make a column whose ids are a feature's values, in [0, num_buckets); others are the default, or an error."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    require_string_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = tf.float32
) -> CategoricalColumn:
    """Give each id of a column a weight, from a feature of the same shape."""
    dtype = None if dtype is None else tf.as_dtype(dtype)
    if dtype is None or not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CategoricalColumn:
    """Make a column whose ids are hashes of combinations of features.

    Args:
        keys: names of features, or columns of ids that are not hashed.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                f"increase probability of collision. Instead, use the feature name as a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
