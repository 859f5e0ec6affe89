"""The codec that sends a matrix as the product of two thin ones (PowerSGD)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dtfctl.runtime.compression.codec import Bytes, Floats, Shape, register_codec, require, split


@register_codec
@dataclass(frozen=True)
class PowerSGD:
    """A matrix is sent as the product of two thin ones, found by one round of power iteration that begins where the
    last one ended; what that misses is added to the next (Vogels, Karimireddy, Jaggi 2019). Vectors are sent whole;
    of more dimensions than two, all but the last count as rows.

    Args:
        rank: columns of the thin matrices.
    """

    rank: int = 4
    name: ClassVar[str] = "powersgd"

    def __post_init__(self) -> None:
        require(self.rank >= 1, f"powersgd: rank={self.rank} is less than 1")

    def _sides(self, shape: Shape) -> tuple[int, int] | None:
        """Count rows and columns; None where two thin matrices would be no smaller."""
        if len(shape) < 2:
            return None
        rows, columns = math.prod(shape[:-1]), shape[-1]
        return (rows, columns) if self.rank * (rows + columns) < rows * columns else None

    def state_size(self, shape: Shape) -> int:
        sides = self._sides(shape)
        return 0 if sides is None else math.prod(shape) + sides[1] * self.rank

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        sides = self._sides(shape)
        if sides is None:
            return None
        rows, columns = sides
        size = rows * columns
        right = before[size:].reshape(columns, self.rank)
        if not right.any():
            right = np.random.default_rng(columns).standard_normal((columns, self.rank), np.float32)
        matrix = np.add(before[:size], values, out=after[:size]).reshape(rows, columns)
        left = np.ascontiguousarray(np.linalg.qr(matrix @ right)[0])
        right = np.ascontiguousarray(matrix.T @ left)
        matrix -= left @ right.T
        after[size:] = right.reshape(-1)
        return [left, right]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        sides = self._sides(shape)
        if sides is None:
            return values
        size = sides[0] * sides[1]
        owed = before[:size] + values
        after[:size] = 0
        after[size:] = before[size:]
        return owed

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
        left, right = split(payload, (rows * self.rank, np.float32), (columns * self.rank, np.float32))
        product: Floats = left.reshape(rows, self.rank) @ right.reshape(columns, self.rank).T
        return product.reshape(-1)
