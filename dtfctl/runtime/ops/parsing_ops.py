"""Parsing of serialized Examples, CSV and raw bytes, with TF1's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import as_shape
from dtfctl.runtime.ops.op_defs.io import string_to_number

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "decode_csv",
    "parse_example",
    "parse_single_example",
    "string_to_number",
]


class FixedLenFeature(NamedTuple):
    """A feature of one shape in every example; without a default it must be there."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature of a varying number of rows of one shape, padded to the longest of the batch."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any number of values, parsed into a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """A SparseTensor whose values stand in one feature, and the places of these in others.

    Args:
        index_key: the feature of the places, or a list of them, one for each dimension.
        value_key: the feature of the values.
        dtype: of the values.
        size: of the dimension, or a list of sizes.
        already_sorted: whether the places are in order.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

    def places(self) -> list[str]:
        """Return the features of the places."""
        return [self.index_key] if isinstance(self.index_key, str) else list(self.index_key)


class _Plan(NamedTuple):
    sparse: list[tuple[str, DType]]
    dense: list[tuple[str, DType, Any, Tensor]]


def _plan(features: Mapping[str, Any]) -> _Plan:
    if not features:
        raise ValueError("Missing: features was empty.")
    sparse: list[tuple[str, DType]] = []
    dense: list[tuple[str, DType, Any, Tensor]] = []
    for key in sorted(features):
        feature = features[key]
        dtype = as_dtype(feature.dtype)
        if isinstance(feature, VarLenFeature):
            sparse.append((key, dtype))
        elif isinstance(feature, FixedLenFeature):
            shape = as_shape(feature.shape)
            if feature.default_value is None:
                default = constant([], dtype)
            else:
                default = apply_op(
                    "Reshape", tensor=convert_to_tensor(feature.default_value, dtype), shape=list(shape.known())
                )
            dense.append((key, dtype, shape, default))
        elif isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            fill = feature.default_value
            if fill is None:
                fill = "" if dtype is dtypes.string else 0
            dense.append((key, dtype, as_shape([None]).concatenate(feature.shape), constant(fill, dtype)))
        elif isinstance(feature, SparseFeature):
            for part, kind in [*((k, dtypes.int64) for k in sorted(feature.places())), (feature.value_key, dtype)]:
                known = dict(sparse).get(part)
                if known not in (None, kind):
                    raise ValueError(f"Conflicting type {kind} vs {known} for feature {part}.")
                if known is None:
                    sparse.append((part, kind))
        else:
            raise ValueError(f"Invalid feature {key}:{feature}.")
    return _Plan(sparse, dense)


def _collect(plan: _Plan, outputs: Sequence[Any], features: Mapping[str, Any]) -> dict[str, Any]:
    indices, values, shapes, dense = outputs
    result: dict[str, Any] = {}
    for (key, _), i, v, s in zip(plan.sparse, indices, values, shapes):
        result[key] = SparseTensor(i, v, s)
    for (key, *_), tensor in zip(plan.dense, dense):
        result[key] = tensor
    return _merge_sparse_features(result, features)


def _merge_sparse_features(found: dict[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
    """Make the tensors that are given by places and values, and leave out what they were made of."""
    from dtfctl.runtime.ops.sparse_ops.conversion import sparse_merge

    merged = {
        key: sparse_merge(
            [found[k] for k in feature.places()], found[feature.value_key], feature.size, None, feature.already_sorted
        )
        for key, feature in sorted(features.items())
        if isinstance(feature, SparseFeature)
    }
    return {key: merged.get(key, found.get(key)) for key in {**found, **merged} if key in features}


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parse a batch of serialized Examples into a dict of tensors and SparseTensors."""
    plan = _plan(features)
    outputs = apply_op_nested(
        "ParseExample",
        name or "ParseExample",
        serialized=serialized,
        names=constant([], dtypes.string) if example_names is None else example_names,
        sparse_keys=[constant(key, dtypes.string) for key, _ in plan.sparse],
        dense_keys=[constant(d[0], dtypes.string) for d in plan.dense],
        dense_defaults=[d[3] for d in plan.dense],
        sparse_types=[t for _, t in plan.sparse],
        dense_shapes=[d[2] for d in plan.dense],
    )
    return _collect(plan, outputs, features)


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parse one serialized Example into a dict of tensors and SparseTensors."""
    plan = _plan(features)
    outputs = apply_op_nested(
        "ParseSingleExample",
        name or "ParseSingleExample",
        serialized=serialized,
        dense_defaults=[d[3] for d in plan.dense],
        num_sparse=len(plan.sparse),
        sparse_keys=[key for key, _ in plan.sparse],
        dense_keys=[d[0] for d in plan.dense],
        sparse_types=[t for _, t in plan.sparse],
        dense_shapes=[d[2] for d in plan.dense],
    )
    return _collect(plan, outputs, features)


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Parse CSV records into columns; a default of [] makes a field required."""
    return apply_op_outputs(
        "DecodeCSV",
        name,
        records=records,
        record_defaults=list(record_defaults),
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=list(select_cols or []),
    )
