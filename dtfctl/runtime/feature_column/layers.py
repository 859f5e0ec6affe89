"""The layers that take columns: `input_layer` for networks, `linear_model`; and how columns are parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Features,
    normalized,
)
from dtfctl.runtime.feature_column.sequence import with_default_collections


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """Return what `tf.parse_example` needs to read the features of columns.

    Raises:
        ValueError: one is not a column, or two read a feature in different ways.
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"All feature_columns must be FeatureColumn instances. Given: {column}")
        for key, value in column.parse_example_spec.items():
            if key in found and value != found[key]:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} and {found[key]}"
                )
            found[key] = value
    return found


def input_layer(
    features: Mapping[str, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """Make a network's input of dense columns, side by side in the order of their names.

    Args:
        features: tensors by name.
        cols_to_vars, cols_to_output_tensors: filled with the variables and the tensors of each column.

    Returns:
        A float32 tensor [batch, numbers].
    """
    columns = normalized(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a DenseColumn. You can wrap a categorical column with an "
                f"embedding_column or indicator_column. Given: {column}"
            )
    collections = with_default_collections(weight_collections)
    with tf.variable_scope(None, default_name="input_layer", values=list(features.values())):
        source, outputs = Features(features), []
        ordered = sorted(columns, key=lambda c: str(c.name))
        for column in ordered:
            with tf.variable_scope(None, default_name=column.scope_name):
                dense = column.dense_tensor(source, collections, trainable)
                outputs.append(tf.reshape(dense, (tf.shape(dense)[0], column.variable_shape.num_elements())))
                if cols_to_vars is not None:
                    scope = tf.get_variable_scope().name
                    cols_to_vars[column] = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope=scope)
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = outputs[-1]
        _require_one_batch_size(outputs, ordered)
        return tf.concat(outputs, 1)


def linear_model(
    features: Mapping[str, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """Make a linear model of columns: a weight for each number and each id, and a bias.

    Args:
        units: outputs.
        sparse_combiner: how the weights of an example's ids are combined: "sum", "mean" or "sqrtn".
        cols_to_vars: filled with the variables of each column, and of "bias".

    Returns:
        A float32 tensor [batch, units].
    """
    columns = normalized(feature_columns)
    for column in columns:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise ValueError(
                f"Items of feature_columns must be either a DenseColumn or CategoricalColumn. Given: {column}"
            )
    collections = with_default_collections(weight_collections)
    with tf.variable_scope(None, "linear_model") as model:
        name = model.name.rsplit("/", 1)[-1]
    # Scopes of columns are made unique outside of the model's own, as TensorFlow does.
    scopes = {}
    for column in sorted(columns, key=lambda c: str(c.name)):
        with tf.variable_scope(None, default_name=column.scope_name) as scope:
            scopes[scope.name.rsplit("/", 1)[-1]] = column
    found: dict[Any, Any] = {}
    with tf.name_scope(name), tf.variable_scope(name):
        source, sums, ordered = Features(features), [], []
        for scope_name, column in sorted(scopes.items()):
            with tf.variable_scope(None, default_name=scope_name) as scope:
                sums.append(_weighted_sum(column, source, units, sparse_combiner, collections, trainable))
                found[column] = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope=scope.name)
            ordered.append(column)
        _require_one_batch_size(sums, ordered)
        total = tf.add_n(sums, name="weighted_sum_no_bias")
        bias = _zeros("bias_weights", [units], collections, trainable)
        made = tf.nn.bias_add(total, bias, name="weighted_sum")
    if cols_to_vars is not None:
        cols_to_vars.update({**found, "bias": list(bias) if hasattr(bias, "__iter__") else [bias]})
    return made


def _zeros(name: str, shape: Any, collections: Any, trainable: bool) -> Any:
    return tf.get_variable(
        name, shape=shape, initializer=tf.zeros_initializer(), trainable=trainable, collections=collections
    )


def _weighted_sum(column: Any, source: Features, units: int, combiner: str, collections: Any, trainable: bool) -> Any:
    if isinstance(column, CategoricalColumn):
        weights = _zeros("weights", (column.num_buckets, units), collections, trainable)
        ids, given = column.sparse_tensors(source)
        ids = tf.sparse_reshape(ids, [tf.shape(ids)[0], -1])
        if given is not None:
            given = tf.sparse_reshape(given, [tf.shape(given)[0], -1])
        return tf.nn.safe_embedding_lookup_sparse(
            weights, ids, sparse_weights=given, combiner=combiner, name="weighted_sum"
        )
    count = column.variable_shape.num_elements()
    weights = _zeros("weights", [count, units], collections, trainable)
    dense = column.dense_tensor(source, collections, trainable)
    return tf.matmul(tf.reshape(dense, (tf.shape(dense)[0], count)), weights, name="weighted_sum")


def _require_one_batch_size(tensors: list[Any], columns: list[Any]) -> None:
    sizes = {t.shape[0].value: c for t, c in zip(tensors, columns, strict=True) if t.shape[0].value is not None}
    if len(sizes) > 1:
        said = ", ".join(f"{column.name}: {size}" for size, column in sizes.items())
        raise ValueError(f"Batch size (first dimension) of each feature must be same. Batch size of columns ({said})")
