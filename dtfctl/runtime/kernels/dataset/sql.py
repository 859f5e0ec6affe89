"""Rows of a query in a SQLite database as elements."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnknownError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import Dataset, Element, EndOfSequence, Iteration, Next, scalar_of
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class SqlDataset(Dataset):
    """The database is opened, and the query run, when a pass is asked for its first row."""

    def __init__(self, path: str, query: str, columns: tuple[DType, ...]) -> None:
        self.path, self.query, self.columns = path, query, columns

    def iterate(self, iteration: Iteration) -> Next:
        rows: sqlite3.Cursor | None = None
        ended = False

        def advance() -> Element:
            nonlocal rows, ended
            if ended:
                raise EndOfSequence
            try:
                if rows is None:
                    rows = self._open()
                    iteration.on_close(rows.connection.close)
                row = rows.fetchone()
                if row is None:
                    ended = True
                    rows.connection.commit()
                    rows.connection.close()
                    raise EndOfSequence
            except (sqlite3.Error, sqlite3.Warning) as e:
                raise UnknownError(f"SQLite: {e}: {self.query}") from e
            return tuple(map(_value, row, self.columns))

        return advance

    def _open(self) -> sqlite3.Cursor:
        """Query the rows, in a transaction; a query of other columns leaves the database as it was."""
        database = sqlite3.connect(local_path(self.path), check_same_thread=False, isolation_level=None)
        database.text_factory = bytes
        try:
            database.execute("BEGIN")
            rows = database.execute(self.query)
            self._check(rows)
        except BaseException:
            database.close()
            raise
        return rows

    def _check(self, rows: sqlite3.Cursor) -> None:
        count = len(rows.description or ())
        if count != len(self.columns):
            raise InvalidArgumentError(
                f"The number of columns in query ({count}) must match the number of elements in output_types "
                f"({len(self.columns)})."
            )


def _value(item: Any, dtype: DType) -> Any:
    """Convert what a column holds as SQLite does: NULL counts as zero and as nothing."""
    if dtype is dtypes.string:
        return object_scalar(item if isinstance(item, bytes) else b"" if item is None else str(item).encode())
    number = _number(item)
    if dtype is dtypes.bool_:
        return np.asarray(int(number) != 0)
    if dtype.is_floating:
        return np.asarray(number, dtype.np)
    return np.asarray(int(number), np.int64).astype(dtype.np)


def _number(item: Any) -> float:
    if not isinstance(item, bytes):
        return item or 0
    try:
        return float(item)
    except ValueError:
        return 0


_TYPES = (
    dtypes.string,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.uint16,
    dtypes.bool_,
    dtypes.float64,
)


@register_dataset("SqlDataset", "ExperimentalSqlDataset")
def sql_dataset(k: KernelBuild, step: StepContext, driver: Any, source: Any, query: Any) -> Dataset:
    kind = scalar_of(driver, "driver_name").decode()
    if kind != "sqlite":
        raise InvalidArgumentError(
            f"The database type, {kind}, is not supported by SqlDataset. The set of supported "
            "databases is: {'sqlite'}."
        )
    columns = k.attr("output_types")
    if any(column not in _TYPES for column in columns):
        names = ", ".join(f"DT_{t.name.upper()}" for t in _TYPES)
        raise InvalidArgumentError(f"Each element of `output_types_` must be one of: {names}")
    path, text = scalar_of(source, "data_source_name"), scalar_of(query, "query")
    return SqlDataset(path.decode(), text.decode(), columns)
