"""What products share: a factor that many have, and sums of products of few rows each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.products import add_product

# Rows of both factors that a sum gathers, in bytes: what stays in a core's cache until they are multiplied.
_GATHERED = 1 << 20
# Products of so many rows gain nothing by having more.
_MANY_ROWS = 256


class Factor:
    """A matrix that several products have as their second factor, its rows one after the other.

    Args:
        array: stays as it is as long as this is there.
    """

    __slots__ = ("_forms", "_lock", "array")

    def __init__(self, array: Any) -> None:
        # Libraries are told only where it begins.
        self.array = np.ascontiguousarray(array)
        self._forms: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def form(self, key: Hashable, make: Callable[[Any], Any]) -> Any:
        """Return the matrix in some form, made of the array when it is first asked for."""
        found = self._forms.get(key)
        if found is None:
            with self._lock:
                found = self._forms.get(key)
                if found is None:
                    found = self._forms[key] = make(self.array)
        return found

    def transposed(self) -> Any:
        """Return the matrix, transposed, in the order of its rows."""
        return self.form("transposed", lambda array: np.ascontiguousarray(array.T))


class ProductSum:
    """A matrix to which products `a.T @ b` are added; rows of factors are gathered and many multiplied at once.

    Args:
        initial: it begins with; not changed.
    """

    def __init__(self, initial: Any) -> None:
        self._value = initial
        self._is_own = False
        self._stacks: tuple[Any, Any] | None = None
        self._filled = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._value.shape)

    def add(self, a: Any, b: Any) -> None:
        """Add a product of matrices with as many rows, whose columns are the sum's rows and columns."""
        rows = len(a)
        if rows >= _MANY_ROWS:
            self._multiply(a, b)
            return
        if self._stacks is None:
            width = a.shape[1] + b.shape[1]
            most = max(_GATHERED // max(width * a.dtype.itemsize, 1), _MANY_ROWS)
            self._stacks = np.empty((most, a.shape[1]), a.dtype), np.empty((most, b.shape[1]), b.dtype)
        if self._filled + rows > len(self._stacks[0]):
            self._flush()
        there = slice(self._filled, self._filled + rows)
        for stack, values in zip(self._stacks, (a, b)):
            stack[there] = values
        self._filled += rows

    def value(self) -> Any:
        """Return the sum so far, which may be the array it began with."""
        self._flush()
        return self._value

    def _flush(self) -> None:
        if self._stacks is not None and self._filled:
            filled, self._filled = self._filled, 0
            self._multiply(*(stack[:filled] for stack in self._stacks))

    def _multiply(self, a: Any, b: Any) -> None:
        if not self._is_own:
            self._value, self._is_own = np.array(self._value, order="C"), True
        add_product(np.ascontiguousarray(a), np.ascontiguousarray(b), self._value)
