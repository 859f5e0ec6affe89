"""Parsing of serialized SequenceExamples: a context, and lists of features that advance together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.tensor_shape import as_shape
from dtfctl.runtime.ops.parsing_ops import FixedLenSequenceFeature, VarLenFeature, _Plan, _plan


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse one serialized SequenceExample into two dicts: its context, and its feature lists.

    Args:
        serialized: a string scalar.
        context_features: FixedLenFeature gives a tensor of its shape, VarLenFeature a SparseTensor [n].
        sequence_features: FixedLenSequenceFeature gives [time, *shape], VarLenFeature a SparseTensor [time, n].
        example_name: a string scalar for error messages.

    Raises:
        ValueError: there are no features, or one is of another kind.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features: give context_features or sequence_features")
    context = _plan(context_features) if context_features else _Plan([], [])
    sparse, dense, missing = _lists(sequence_features)

    def keys(names: Any) -> list[Any]:
        return [constant(n, dtypes.string) for n in names]

    outputs = list(
        make_op(
            "ParseSingleSequenceExample",
            name or "ParseSingleSequenceExample",
            serialized=serialized,
            feature_list_dense_missing_assumed_empty=constant(missing, dtypes.string, [len(missing)]),
            context_sparse_keys=keys(k for k, _ in context.sparse),
            context_dense_keys=keys(d[0] for d in context.dense),
            feature_list_sparse_keys=keys(k for k, _ in sparse),
            feature_list_dense_keys=keys(d[0] for d in dense),
            context_dense_defaults=[d[3] for d in context.dense],
            debug_name=constant("", dtypes.string) if example_name is None else example_name,
            Ncontext_sparse=len(context.sparse),
            Ncontext_dense=len(context.dense),
            Nfeature_list_sparse=len(sparse),
            Nfeature_list_dense=len(dense),
            context_sparse_types=[t for _, t in context.sparse],
            Tcontext_dense=[d[1] for d in context.dense],
            feature_list_dense_types=[d[1] for d in dense],
            context_dense_shapes=[d[2] for d in context.dense],
            feature_list_sparse_types=[t for _, t in sparse],
            feature_list_dense_shapes=[d[2] for d in dense],
        ).outputs
    )

    of_context = _taken_sparse(outputs, [k for k, _ in context.sparse])
    for (key, _, shape, _), tensor in zip(context.dense, _taken(outputs, len(context.dense))):
        tensor.set_shape(shape)
        of_context[key] = tensor
    of_lists = _taken_sparse(outputs, [k for k, _ in sparse])
    for (key, _, shape), tensor in zip(dense, _taken(outputs, len(dense))):
        tensor.set_shape(as_shape([None]).concatenate(shape))
        of_lists[key] = tensor
    return of_context, of_lists


def _lists(
    features: Mapping[str, Any] | None,
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any, Any]], list[str]]:
    """Part feature lists into the sparse ones, the dense ones and those of these that may be missing."""
    sparse: list[tuple[str, Any]] = []
    dense: list[tuple[str, Any, Any]] = []
    missing: list[str] = []
    for key, feature in sorted((features or {}).items()):
        if isinstance(feature, VarLenFeature):
            sparse.append((key, as_dtype(feature.dtype)))
        elif isinstance(feature, FixedLenSequenceFeature):
            dense.append((key, as_dtype(feature.dtype), as_shape(feature.shape)))
            if feature.allow_missing:
                missing.append(key)
        else:
            raise ValueError(f"Invalid sequence feature {key}: {feature}; VarLenFeature or FixedLenSequenceFeature")
    return sparse, dense, missing


def _taken(outputs: list[Any], count: int) -> list[Any]:
    """Take the first of the outputs that are left."""
    first = outputs[:count]
    del outputs[:count]
    return first


def _taken_sparse(outputs: list[Any], names: list[str]) -> dict[str, Any]:
    parts = [_taken(outputs, len(names)) for _ in range(3)]
    return {n: SparseTensor(i, v, s) for n, i, v, s in zip(names, *parts)}


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Parse a batch of serialized SequenceExamples into their contexts, feature lists and the lists' lengths.

    Args:
        serialized: a vector of strings.
        context_features: FixedLenFeature gives a tensor [batch, *shape], VarLenFeature a SparseTensor [batch, n].
        sequence_features: FixedLenSequenceFeature gives [batch, time, *shape], padded to the longest, and lengths
            [batch]; VarLenFeature a SparseTensor [batch, time, n].
        example_names: strings for error messages.

    Raises:
        ValueError: there are no features, or one is of another kind.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features: give context_features or sequence_features")
    context = _plan(context_features) if context_features else _Plan([], [])
    sparse, dense, missing = _lists(sequence_features)
    serialized = convert_to_tensor(serialized, dtypes.string)

    def keys(names: Any) -> Any:
        found = list(names)
        return constant(found, dtypes.string, [len(found)])

    with name_scope(name, "ParseSequenceExample"):
        outputs = list(
            make_op(
                "ParseSequenceExampleV2",
                "ParseSequenceExample",
                serialized=serialized,
                debug_name=keys(()) if example_names is None else example_names,
                context_sparse_keys=keys(k for k, _ in context.sparse),
                context_dense_keys=keys(d[0] for d in context.dense),
                context_ragged_keys=keys(()),
                feature_list_sparse_keys=keys(k for k, _ in sparse),
                feature_list_dense_keys=keys(d[0] for d in dense),
                feature_list_ragged_keys=keys(()),
                feature_list_dense_missing_assumed_empty=constant(
                    [d[0] in missing for d in dense], dtypes.bool_, [len(dense)]
                ),
                context_dense_defaults=[d[3] for d in context.dense],
                Ncontext_sparse=len(context.sparse),
                Tcontext_dense=[d[1] for d in context.dense],
                context_sparse_types=[t for _, t in context.sparse],
                context_ragged_value_types=[],
                context_ragged_split_types=[],
                context_dense_shapes=[d[2] for d in context.dense],
                Nfeature_list_sparse=len(sparse),
                Nfeature_list_dense=len(dense),
                feature_list_dense_types=[d[1] for d in dense],
                feature_list_sparse_types=[t for _, t in sparse],
                feature_list_ragged_value_types=[],
                feature_list_ragged_split_types=[],
                feature_list_dense_shapes=[d[2] for d in dense],
            ).outputs
        )
    batch = serialized.shape.with_rank(1)
    of_context = _taken_sparse(outputs, [k for k, _ in context.sparse])
    for (key, _, shape, _), tensor in zip(context.dense, _taken(outputs, len(context.dense))):
        tensor.set_shape(batch.concatenate(shape))
        of_context[key] = tensor
    of_lists = _taken_sparse(outputs, [k for k, _ in sparse])
    for (key, _, shape), tensor in zip(dense, _taken(outputs, len(dense))):
        tensor.set_shape(batch.concatenate([None]).concatenate(shape))
        of_lists[key] = tensor
    lengths = dict(zip((d[0] for d in dense), _taken(outputs, len(dense))))
    for tensor in lengths.values():
        tensor.set_shape(batch)
    return of_context, of_lists, lengths
