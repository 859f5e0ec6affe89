"""Parsing of Example and SequenceExample messages into dense, sparse and ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtfctl.protocol import example_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.arguments import texts_of
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.pieces import array_of, each
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

COUNTED = {dtypes.string: "bytes", dtypes.float32: "float", dtypes.int64: "int64"}
KINDS = {"bytes_list": dtypes.string, "float_list": dtypes.float32, "int64_list": dtypes.int64}


@dataclass
class Dense:
    """A feature that every example has, of one shape; its first dimension may vary when the shape leaves it open."""

    key: str
    dtype: DType
    shape: TensorShape
    default: Any

    @property
    def variable(self) -> bool:
        dims = self.shape.dims_or_none
        return dims is not None and len(dims) > 0 and dims[0] is None

    @property
    def row(self) -> tuple[int, ...]:
        """The fixed part of the shape."""
        dims = self.shape.dims_or_none or ()
        return tuple(d or 0 for d in (dims[1:] if self.variable else dims))


@dataclass
class Sparse:
    """A feature with any number of values."""

    key: str
    dtype: DType


@dataclass
class Ragged:
    key: str
    dtype: DType
    split_type: DType


@dataclass
class Wanted:
    """The features to take out of a message."""

    sparse: list[Sparse] = field(default_factory=list)
    dense: list[Dense] = field(default_factory=list)
    ragged: list[Ragged] = field(default_factory=list)


def _values(feature: example_pb2.Feature, dtype: DType, where: str) -> list[Any] | None:
    """Read the values of a feature; None when it holds no list.

    Raises:
        InvalidArgumentError: they are of another type.
    """
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    if KINDS[kind] is not dtype:
        raise InvalidArgumentError(
            f"{where}.  Data types don't match. Data type: {type_text(KINDS[kind])} but expected type: "
            f"{type_text(dtype)}"
        )
    return list(getattr(feature, kind).value)


def pack(values: list[Any], dtype: DType, shape: tuple[int, ...]) -> Any:
    if dtype is dtypes.string:
        return array_of(values, object, shape)
    return array_of(values, dtype.np, shape)


def _parse(serialized: bytes, index: int) -> example_pb2.Example:
    try:
        return example_pb2.Example.FromString(serialized)
    except Exception as e:
        shown = serialized[:64].decode("utf-8", "replace")
        raise InvalidArgumentError(f"Could not parse example input, value: '{shown}'") from e


def parse_features(rows: Sequence[Any], names: Sequence[str], wanted: Wanted) -> list[Any]:
    """Outputs in the order of ParseExampleV2: sparse indices, values and shapes, dense, ragged values and splits.

    Args:
        rows: for each example its map from key to Feature.
    """
    indices, values, shapes = [], [], []
    for sparse in wanted.sparse:
        found = [_feature_values(r, sparse.key, sparse.dtype, names, i) or [] for i, r in enumerate(each(rows))]
        places = [(i, j) for i, row in enumerate(found) for j in range(len(row))]
        indices.append(array_of([i for place in each(places) for i in place], np.int64, (len(places), 2)))
        values.append(pack([v for row in each(found) for v in row], sparse.dtype, (len(places),)))
        shapes.append(np.array([len(rows), max(map(len, found), default=0)], np.int64))
    dense = [_dense(d, rows, names) for d in wanted.dense]
    ragged_values, ragged_splits = [], []
    for ragged in wanted.ragged:
        found = [_feature_values(r, ragged.key, ragged.dtype, names, i) or [] for i, r in enumerate(each(rows))]
        flat = [v for row in each(found) for v in row]
        ragged_values.append(pack(flat, ragged.dtype, (len(flat),)))
        ragged_splits.append(np.cumsum([0, *map(len, found)]).astype(ragged.split_type.np))
    return [*indices, *values, *shapes, *dense, *ragged_values, *ragged_splits]


def _feature_values(row: Any, key: str, dtype: DType, names: Sequence[str], i: int) -> list[Any] | None:
    if key not in row:
        return None
    name = names[i] if names else "<unknown>"
    return _values(row[key], dtype, f"Name: {name}, Key: {key}, Index: {i}")


def _dense(d: Dense, rows: Sequence[Any], names: Sequence[str]) -> Any:
    size = int(np.prod(d.row, dtype=np.int64))
    found: list[list[Any]] = []
    for i, row in enumerate(each(rows)):
        name = names[i] if names else "<unknown>"
        values = _feature_values(row, d.key, d.dtype, names, i)
        if values is None:
            if d.variable:
                values = []
            elif d.default.size == 0 and size:
                raise InvalidArgumentError(
                    f"Name: {name}, Feature: {d.key} (data type: {type_text(d.dtype)}) is required but could not be "
                    "found."
                )
            else:
                values = d.default.reshape(-1).tolist()
        elif d.variable:
            if size == 0 or len(values) % size:
                raise InvalidArgumentError(
                    f"Name: {name}, Key: {d.key}, Index: {i}.  Number of {COUNTED[d.dtype]} values is not a multiple "
                    f"of stride length. Saw {len(values)} values but output shape is: {shape_text(d.shape)}"
                )
        elif len(values) != size:
            raise InvalidArgumentError(
                f"Name: {name}, Key: {d.key}, Index: {i}.  Number of {COUNTED[d.dtype]} values != expected.  Values "
                f"size: {len(values)} but output shape: {shape_text(d.shape)}"
            )
        found.append(values)
    if not d.variable:
        return pack([v for row in each(found) for v in row], d.dtype, (len(rows), *d.row))
    longest = max((len(v) // size for v in found), default=0)
    padding = d.default.reshape(-1).tolist()[0] if d.default.size else b"" if d.dtype is dtypes.string else 0
    flat = [v for row in found for v in row + [padding] * (longest * size - len(row))]
    return pack(flat, d.dtype, (len(rows), longest, *d.row))


def dense_features(keys: list[str], k: KernelBuild, defaults: Sequence[Any]) -> list[Dense]:
    """Describe the dense features of a node, from its attributes and default values.

    Raises:
        InvalidArgumentError: a default value does not fit its feature.
    """
    types, shapes = k.attr("Tdense"), k.attr("dense_shapes")
    out: list[Dense] = []
    for key, dtype, shape, default in zip(keys, types, shapes, defaults, strict=True):
        dense = Dense(key, dtype, shape, np.asarray(default))
        if dense.variable and default.size != 1:
            at = len(out)
            raise InvalidArgumentError(
                f"dense_shape[{at}] is a variable length shape: {shape_text(shape)}, therefore def_value[{at}] must "
                f"contain a single element (the padding element).  But its shape is: {shape_text(default.shape)}"
            )
        if not dense.variable and default.size and not shape.is_compatible_with(default.shape):
            raise InvalidArgumentError(
                f"Default value shape {shape_text(default.shape)} of feature '{key}' does not match {shape_text(shape)}"
            )
        out.append(dense)
    return out


def parse_rows(serialized: Any, wanted: Wanted, names: Sequence[str] = ()) -> list[Any]:
    """Parse a vector of serialized Examples; the features come as `parse_features` orders them."""
    rows = [_parse(s, i).features.feature for i, s in enumerate(each(serialized))]
    return parse_features(rows, names, wanted)


def _run_batch(serialized: Any, names: Any, wanted: Wanted) -> list[Any]:
    if names.size and names.size != serialized.size:
        raise InvalidArgumentError(
            f"Expected len(names) == len(serialized), but got: {names.size} vs. {serialized.size}",
        )
    if serialized.ndim == 1:
        return parse_rows(serialized, wanted, texts_of(names))
    if serialized.ndim != 0:
        raise InvalidArgumentError(f"Expected serialized to be a scalar or vector, got: {shape_text(serialized.shape)}")
    return single(serialized.reshape(-1)[0], wanted)


def _check_alone(row: Any, wanted: Wanted) -> None:
    """Check the numbers of values of an example that is parsed by itself, which has error texts of its own."""
    for d in wanted.dense:
        values = _feature_values(row, d.key, d.dtype, [], 0)
        if values is None:
            continue
        size, kind = int(np.prod(d.row, dtype=np.int64)), COUNTED[d.dtype]
        if d.variable and (size == 0 or len(values) % size):
            raise InvalidArgumentError(
                f"Error while parsing the example, key {d.key}: {len(values)} {kind} values are not a multiple of the "
                f"stride {size}, output shape {shape_text(d.shape)}"
            )
        if not d.variable and len(values) != size:
            what = f"Parsing {kind}_list failed." if len(values) > size else f"Some {kind}_list slice was not parsed."
            raise InvalidArgumentError(
                f"Key: {d.key}.  Can't parse serialized Example: {what} {len(values)} values instead of {size}"
            )


def single(serialized: bytes, wanted: Wanted) -> list[Any]:
    """Parse one serialized Example as a batch of one, without the batch dimension."""
    row = _parse(serialized, 0).features.feature
    _check_alone(row, wanted)
    out = parse_features([row], [], wanted)
    s, d, r = len(wanted.sparse), len(wanted.dense), len(wanted.ragged)
    indices = [v[:, 1:] for v in out[:s]]
    values, shapes = out[s : 2 * s], [v[1:] for v in out[2 * s : 3 * s]]
    dense = [v[0, ...] for v in out[3 * s : 3 * s + d]]
    return [*indices, *values, *shapes, *dense, *out[3 * s + d : 3 * s + d + r], *out[3 * s + d + r :]]


@register_kernel("ParseExample", pieces=True)
def parse_example(k: KernelBuild) -> Kernel:
    sparse_count, dense_count, types = k.attr("Nsparse"), k.attr("Ndense"), k.attr("sparse_types")

    def run(serialized: Any, names: Any, *rest: Any) -> list[Any]:
        sparse_keys = [texts_of(v)[0] for v in rest[:sparse_count]]
        dense_keys = [texts_of(v)[0] for v in rest[sparse_count : sparse_count + dense_count]]
        defaults = rest[sparse_count + dense_count :]
        sparse = [Sparse(key, t) for key, t in zip(sparse_keys, types, strict=True)]
        return _run_batch(serialized, names, Wanted(sparse, dense_features(dense_keys, k, defaults)))

    return run


@register_kernel("ParseExampleV2", pieces=True)
def parse_example_v2(k: KernelBuild) -> Kernel:
    types = k.attr("sparse_types")
    ragged_types, split_types = k.attr("ragged_value_types"), k.attr("ragged_split_types")

    def run(serialized: Any, names: Any, sparse: Any, dense: Any, ragged: Any, *defaults: Any) -> list[Any]:
        wanted = Wanted(
            [Sparse(key, t) for key, t in zip(texts_of(sparse), types, strict=True)],
            dense_features(texts_of(dense), k, defaults),
            [Ragged(key, v, s) for key, v, s in zip(texts_of(ragged), ragged_types, split_types, strict=True)],
        )
        return _run_batch(serialized, names, wanted)

    return run


@register_kernel("ParseSingleExample", pieces=True)
def parse_single_example(k: KernelBuild) -> Kernel:
    sparse_keys = [key.decode() for key in k.attr("sparse_keys")]
    dense_keys = [key.decode() for key in k.attr("dense_keys")]
    types = k.attr("sparse_types")

    def run(serialized: Any, *defaults: Any) -> list[Any]:
        if serialized.ndim != 0:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar, got shape: {shape_text(serialized.shape)}",
            )
        sparse = [Sparse(key, t) for key, t in zip(sparse_keys, types, strict=True)]
        return single(serialized.reshape(-1)[0], Wanted(sparse, dense_features(dense_keys, k, defaults)))

    return run


@register_kernel("ParseSingleSequenceExample", pieces=True)
def parse_single_sequence_example(k: KernelBuild) -> Kernel:
    counts = [k.attr(n) for n in ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense")]
    context_sparse_types, context_types = k.attr("context_sparse_types"), k.attr("Tcontext_dense")
    context_shapes = k.attr("context_dense_shapes")
    list_sparse_types, list_types = k.attr("feature_list_sparse_types"), k.attr("feature_list_dense_types")
    list_shapes = k.attr("feature_list_dense_shapes")

    def run(serialized: Any, may_be_missing: Any, *rest: Any) -> list[Any]:
        at, keys = 0, []
        for count in counts:
            keys.append([texts_of(v)[0] for v in rest[at : at + count]])
            at += count
        defaults, name = rest[at : at + counts[1]], texts_of(rest[-1])
        try:
            proto = example_pb2.SequenceExample.FromString(serialized.reshape(-1)[0])
        except Exception as e:
            raise InvalidArgumentError("Could not parse example input") from e
        label = name[0] if name else ""
        wanted = Wanted(
            [Sparse(key, t) for key, t in zip(keys[0], context_sparse_types, strict=True)],
            [
                Dense(key, t, s, np.asarray(v))
                for key, t, s, v in zip(keys[1], context_types, context_shapes, defaults, strict=True)
            ],
        )
        context = parse_features([proto.context.feature], [label], wanted)
        n = counts[0]
        out = [v[:, 1:] for v in context[:n]] + context[n : 2 * n] + [v[1:] for v in context[2 * n : 3 * n]]
        out += [v[0, ...] for v in context[3 * n :]]
        lists = proto.feature_lists.feature_list
        indices, values, shapes = [], [], []
        for key, dtype in zip(keys[2], list_sparse_types, strict=True):
            steps = _steps(lists, key, dtype, label) or []
            places = [(i, j) for i, row in enumerate(steps) for j in range(len(row))]
            indices.append(array_of([i for place in each(places) for i in place], np.int64, (len(places), 2)))
            values.append(pack([v for row in each(steps) for v in row], dtype, (len(places),)))
            shapes.append(np.array([len(steps), max(map(len, steps), default=0)], np.int64))
        dense = []
        optional = set(texts_of(may_be_missing))
        for key, dtype, shape in zip(keys[3], list_types, list_shapes, strict=True):
            found = _steps(lists, key, dtype, label)
            if found is None and key not in optional:
                raise InvalidArgumentError(
                    f"Name: {label}, Feature list '{key}' is required but could not be found.  Did you mean to include "
                    "it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
                )
            dims = shape.known()
            size = int(np.prod(dims, dtype=np.int64))
            for i, row in enumerate(found or []):
                if len(row) != size:
                    raise InvalidArgumentError(
                        f"Name: {label}, Key: {key}, Index: {i}.  Number of {type_text(dtype)} values != expected.  "
                        f"values size: {len(row)} but output shape: {shape_text(shape)}"
                    )
            dense.append(pack([v for row in found or [] for v in row], dtype, (len(found or []), *dims)))
        return [*out, *indices, *values, *shapes, *dense]

    return run


def _steps(lists: Any, key: str, dtype: DType, label: str) -> list[list[Any]] | None:
    if key not in lists:
        return None
    return [
        _values(feature, dtype, f"Name: {label}, Feature list: {key}, Index: {i}") or []
        for i, feature in enumerate(lists[key].feature)
    ]
