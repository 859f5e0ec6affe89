"""Feature crosses: every combination of one feature from each column, joined or hashed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.pieces import array_of, each, joined, listed
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.result_sizes.table import SLOT_BYTES

Rows = list[list[Any]]
_MASK = (1 << 64) - 1
_MUL = 0xC6A4A7935BD1E995
_MAX_INT64 = (1 << 63) - 1


def fingerprint_cat(a: int, b: int) -> int:
    """Combine two 64-bit fingerprints, as TensorFlow's FingerprintCat64 does."""
    h = a ^ _MUL
    mixed = (b * _MUL) & _MASK
    h ^= ((mixed ^ (mixed >> 47)) * _MUL) & _MASK
    h = (h * _MUL) & _MASK
    h = ((h ^ (h >> 47)) * _MUL) & _MASK
    return h ^ (h >> 47)


def sparse_rows(indices: Any, values: Any, shape: Any) -> Rows:
    """Read a [batch, n] sparse column as a list of its features for each row."""
    if indices.ndim != 2:
        raise InvalidArgumentError(f"Input indices should be a matrix but received shape {text(indices.shape)}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"Input values should be a vector but received shape {text(values.shape)}")
    if shape.ndim != 1:
        raise InvalidArgumentError(f"Input shapes should be a vector but received shape {text(shape.shape)}")
    if indices.shape[1] != 2:
        raise InvalidArgumentError(f"Expected D2 of index to be 2 got {indices.shape[1]}")
    if shape.shape != (2,) or indices.shape[0] != values.shape[0]:
        raise InvalidArgumentError(
            f"Expected sparse columns of shape [batch, n], got indices {text(indices.shape)}, values "
            f"{text(values.shape)}, shape {text(shape.shape)}"
        )
    rows: Rows = [[] for _ in range(int(shape[0]))]
    for place, value in zip(each(indices[:, 0]), each(values)):
        if not 0 <= place < len(rows):
            raise InvalidArgumentError(f"Row index {place} is outside of valid range [0, {len(rows)}]")
        rows[place].append(value)
    return rows


def dense_rows(x: Any) -> Rows:
    if x.ndim != 2:
        raise InvalidArgumentError(f"Dense inputs should be a matrix but received shape {text(x.shape)}")
    return listed(x)


def ragged_rows(values: Any, splits: Any) -> Rows:
    items, cuts = list(each(values)), list(each(splits))
    return [items[a:b] for a, b in itertools.pairwise(cuts)]


def cross(columns: Sequence[Rows], combine: Callable[[tuple[Any, ...]], Any]) -> list[list[Any]]:
    """Combine the features of each row in all ways; a row where some column is empty has none."""
    if not columns:
        return []
    batch = len(columns[0])
    if any(len(c) != batch for c in columns):
        raise InvalidArgumentError(
            f"Expected batch size {batch}, got {next(len(c) for c in columns if len(c) != batch)}"
        )
    admit((sum(math.prod(len(c[i]) for c in columns) for i in each(range(batch))),), SLOT_BYTES)
    return [[combine(t) for t in each(itertools.product(*(c[i] for c in columns)))] for i in range(batch)]


def joiner(separator: bytes) -> Callable[[tuple[Any, ...]], bytes]:
    return lambda features: joined([f if isinstance(f, bytes) else b"%d" % f for f in features], separator)


def hasher(buckets: int, start: int | None, of: Callable[[Any], int]) -> Callable[[tuple[Any, ...]], int]:
    """Nested hash of the features, from `start` (or from the first feature), modulo the buckets."""

    def combine(features: tuple[Any, ...]) -> int:
        hashes = [of(f) & _MASK for f in features]
        h = hashes.pop(0) if start is None else start & _MASK
        for one in hashes:
            h = fingerprint_cat(h, one)
        return h % (buckets if buckets > 0 else _MAX_INT64)

    return combine


def plain_hash(feature: Any) -> int:
    """Strings by fingerprint, integers as they are."""
    from dtfctl.runtime.kernels.string.hashing import fingerprint64

    return fingerprint64(feature) if isinstance(feature, bytes) else int(feature)


def _bytes_of(feature: Any) -> bytes:
    # TensorFlow hashes the first four bytes of the integer here (the size of its dtype tag).
    return feature if isinstance(feature, bytes) else int(feature & _MASK).to_bytes(8, "little")[:4]


def keyed_hash(key: Sequence[int] | None) -> Callable[[Any], int]:
    """Make a hash of a feature's bytes: a fingerprint, or SipHash under a key."""
    from dtfctl.runtime.kernels.string.hashing import fingerprint64, siphash

    if key is None:
        return lambda f: fingerprint64(_bytes_of(f))
    low, high = (int(v) & _MASK for v in key)
    return lambda f: siphash(low, high, _bytes_of(f))


def _sparse_result(rows: list[list[Any]], dtype: Any) -> tuple[Any, Any, Any]:
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    flat = list(itertools.chain.from_iterable(rows))
    values = array_of(flat, dtype)
    longest = max(map(len, rows), default=0)
    return (
        array_of([i for place in each(places) for i in place], np.int64, (len(places), 2)),
        values,
        np.array([len(rows), longest], np.int64),
    )


def _columns(args: Sequence[Any], n: int, dense: int) -> list[Rows]:
    indices, values, shapes = args[:n], args[n : 2 * n], args[2 * n : 3 * n]
    columns = [sparse_rows(i, v, s) for i, v, s in zip(indices, values, shapes)]
    return columns + [dense_rows(x) for x in args[3 * n : 3 * n + dense]]


@register_kernel("SparseCross", pieces=True)
def _sparse_cross(k: KernelBuild) -> Kernel:
    n, dense = int(k.attr("N")), len(k.attr("dense_types") or ())
    dtype = k.dtype("out_type").np
    combine: Callable[[tuple[Any, ...]], Any] = (
        joiner(b"_X_")
        if k.dtype("out_type") is dtypes.string
        else hasher(int(k.attr("num_buckets")), int(k.attr("hash_key")), plain_hash)
    )
    return lambda *args: _sparse_result(cross(_columns(args, n, dense), combine), dtype)


@register_kernel("SparseCrossV2", pieces=True)
def _sparse_cross_v2(k: KernelBuild) -> Kernel:
    n, dense = int(k.attr("N")), len(k.attr("dense_types") or ())

    def kernel(*args: Any) -> Any:
        if args[-1].ndim:
            raise InvalidArgumentError(f"Input separator should be a scalar. Received: {text(args[-1].shape)}")
        return _sparse_result(cross(_columns(args, n, dense), joiner(args[-1].item())), np.dtype(object))

    return kernel


@register_kernel("SparseCrossHashed", pieces=True)
def _sparse_cross_hashed(k: KernelBuild) -> Kernel:
    n, dense = int(k.attr("N")), len(k.attr("dense_types") or ())

    def kernel(*args: Any) -> Any:
        *columns, buckets, strong, salt = args
        if salt.shape != (2,):
            raise InvalidArgumentError(f'Input "salt" must have length 2, got shape {text(salt.shape)}')
        sparse_hash = keyed_hash(salt.tolist() if strong else None)
        parts = _columns(columns, n, dense)
        hashed: list[Rows] = []
        for i, column in enumerate(parts):
            of = sparse_hash if i < n or bool(strong) else plain_hash
            hashed.append([[of(f) for f in each(row)] for row in column])
        return _sparse_result(cross(hashed, hasher(int(buckets), None, int)), np.dtype(np.int64))

    return kernel


@register_kernel("RaggedCross", pieces=True)
def _ragged_cross(k: KernelBuild) -> Kernel:
    order, hashed = k.text_attr("input_order"), bool(k.attr("hashed_output"))
    n_ragged, n_sparse = len(k.attr("ragged_values_types") or ()), int(k.attr("Nsparse"))
    dtype, splits_type = k.dtype("out_values_type").np, k.dtype("out_row_splits_type").np
    combine: Callable[[tuple[Any, ...]], Any] = (
        hasher(int(k.attr("num_buckets")), int(k.attr("hash_key")), plain_hash) if hashed else joiner(b"_X_")
    )

    def kernel(*args: Any) -> Any:
        r, s = n_ragged, n_sparse
        for values, splits in zip(args[:r], args[r : 2 * r]):
            if values.ndim != 1:
                raise InvalidArgumentError("tf.ragged.cross only supports inputs with rank=2")
            if not splits.size:
                raise InvalidArgumentError("Invalid ragged splits: there must be at least one split, but there is none")
            if splits[-1] != len(values):
                raise InvalidArgumentError(
                    f"Invalid ragged splits: last element of ragged splits must be the number of ragged values"
                    f"({len(values)}) but is {int(splits[-1])}"
                )
        pools = {
            "R": [ragged_rows(v, p) for v, p in zip(args[:r], args[r : 2 * r])],
            "S": [sparse_rows(*t) for t in zip(*(args[2 * r + i * s : 2 * r + (i + 1) * s] for i in range(3)))],
            "D": [dense_rows(x) for x in args[2 * r + 3 * s :]],
        }
        rows = cross([pools[kind].pop(0) for kind in order], combine)
        flat = list(itertools.chain.from_iterable(rows))
        values = array_of(flat, dtype)
        splits = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(splits_type)
        return values, splits

    return kernel
