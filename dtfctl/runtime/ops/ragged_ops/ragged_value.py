"""The value of a ragged tensor, outside a graph."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


class RaggedTensorValue:
    """What a session fetches of a RaggedTensor, or is fed for one.

    Attributes:
        values: an array, or the next inner RaggedTensorValue; row_splits: [nrows + 1], int64 or int32.
    """

    def __init__(self, values: Any, row_splits: Any) -> None:
        if not (isinstance(row_splits, (np.ndarray, np.generic)) and row_splits.dtype in (np.int64, np.int32)):
            raise TypeError(f"Argument `row_splits` must be a numpy int32 or int64 array. Received {row_splits!r}.")
        if row_splits.ndim != 1:
            raise ValueError(f"Argument `row_splits` must be 1D, got the shape {row_splits.shape}")
        if not isinstance(values, (np.ndarray, np.generic, RaggedTensorValue)):
            raise TypeError(f"Argument `values` must be a numpy array or RaggedTensorValue. Received {values!r}.")
        if isinstance(values, RaggedTensorValue) and values.row_splits.dtype != row_splits.dtype:
            raise ValueError("`row_splits` and `values.row_splits` must have the same dtype")
        self.values: Any = values
        self.row_splits: Any = row_splits

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The row splits of all ragged dimensions, outermost first."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (len(self.row_splits) - 1, None, *self.values.shape[1:])

    @property
    def _nested_row_partitions(self) -> tuple[Any, ...]:
        return self.nested_row_splits

    def to_list(self) -> list[Any]:
        """Make nested lists of Python's values."""
        whole = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        splits = self.row_splits.tolist()
        return [whole[start:end] for start, end in itertools.pairwise(splits)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedTensorValue):
            return NotImplemented
        return np.array_equal(self.row_splits, other.row_splits) and bool(np.all(self.values == other.values))

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"
