"""Sparse tensors as kernels see them: indices [n, rank], values [n], dense shape [rank]."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import ints, product, text


def check(indices: Any, values: Any, shape: Any, what: str = "") -> tuple[int, ...]:
    """Check that the three parts of a sparse tensor fit together, and return its dense shape.

    Raises:
        InvalidArgumentError: a rank or a length is wrong.
    """
    name = f"{what} " if what else ""
    if indices.ndim != 2:
        raise InvalidArgumentError(f"Input {name}indices should be a matrix but received shape {text(indices.shape)}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"Input {name}values should be a vector but received shape {text(values.shape)}")
    if shape.ndim != 1:
        raise InvalidArgumentError(f"Input {name}shape should be a vector but received shape {text(shape.shape)}")
    if indices.shape[0] != values.shape[0]:
        raise InvalidArgumentError(
            f"Number of {name}values must match first dimension of indices. Got {values.shape[0]} values, indices "
            f"shape: {text(indices.shape)}"
        )
    if indices.shape[1] != shape.shape[0]:
        raise InvalidArgumentError(
            f"Number of dimensions must match second dimension of {name}indices. Got {shape.shape[0]} dimensions, "
            f"indices shape: {text(indices.shape)}"
        )
    dims = ints(shape)
    for d in dims:
        if d < 0:
            raise InvalidArgumentError(f"Dimension {d} must be >= 0")
    if product(dims) >= 2**63:
        raise InvalidArgumentError(f"Encountered overflow when multiplying {text(dims)}, result: -1")
    return dims


def validate(indices: Any, values: Any, shape: Any) -> tuple[int, ...]:
    """Check parts and indices in the words of TensorFlow's newer sparse ops, and return the dense shape.

    Raises:
        InvalidArgumentError: a rank or a length is wrong, or an index is outside.
    """
    for name, part, rank in (("indices", indices, 2), ("values", values, 1), ("shape", shape, 1)):
        if part.ndim != rank:
            raise InvalidArgumentError(f"Sparse {name} must be rank {rank} but is rank {part.ndim}")
    if values.shape[0] != indices.shape[0]:
        raise InvalidArgumentError(
            f"Number of elements in indices ({indices.shape[0]}) and values ({values.shape[0]}) do not match"
        )
    if shape.shape[0] != indices.shape[1]:
        raise InvalidArgumentError(f"Index rank ({indices.shape[1]}) and shape rank ({shape.shape[0]}) do not match")
    dims = check(indices, values, shape)
    in_bounds(indices, dims)
    return dims


def same_number(indices: Any, values: Any, shape: Any) -> None:
    """Raise InvalidArgumentError when lengths disagree, in the words of the ops that validate."""
    if indices.ndim == 2 and values.ndim == 1 and indices.shape[0] != values.shape[0]:
        raise InvalidArgumentError(
            f"Number of elements in index ({indices.shape[0]}) and values ({values.shape[0]}) do not match"
        )
    if indices.ndim == 2 and shape.ndim == 1 and indices.shape[1] != shape.shape[0]:
        raise InvalidArgumentError(
            f"Number of elements in an index ({indices.shape[1]}) and in the shape ({shape.shape[0]}) do not match"
        )


def in_bounds(indices: Any, dims: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError naming the first index outside the dense shape."""
    if indices.size == 0:
        return
    bad = ((indices < 0) | (indices >= np.array(dims))).any(axis=1)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidArgumentError(
            f"indices[{i}] = {text(indices[i].tolist())} is out of bounds: need 0 <= index < {text(dims)}"
        )


def linear(indices: Any, dims: tuple[int, ...]) -> Any:
    """Row-major position of every index, int64."""
    flat = np.zeros(indices.shape[0], np.int64)
    for i, d in enumerate(dims):
        flat = flat * d + indices[:, i]
    return flat


def unravel(flat: Any, dims: tuple[int, ...]) -> Any:
    """[n, rank] indices of row-major positions, int64."""
    out = np.empty((len(flat), len(dims)), np.int64)
    for i in range(len(dims) - 1, -1, -1):
        out[:, i] = flat % dims[i] if dims[i] else 0
        flat = flat // dims[i] if dims[i] else flat
    return out


def order_of(indices: Any) -> Any:
    """Find the stable permutation that sorts indices row-major."""
    if indices.shape[1] == 0:
        return np.arange(indices.shape[0])
    return np.lexsort(indices.T[::-1])


def ordered(indices: Any, distinct: bool = True) -> None:
    """Raise InvalidArgumentError unless indices are sorted row-major (and distinct)."""
    if len(indices) < 2:
        return
    before, after = indices[:-1], indices[1:]
    differs = before != after
    some = differs.any(axis=1)
    first = differs.argmax(axis=1)
    rows = np.arange(len(before))
    wrong = some & (after[rows, first] < before[rows, first])
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0]) + 1
        raise InvalidArgumentError(
            f"indices[{i}] = {text(indices[i].tolist())} is out of order. Many sparse ops require sorted indices.\n"
            "    Use `tf.sparse.reorder` to create a correctly ordered copy."
        )
    if distinct and not some.all():
        i = int(np.flatnonzero(~some)[0]) + 1
        raise InvalidArgumentError(f"indices[{i}] = {text(indices[i].tolist())} is repeated")
