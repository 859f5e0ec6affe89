"""Lookup tables: dictionaries from keys to values that live on a device."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
)
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.pieces import array_of, each


class LookupTable(Resource):
    """What all tables share: types, shapes, the dictionary and its lock.

    Keys are kept as Python scalars, or as bytes where a key is a vector; values as Python scalars, or rows.
    """

    type_name = "LookupTable"
    kind = "table"

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: tuple[int, ...] = (),
        key_shape: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.key_dtype, self.value_dtype = key_dtype.base_dtype, value_dtype.base_dtype
        self.key_shape, self.value_shape = key_shape, value_shape
        self.lock = threading.RLock()
        self._items: dict[Any, Any] = {}

    def check_types(self, key_dtype: DType, value_dtype: DType) -> None:
        if key_dtype is not self.key_dtype:
            raise InvalidArgumentError(f"Key must be type {type_text(self.key_dtype)} but got {type_text(key_dtype)}")
        if value_dtype is not self.value_dtype:
            raise InvalidArgumentError(
                f"Value must be type {type_text(self.value_dtype)} but got {type_text(value_dtype)}"
            )

    def _lead(self, keys: Any) -> tuple[int, ...]:
        """Cut the key's own shape off that of `keys`."""
        rank = len(self.key_shape)
        if rank and keys.shape[-rank:] != self.key_shape:
            raise InvalidArgumentError(
                f"Input key shape {shape_text(keys.shape)} must end with the table's key shape "
                f"{shape_text(self.key_shape)}"
            )
        return tuple(keys.shape[: keys.ndim - rank])

    def _keys(self, keys: Any) -> list[Any]:
        lead = self._lead(keys)
        if not self.key_shape:
            return list(each(keys))
        rows = keys.reshape((int(np.prod(lead, dtype=np.int64)), *self.key_shape))
        return [_row_key(row) for row in rows]

    def _values(self, keys: Any, values: Any) -> list[Any]:
        expected = (*self._lead(keys), *self.value_shape)
        if values.shape != expected:
            raise InvalidArgumentError(
                f"Expected shape {shape_text(expected)} for value, got {shape_text(values.shape)}"
            )
        if self.value_shape:
            return list(values.reshape((-1, *self.value_shape)))
        # Scalars of types Python has none of stay numpy's own.
        flat = values.reshape(-1)
        return list(each(flat)) if flat.dtype.kind != "V" else list(flat)

    def find(self, keys: Any, default: Any) -> Any:
        """Values of `keys`, `default` (one for all, or one a key) where there is none."""
        lead = self._lead(keys)
        shape = (*lead, *self.value_shape)
        if default.shape != self.value_shape and default.shape != shape:
            raise InvalidArgumentError(
                f"Expected shape {shape_text(self.value_shape)} or {shape_text(shape)} for default value, got "
                f"{shape_text(default.shape)}"
            )
        out = np.empty(shape, self.value_dtype.np)
        out[...] = default
        with self.lock:
            get = self._items.get
            found = [get(key, _MISSING) for key in each(self._checked(self._keys(keys)))]
        rows = out.reshape((len(found), *self.value_shape))
        hits = [i for i, value in enumerate(each(found)) if value is not _MISSING]
        if hits:
            if self.value_shape:
                rows[hits] = np.stack([found[i] for i in hits])
            elif self.value_dtype.is_object:
                for i in each(hits):
                    rows[i] = found[i]
            else:
                rows[hits] = array_of([found[i] for i in each(hits)], self.value_dtype.np)
        return out

    def insert(self, keys: Any, values: Any) -> None:
        raise UnimplementedError(f"{self.kind} does not support insertion")

    def remove(self, keys: Any) -> None:
        raise UnimplementedError(f"{self.kind} does not support removal")

    def import_values(self, keys: Any, values: Any) -> None:
        raise NotImplementedError

    def size(self) -> int:
        with self.lock:
            return len(self._items)

    def export(self) -> tuple[Any, Any]:
        """List all keys and values, in the order they came."""
        with self.lock:
            return self._pack(self._items)

    def _pack(self, items: dict[Any, Any]) -> tuple[Any, Any]:
        count = len(items)
        keys: Any = np.empty((count, *self.key_shape), self.key_dtype.np)
        values: Any = np.empty((count, *self.value_shape), self.value_dtype.np)
        for i, (key, value) in enumerate(each(items.items())):
            keys[i] = self._unpack_key(key)
            values[i] = value
        return keys, values

    def _unpack_key(self, key: Any) -> Any:
        if not self.key_shape:
            return key
        if self.key_dtype is dtypes.string:
            return np.array(key, object).reshape(self.key_shape)
        return np.frombuffer(key, self.key_dtype.np).reshape(self.key_shape)

    def _checked(self, keys: list[Any]) -> list[Any]:
        return keys


_MISSING = object()


def _row_key(row: Any) -> Any:
    return tuple(row.reshape(-1).tolist()) if row.dtype == object else row.tobytes()


class HashTable(LookupTable):
    """Filled once, by its initializer; reading it before is an error."""

    kind = "HashTable"
    initialized = False

    def import_values(self, keys: Any, values: Any) -> None:
        self.initialize(zip(self._keys(keys), self._values(keys, values)))

    def initialize(self, items: Iterable[tuple[Any, Any]]) -> None:
        """Fill the table; filling it again with the same items is no error.

        Raises:
            FailedPreconditionError: it holds other items, or a key comes twice with different values.
        """
        new: dict[Any, Any] = {}
        with self.lock:
            for key, value in each(items):
                known = new.setdefault(key, value)
                if known != value:
                    raise FailedPreconditionError(
                        f"HashTable has different value for same key. Key {_shown(key)} has {_shown(known)} and trying "
                        f"to add value {_shown(value)}"
                    )
            if self.initialized:
                if new != self._items:
                    raise FailedPreconditionError("Table was already initialized with different data.")
                return
            self._items, self.initialized = new, True

    def find(self, keys: Any, default: Any) -> Any:
        if not self.initialized:
            raise FailedPreconditionError("Table not initialized.")
        return super().find(keys, default)


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class MutableHashTable(LookupTable):
    """May be written at any time."""

    kind = "MutableHashTable"

    def insert(self, keys: Any, values: Any) -> None:
        new = dict(each(zip(self._checked(self._keys(keys)), self._copied(self._values(keys, values)))))
        with self.lock:
            self._items.update(new)

    def remove(self, keys: Any) -> None:
        with self.lock:
            for key in self._checked(self._keys(keys)):
                self._items.pop(key, None)

    def import_values(self, keys: Any, values: Any) -> None:
        new = dict(zip(self._keys(keys), self._copied(self._values(keys, values))))
        with self.lock:
            self._items = new

    def _copied(self, values: list[Any]) -> list[Any]:
        # Rows are views; a table must not keep a whole batch alive for one row.
        return [v.copy() for v in values] if self.value_shape else values


class DenseHashTable(MutableHashTable):
    """A mutable table with two keys set aside, which TensorFlow's open addressing needs."""

    kind = "MutableDenseHashTable"

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: tuple[int, ...],
        empty_key: Any,
        deleted_key: Any,
        buckets: int = 131072,
        max_load: float = 0.8,
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, value_shape, empty_key.shape)
        sizes = [(key_dtype, math.prod(empty_key.shape)), (value_dtype, math.prod(value_shape))]
        admit((buckets,), sum(np.dtype(dtype.np).itemsize * count for dtype, count in sizes))
        self._buckets, self._max_load = buckets, max_load
        self._removed: list[Any] = []
        self._empty = self._keys(empty_key)[0]
        self._deleted = self._keys(deleted_key)[0] if deleted_key is not None else _MISSING
        if self._empty == self._deleted:
            raise InvalidArgumentError("Empty and deleted keys cannot be equal")

    def _lead(self, keys: Any) -> tuple[int, ...]:
        rank = len(self.key_shape)
        if keys.ndim > 1 + rank or keys.shape[keys.ndim - rank :] != self.key_shape:
            expected = (*keys.shape[:1], *self.key_shape)
            raise InvalidArgumentError(f"Expected key shape {shape_text(expected)} got {shape_text(keys.shape)}")
        return super()._lead(keys)

    def insert(self, keys: Any, values: Any) -> None:
        with self.lock:
            pending = len(self._items) + int(np.prod(self._lead(keys), dtype=np.int64))
            super().insert(keys, values)
            while self._buckets * self._max_load < pending:
                self._buckets *= 2
                self._removed = []

    def remove(self, keys: Any) -> None:
        """Take keys out. Their buckets keep the values under the deleted key until the table grows."""
        with self.lock:
            for key in self._checked(self._keys(keys)):
                if key in self._items:
                    self._removed.append(self._items.pop(key))

    def export(self) -> tuple[Any, Any]:
        """List all buckets: those in use, removed ones under the deleted key, empty ones under the empty key."""
        with self.lock:
            keys, values = super().export()
            unused = max(0, self._buckets - len(keys))
            removed = self._removed[:unused]
        gone: Any = np.empty((len(removed), *self.key_shape), self.key_dtype.np)
        if removed:
            gone[...] = self._unpack_key(self._deleted)
            left: Any = np.empty((len(removed), *self.value_shape), self.value_dtype.np)
            for i, value in enumerate(removed):
                left[i] = value
            keys, values = np.concatenate([keys, gone]), np.concatenate([values, left])
            unused -= len(removed)
        empty: Any = np.empty((unused, *self.key_shape), self.key_dtype.np)
        empty[...] = self._unpack_key(self._empty)
        zeros: Any = np.zeros((unused, *self.value_shape), self.value_dtype.np)
        if self.value_dtype is dtypes.string:
            zeros[...] = b""
        # As TensorFlow keeps them: a row for each bucket, of single numbers too.
        all_keys, all_values = np.concatenate([keys, empty]), np.concatenate([values, zeros])
        return all_keys.reshape(len(all_keys), *(self.key_shape or (1,))), all_values.reshape(
            len(all_values), *(self.value_shape or (1,))
        )

    def _checked(self, keys: list[Any]) -> list[Any]:
        if self._empty in keys:
            raise InvalidArgumentError("Using the empty_key as a table key is not allowed")
        if self._deleted is not _MISSING and self._deleted in keys:
            raise InvalidArgumentError("Using the deleted_key as a table key is not allowed")
        return keys

    def import_values(self, keys: Any, values: Any) -> None:
        if not self.key_shape and keys.ndim == 2 and keys.shape[1] == 1:
            keys = keys[:, 0]
        if not self.value_shape and values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        pairs = zip(self._keys(keys), self._copied(self._values(keys, values)))
        new = {k: v for k, v in pairs if k != self._empty and k != self._deleted}
        with self.lock:
            self._items = new
            self._removed = []
            # What is imported are the buckets of another table, empty ones included.
            self._buckets = max(1, int(np.prod(self._lead(keys), dtype=np.int64)))
