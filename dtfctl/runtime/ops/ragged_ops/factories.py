"""Ragged constants, and placeholders."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant as dense_constant
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.tensor_shape import as_shape
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Make a ragged tensor of nested lists; a Tensor where no dimension is ragged.

    Args:
        ragged_rank: how many dimensions are ragged, beyond the first: all but the last of the nesting when None
            (less those of `inner_shape`).
        inner_shape: the shape of the elements of the innermost rows, uniform ones.

    Raises:
        ValueError: scalars at different depths, or the nesting does not fit `ragged_rank` and `inner_shape`.
        TypeError: the values do not fit `dtype`.
    """
    kind = as_dtype(row_splits_dtype)
    with name_scope(name, "RaggedConstant"):
        flat, nested, dims = _taken_apart(pylist, ragged_rank, inner_shape)
        values = _flat_tensor(flat, dims, dtype)
        if nested is None:
            return values
        result: Any = values
        for lengths in reversed(nested):
            splits = np.concatenate([[0], np.cumsum(lengths)]).astype(kind.np)
            result = RaggedTensor.from_row_splits(result, dense_constant(splits, kind), validate=False)
        return result


def _flat_tensor(flat: list[Any], dims: tuple[int, ...] | None, dtype: Any) -> Any:
    if dims is None:
        return dense_constant(flat, dtype)
    return array_ops.reshape(dense_constant(flat, dtype), dims) if not flat else dense_constant(flat, dtype, shape=dims)


def constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:
    """Make a RaggedTensorValue of nested lists, as `constant` makes a tensor; an array where nothing is ragged."""
    kind = as_dtype(row_splits_dtype).as_numpy_dtype
    if isinstance(dtype, dtypes.DType):
        dtype = dtype.as_numpy_dtype
    flat, nested, dims = _taken_apart(pylist, ragged_rank, inner_shape)
    values = np.array(flat, dtype=dtype)
    if dims is not None:
        values = values.reshape(dims)
    if nested is None:
        return values
    result: Any = values
    for lengths in reversed(nested):
        result = RaggedTensorValue(result, np.concatenate([[0], np.cumsum(lengths)]).astype(kind))
    return result


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _depths(value: Any) -> tuple[int | None, int]:
    """Find at what depth the scalars are (None where there is none), and how deep lists go."""
    if not _is_list(value):
        return 0, 0
    scalar: int | None = None
    deepest = 1
    for item in value:
        below, deep = _depths(item)
        if below is not None:
            if scalar is not None and scalar != below + 1:
                raise ValueError("all scalar values must have the same nesting depth")
            scalar = below + 1
        deepest = max(deepest, deep + 1)
    if scalar is not None and deepest > scalar:
        raise ValueError("Invalid pylist: empty list nesting is greater than scalar value nesting")
    return scalar, deepest


def _taken_apart(
    pylist: Any, ragged_rank: int | None, inner_shape: Any
) -> tuple[list[Any], list[list[int]] | None, tuple[int, ...] | None]:
    """List the innermost values, the lengths of rows at each depth (None: nothing is ragged), the values' shape."""
    inner = None if inner_shape is None else _inner_dims(inner_shape)
    pylist = _plain(pylist)
    if not _is_list(pylist):
        if ragged_rank not in (None, 0):
            raise ValueError(f"Invalid pylist={pylist}: incompatible with ragged_rank={ragged_rank}")
        if inner:
            raise ValueError(f"Invalid pylist={pylist}: incompatible with dim(inner_shape)={len(inner)}")
        return pylist, None, ()
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank}: must be nonnegative")
    scalar, deepest = _depths(pylist)
    if scalar is not None and inner is not None and scalar < len(inner) + 1 and ragged_rank is None:
        raise ValueError(f"Invalid pylist={pylist}: incompatible with dim(inner_shape)={len(inner)}")
    if ragged_rank is None:
        rank = max(1, deepest - 1) if inner is None else max(0, deepest - 1 - len(inner))
        if inner is None and scalar is None:
            rank = max(0, deepest - 1)
        if inner is None and deepest == 1:
            rank = 0
    else:
        rank = ragged_rank
        if scalar is not None and scalar < rank + 1:
            raise ValueError(
                f"Invalid pylist={pylist}: pylist has scalar values depth {scalar}, but ragged_rank={rank} requires "
                f"scalar value depth greater than {rank}"
            )
        if scalar is not None and inner is not None and scalar != rank + 1 + len(inner):
            raise ValueError(
                f"Invalid pylist={pylist}: incompatible with ragged_rank={rank} and dim(inner_shape)={len(inner)}"
            )
        if deepest > rank + 1 and inner is not None and scalar is None and deepest > rank + 1 + len(inner):
            raise ValueError(
                f"Invalid pylist={pylist}: incompatible with ragged_rank={rank} and dim(inner_shape)={len(inner)}"
            )
    level: list[Any] = pylist
    nested: list[list[int]] = []
    for _ in range(rank):
        nested.append([len(row) for row in level])
        level = [item for row in level for item in row]
    if inner is None:
        dims = _uniform_dims(level, (scalar - rank) if scalar is not None else None)
    else:
        dims = (len(level), *inner) if rank else inner
        if _uniform_dims(level, (scalar - rank) if scalar is not None else None) != dims and level:
            raise ValueError(f"Invalid pylist={pylist}: incompatible with inner_shape={inner}")
    flat = np.array(level, dtype=object).reshape(-1).tolist() if level and len(dims) > 1 else level
    return flat, nested if rank else None, dims


def _inner_dims(inner_shape: Any) -> tuple[int, ...]:
    if isinstance(inner_shape, (int, np.integer)):
        return (int(inner_shape),)
    return tuple(as_shape(list(inner_shape) if not hasattr(inner_shape, "as_list") else inner_shape).known())


def _uniform_dims(level: list[Any], depth: int | None) -> tuple[int, ...]:
    """Find the shape of rows that must not be ragged."""
    dims = [len(level)]
    current = level
    while current and _is_list(current[0]):
        lengths = {len(row) if _is_list(row) else -1 for row in current}
        if len(lengths) != 1:
            raise ValueError("inner values have inconsistent shape")
        dims.append(lengths.pop())
        current = [item for row in current for item in row]
    if any(_is_list(item) for item in current):
        raise ValueError("inner values have inconsistent shape")
    while depth is not None and len(dims) < depth:
        dims.append(0)
    return tuple(dims)


def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """Make a placeholder for a ragged tensor, fed with a RaggedTensorValue.

    Args:
        value_shape: of each of the innermost values; unknown when None.
    """
    with name_scope(name, "RaggedPlaceholder"):
        dims = as_shape(value_shape)
        if ragged_rank == 0:
            return array_ops.placeholder(dtype, dims)
        flat = array_ops.placeholder(dtype, None if dims.rank is None else [None, *dims.as_list()], "flat_values")
        result: Any = flat
        for i in reversed(range(ragged_rank)):
            splits = array_ops.placeholder(dtypes.int64, [None], f"row_splits_{i}")
            result = RaggedTensor.from_row_splits(result, splits, validate=False)
        return result
