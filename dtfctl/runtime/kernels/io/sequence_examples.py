"""Parsing of batches of SequenceExample messages: contexts and lists of features, dense, sparse and ragged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import example_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.arguments import texts_of
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.io.examples import COUNTED, KINDS, Dense, Ragged, Sparse, Wanted, pack, parse_features
from dtfctl.runtime.kernels.pieces import array_of, each
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

Steps = list[list[Any]]


def _parse(serialized: bytes) -> example_pb2.SequenceExample:
    try:
        return example_pb2.SequenceExample.FromString(serialized)
    except Exception as e:
        shown = serialized[:64].decode("utf-8", "replace")
        raise InvalidArgumentError(f"Could not parse example input, value: '{shown}'") from e


def _steps(proto: example_pb2.SequenceExample, key: str, dtype: DType, name: str) -> Steps | None:
    """Read the values of each step of a feature list; None when the example has no such list."""
    lists = proto.feature_lists.feature_list
    if key not in lists:
        return None
    out: Steps = []
    for i, feature in enumerate(lists[key].feature):
        kind = feature.WhichOneof("kind")
        if kind is not None and KINDS[kind] is not dtype:
            raise InvalidArgumentError(
                f"Name: {name}, Feature list: {key}, Index: {i}.  Data types don't match. Expected type: "
                f"{WIRE_NAME[dtype]}"
            )
        out.append([] if kind is None else list(getattr(feature, kind).value))
    return out


class _Batch:
    """The messages of one call and what they are called in errors."""

    def __init__(self, serialized: Sequence[bytes], names: Sequence[str], is_batch: bool) -> None:
        self.protos = [_parse(s) for s in serialized]
        self.names = names
        self.is_batch = is_batch

    def name(self, i: int) -> str:
        return self.names[i] if self.names else "<unknown>"

    def steps(self, key: str, dtype: DType) -> list[Steps | None]:
        return [_steps(p, key, dtype, self.name(i)) for i, p in enumerate(self.protos)]

    def sparse(self, key: str, dtype: DType) -> tuple[Any, Any, Any]:
        """Indices [n, 3] (without the batch: [n, 2]), values and dense shape."""
        rows = [steps or [] for steps in self.steps(key, dtype)]
        places = [
            (e, i, j) for e, steps in enumerate(each(rows)) for i, step in enumerate(steps) for j in range(len(step))
        ]
        values = [v for steps in each(rows) for step in steps for v in step]
        most = max((len(step) for steps in rows for step in steps), default=0)
        shape = np.array([len(rows), max(map(len, rows), default=0), most], np.int64)
        indices = array_of([i for place in each(places) for i in place], np.int64, (len(places), 3))
        first = 0 if self.is_batch else 1
        return indices[:, first:], pack(values, dtype, (len(values),)), shape[first:]

    def dense(self, key: str, dtype: DType, shape: TensorShape, may_be_missing: bool) -> tuple[Any, Any]:
        """Steps padded to the longest list, and how many steps each example has."""
        dims = shape.known()
        size = int(np.prod(dims, dtype=np.int64))
        rows: list[Steps] = []
        for e, steps in enumerate(each(self.steps(key, dtype))):
            if steps is None and not may_be_missing:
                raise InvalidArgumentError(
                    f"Name: {self.name(e)}, Feature list '{key}' is required but could not be found.  Did you mean to "
                    "include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
                )
            for i, step in enumerate(steps or []):
                if len(step) != size:
                    raise InvalidArgumentError(
                        f"Name: {self.name(e)}, Key: {key}, Index: {i}.  Number of {COUNTED[dtype]} values "
                        f"!= expected.  values size: {len(step)} but output shape: {shape_text(shape)}"
                    )
            rows.append(steps or [])
        longest = max(map(len, rows), default=0)
        padding = [b"" if dtype is dtypes.string else 0] * size
        flat = [v for steps in each(rows) for step in [*steps, *[padding] * (longest - len(steps))] for v in step]
        values = pack(flat, dtype, (len(rows), longest, *dims))
        lengths = np.array([len(steps) for steps in rows], np.int64)
        return (values, lengths) if self.is_batch else (values[0, ...], lengths[0, ...])

    def ragged(self, key: str, dtype: DType, split_type: DType) -> tuple[Any, Any, Any]:
        """Values, row splits of the examples, row splits of the steps."""
        rows = [steps or [] for steps in self.steps(key, dtype)]
        values = [v for steps in each(rows) for step in steps for v in step]
        outer = np.cumsum([0, *map(len, rows)]).astype(split_type.np)
        inner = np.cumsum([0, *(len(step) for steps in rows for step in steps)]).astype(split_type.np)
        return pack(values, dtype, (len(values),)), outer if self.is_batch else outer[0, ...], inner

    def context(self, wanted: Wanted) -> list[Any]:
        out = parse_features([p.context.feature for p in self.protos], self.names, wanted)
        if self.is_batch:
            return out
        s, d, r = len(wanted.sparse), len(wanted.dense), len(wanted.ragged)
        indices, values, shapes = out[:s], out[s : 2 * s], out[2 * s : 3 * s]
        dense, rest = out[3 * s : 3 * s + d], out[3 * s + d :]
        return [
            *(v[:, 1:] for v in indices),
            *values,
            *(v[1:] for v in shapes),
            *(v[0, ...] for v in dense),
            *rest[:r],
            *(v[0, ...] for v in rest[r:]),
        ]


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[Any]:
    """List the first of every row, then the second of every row and so on."""
    return [row[i] for i in range(count) for row in rows]


@register_kernel("ParseSequenceExampleV2", pieces=True)
def parse_sequence_example_v2(k: KernelBuild) -> Kernel:
    context_sparse, context_types = k.attr("context_sparse_types"), k.attr("Tcontext_dense")
    context_ragged, context_splits = k.attr("context_ragged_value_types"), k.attr("context_ragged_split_types")
    context_shapes = k.attr("context_dense_shapes")
    list_sparse, list_types = k.attr("feature_list_sparse_types"), k.attr("feature_list_dense_types")
    list_ragged, list_splits = k.attr("feature_list_ragged_value_types"), k.attr("feature_list_ragged_split_types")
    list_shapes = k.attr("feature_list_dense_shapes")

    def run(serialized: Any, debug_name: Any, *rest: Any) -> list[Any]:
        keys = [texts_of(v) for v in rest[:6]]
        missing, defaults = rest[6].reshape(-1).tolist(), rest[7:]
        if serialized.ndim > 1:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar or vector, got shape: {shape_text(serialized.shape)}"
            )
        if debug_name.size and debug_name.size != serialized.size:
            raise InvalidArgumentError(
                f"Expected len(debug_name) == len(serialized), but got: {debug_name.size} vs. {serialized.size}"
            )
        batch = _Batch(serialized.reshape(-1).tolist(), texts_of(debug_name), serialized.ndim == 1)
        for at, (shape, default) in enumerate(zip(context_shapes, defaults, strict=True)):
            if not shape.is_fully_defined():
                raise InvalidArgumentError(f"context_dense_shapes[{at}] is not fully defined: {shape_text(shape)}")
            if default.size and not shape.is_compatible_with(default.shape):
                raise InvalidArgumentError(
                    f"Default value for context feature {keys[1][at]} has an invalid shape: "
                    f"{shape_text(default.shape)} but expected {shape_text(shape)}"
                )
        wanted = Wanted(
            [Sparse(key, t) for key, t in zip(keys[0], context_sparse, strict=True)],
            [
                Dense(key, t, s, np.asarray(v))
                for key, t, s, v in zip(keys[1], context_types, context_shapes, defaults, strict=True)
            ],
            [Ragged(key, v, s) for key, v, s in zip(keys[2], context_ragged, context_splits, strict=True)],
        )
        sparse = [batch.sparse(key, t) for key, t in zip(keys[3], list_sparse, strict=True)]
        dense = [
            batch.dense(key, t, s, m) for key, t, s, m in zip(keys[4], list_types, list_shapes, missing, strict=True)
        ]
        ragged = [batch.ragged(key, t, s) for key, t, s in zip(keys[5], list_ragged, list_splits, strict=True)]
        return [*batch.context(wanted), *_columns(sparse, 3), *_columns(dense, 2), *_columns(ragged, 3)]

    return run


@register_kernel("ParseSequenceExample", pieces=True)
def parse_sequence_example(k: KernelBuild) -> Kernel:
    def names(attr: str) -> list[str]:
        return [v.decode() for v in k.attr(attr)]

    context_keys = names("context_sparse_keys"), names("context_dense_keys")
    list_keys = names("feature_list_sparse_keys"), names("feature_list_dense_keys")
    optional = set(names("feature_list_dense_missing_assumed_empty"))
    context_sparse, context_types = k.attr("context_sparse_types"), k.attr("Tcontext_dense")
    context_shapes = k.attr("context_dense_shapes")
    list_sparse, list_types = k.attr("feature_list_sparse_types"), k.attr("feature_list_dense_types")
    list_shapes = k.attr("feature_list_dense_shapes")

    def run(serialized: Any, debug_name: Any, *defaults: Any) -> list[Any]:
        if serialized.ndim != 1:
            raise InvalidArgumentError(f"Expected serialized to be a vector, got shape: {shape_text(serialized.shape)}")
        batch = _Batch(serialized.tolist(), texts_of(debug_name), True)
        wanted = Wanted(
            [Sparse(key, t) for key, t in zip(context_keys[0], context_sparse, strict=True)],
            [
                Dense(key, t, s, np.asarray(v))
                for key, t, s, v in zip(context_keys[1], context_types, context_shapes, defaults, strict=True)
            ],
        )
        sparse = [batch.sparse(key, t) for key, t in zip(list_keys[0], list_sparse, strict=True)]
        dense = [
            batch.dense(key, t, s, key in optional)
            for key, t, s in zip(list_keys[1], list_types, list_shapes, strict=True)
        ]
        return [*batch.context(wanted), *_columns(sparse, 3), *_columns(dense, 2)]

    return run
