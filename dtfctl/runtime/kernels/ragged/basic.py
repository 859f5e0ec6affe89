"""Ragged tensors: row splits and the values they cut into rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.pieces import repeat
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse.transform import fill_empty_rows


def row_positions(starts: Any, lengths: Any) -> Any:
    """List the positions starts[i], ..., starts[i] + lengths[i] - 1 of every row, one after the other."""
    total = int(lengths.sum())
    admit((total,), 8)
    ends = np.cumsum(lengths)
    return np.arange(total) - repeat(ends - lengths, lengths) + repeat(starts, lengths)


@register_kernel("RaggedRange")
def _ragged_range(k: KernelBuild) -> Kernel:
    splits_type, dtype = k.dtype("Tsplits").np, k.dtype("T").np

    def kernel(starts: Any, limits: Any, deltas: Any) -> Any:
        sizes = set()
        for name, t in (("starts", starts), ("limits", limits), ("deltas", deltas)):
            if t.ndim > 1:
                raise InvalidArgumentError(f"{name} must be a scalar or vector")
            if t.ndim == 1:
                sizes.add(t.shape[0])
        if len(sizes) > 1:
            raise InvalidArgumentError("starts, limits, and deltas must have the same shape")
        n = sizes.pop() if sizes else 1
        a, b, d = (np.broadcast_to(t, (n,)) for t in (starts, limits, deltas))
        if np.any(d == 0):
            raise InvalidArgumentError("Requires delta != 0")
        if dtype.kind in "iu":
            wide = [v.astype(np.int64) for v in (a, b, d)]
            span = wide[1] - wide[0]
            lengths = np.where((span > 0) == (wide[2] > 0), -(-np.abs(span) // np.abs(wide[2])), 0)
        else:
            lengths = np.where((b > a) == (d > 0), np.ceil(np.abs((b - a) / d)), 0).astype(np.int64)
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(splits_type)
        steps = row_positions(np.zeros(n, np.int64), lengths)
        values = repeat(a, lengths) + steps.astype(dtype) * repeat(d, lengths)
        return splits, values.astype(dtype, copy=False)

    return kernel


@register_kernel("RaggedGather")
def _ragged_gather(k: KernelBuild) -> Kernel:
    rank, out_rank = int(k.attr("PARAMS_RAGGED_RANK")), int(k.attr("OUTPUT_RAGGED_RANK"))

    def kernel(*args: Any) -> Any:
        nested, values, indices = args[:rank], args[rank], args[rank + 1]
        for splits in nested:
            if splits.ndim != 1 or len(splits) == 0:
                raise InvalidArgumentError("Splits must be vectors and not empty")
        if out_rank != rank + indices.ndim - 1:
            raise InvalidArgumentError(
                f"OUTPUT_RAGGED_RANK must be {rank + indices.ndim - 1} for PARAMS_RAGGED_RANK {rank} and indices of "
                f"rank {indices.ndim}, but is {out_rank}"
            )
        first = nested[0]
        flat = indices.reshape(-1)
        if flat.size and (flat.min() < 0 or flat.max() >= len(first) - 1):
            i = int(np.flatnonzero((flat < 0) | (flat >= len(first) - 1))[0])
            place = ",".join(map(str, np.unravel_index(i, indices.shape)))
            raise InvalidArgumentError(f"indices[{place}] = {int(flat[i])} is not in [0, {len(first) - 1})")
        out: list[Any] = []
        size = 1
        for d in indices.shape[:-1]:
            # Dimensions of the indices above the innermost are uniform: rows of equal length.
            out.append(np.arange(0, size * d + 1) * indices.shape[len(out) + 1])
            size *= d
        starts, lengths = first[flat], np.diff(first)[flat]
        out.append(np.concatenate([[0], np.cumsum(lengths)]))
        picked = row_positions(starts, lengths)
        for splits in nested[1:]:
            lengths = np.diff(splits)[picked]
            out.append(np.concatenate([[0], np.cumsum(lengths)]))
            picked = row_positions(splits[picked], lengths)
        if len(picked) and (picked.min() < 0 or picked.max() >= values.shape[0]):
            raise InvalidArgumentError("Ragged splits point past the values")
        if indices.ndim == 0:
            out = out[1:]
        return [*(s.astype(first.dtype) for s in out[:out_rank]), values[picked]]

    return kernel


@register_kernel("RaggedTensorToSparse")
def _to_sparse(k: KernelBuild) -> Kernel:
    rank = int(k.attr("RAGGED_RANK"))

    def kernel(*args: Any) -> Any:
        nested, values = args[:rank], args[rank]
        for splits in nested:
            if splits.ndim != 1 or len(splits) == 0:
                raise InvalidArgumentError("Ragged splits may not be empty.")
            if splits[0] != 0:
                raise InvalidArgumentError("First value of ragged splits must be 0.")
            if (np.diff(splits) < 0).any():
                raise InvalidArgumentError("Ragged splits should be non decreasing.")
        for upper, lower in itertools.pairwise(nested):
            if upper[-1] != len(lower) - 1:
                raise InvalidArgumentError(
                    "Final value of ragged splits must match the length the corresponding ragged values."
                )
        if nested[-1][-1] != values.shape[0]:
            raise InvalidArgumentError(
                "Final value of ragged splits must match the length the corresponding ragged values."
            )
        columns = [np.arange(len(nested[0]) - 1)]
        shape = [len(nested[0]) - 1]
        for splits in nested:
            lengths = np.diff(splits)
            columns = [repeat(c, lengths) for c in columns]
            columns.append(row_positions(np.zeros(len(lengths), np.int64), lengths))
            shape.append(int(lengths.max()) if len(lengths) else 0)
        inner = values.shape[1:]
        count = int(np.prod(inner))
        table: Any = np.stack(columns, axis=1) if columns else np.zeros((0, 0))
        table = repeat(table, count)
        if inner:
            places = np.array(list(np.ndindex(inner)), np.int64).reshape(count, len(inner))
            table = np.hstack([table, np.tile(places, (values.shape[0], 1))])
        return table.astype(np.int64), values.reshape(-1), np.array([*shape, *inner], np.int64)

    return kernel


@register_kernel("RaggedTensorToTensor")
def _to_tensor(k: KernelBuild) -> Kernel:
    kinds = [s.decode() for s in k.attr("row_partition_types")]

    def kernel(shape: Any, values: Any, default: Any, *partitions: Any) -> Any:
        if not kinds:
            raise InvalidArgumentError("No row partition types")
        columns: list[Any] = []
        sizes: list[int] = []
        partition = 0
        if kinds[0] == "FIRST_DIM_SIZE":
            sizes.append(int(partitions[0].reshape(())))
            partition = 1
            columns.append(np.arange(int(sizes[0])))
        elif kinds[0] == "ROW_SPLITS":
            sizes.append(len(partitions[0]) - 1)
            columns.append(np.arange(sizes[0]))
        else:
            raise InvalidArgumentError(f"Cannot handle VALUE_ROWIDS in first dimension: {kinds[0]}")
        for kind, part in zip(kinds[partition:], partitions[partition:]):
            rows = len(columns[0])
            if kind == "ROW_SPLITS":
                if len(part) == 0:
                    raise InvalidArgumentError("row_splits must not be empty")
                if len(part) - 1 != rows:
                    raise InvalidArgumentError(
                        f"Invalid row partition: {len(part) - 1} rows where {rows} were expected"
                    )
                lengths = np.diff(part)
            elif kind == "VALUE_ROWIDS":
                if len(part) and (part.min() < 0 or (np.diff(part) < 0).any()):
                    raise InvalidArgumentError("value_rowids must be sorted and not negative")
                if len(part) and part.max() >= rows:
                    raise InvalidArgumentError(f"Incorrect value rowids: {int(part.max())} >= {rows}")
                lengths = np.bincount(part, minlength=rows)
            else:
                raise InvalidArgumentError(f"Unsupported partition type: {kind}")
            if (lengths < 0).any():
                raise InvalidArgumentError("row_splits must not decrease")
            columns = [repeat(c, lengths) for c in columns]
            columns.append(row_positions(np.zeros(rows, np.int64), lengths))
            sizes.append(int(lengths.max()) if rows else 0)
        if len(columns[0]) != values.shape[0]:
            raise InvalidArgumentError(
                f"The row partitions describe {len(columns[0])} values, but there are {values.shape[0]}"
            )
        ragged = len(sizes)
        full = [*sizes, *values.shape[1:]]
        if shape.ndim == 1:
            wanted = shape.tolist()
            if len(wanted) != len(full):
                raise InvalidArgumentError(
                    f"rt_input.shape and shape={text(wanted)} are incompatible: rt_input.rank = {len(full)} but "
                    f"shape.rank = {len(wanted)}"
                )
            full = [f if w < 0 else w for f, w in zip(full, wanted)]
        elif shape.ndim == 0 and int(shape) != -1:
            raise InvalidArgumentError("The only valid scalar shape is the fully unknown shape specified as -1.")
        inner = tuple(full[ragged:])
        if inner != values.shape[1:]:
            raise InvalidArgumentError(f"Inner dimensions {text(values.shape[1:])} do not match shape {text(full)}")
        try:
            out = np.empty(full, values.dtype)
            out[...] = default.item() if values.dtype == object and default.ndim == 0 else default
        except ValueError:
            raise InvalidArgumentError(
                f"default_value.shape={text(default.shape)} and rt_input.flat_values.shape={text(values.shape)} are "
                "incompatible"
            ) from None
        keep = np.ones(len(columns[0]), np.bool_)
        for c, size in zip(columns, full):
            keep &= c < size
        out[tuple(c[keep] for c in columns)] = values[keep]
        return out

    return kernel


@register_kernel("RaggedFillEmptyRows")
def _fill_empty_rows(k: KernelBuild) -> Kernel:
    def kernel(rowids: Any, values: Any, nrows: Any, default: Any) -> Any:
        if rowids.ndim != 1:
            raise InvalidArgumentError(f"value_rowids must be a vector, saw: {text(rowids.shape)}")
        if values.ndim != 1:
            raise InvalidArgumentError(f"values must be a vector, saw: {text(values.shape)}")
        if default.ndim != 0:
            raise InvalidArgumentError(f"default_value must be a scalar, saw: {text(default.shape)}")
        n = int(nrows)
        if len(rowids) and (rowids.min() < 0 or rowids.max() >= n):
            i = int(np.flatnonzero((rowids < 0) | (rowids >= n))[0])
            raise InvalidArgumentError(f"value_rowids({i}) is invalid: {int(rowids[i])} >= {n}")
        source, rows, empty, reverse = fill_empty_rows(rowids, n)
        out = np.empty(len(source), values.dtype)
        out[:] = default.item() if values.dtype == object else default
        real = source >= 0
        out[real] = values[source[real]]
        return rows.astype(np.int64), out, empty, reverse

    return kernel
