"""The table of result sizes, and what its entries are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.registry import KernelBuild

Size = Callable[[KernelBuild, Sequence[Any]], tuple[Iterable[Any], int]]
"""The shape of the result, or of what takes more on the way to it, and the bytes of an item."""

SIZES: dict[str, Size] = {}
ONLY_IF: dict[str, Callable[..., bool]] = {}
"""Whether it is worth asking for the size, by op, where an op is run often."""

OBJECT_BYTES = 64
SLOT_BYTES = 128
FEW = 1 << 20
"""Elements that are no matter, however many bytes each takes."""


def grows(*ops: str, only_if: Callable[..., bool] | None = None) -> Callable[[Size], Size]:
    """Enter a function in the table, for these ops."""

    def add(size: Size) -> Size:
        SIZES.update(dict.fromkeys(ops, size))
        if only_if is not None:
            ONLY_IF.update(dict.fromkeys(ops, only_if))
        return size

    return add


def item_bytes_of(value: Any) -> int:
    """Count the bytes of an item of an array."""
    return OBJECT_BYTES if value.dtype == object else int(value.dtype.itemsize)


def of_type(k: KernelBuild, attr: str) -> int:
    """Count the bytes of an item of the type that an attribute says."""
    dtype = k.dtype(attr)
    return OBJECT_BYTES if dtype.is_object else int(np.dtype(dtype.np).itemsize)


def ints(value: Any) -> list[int]:
    """List an array's whole numbers."""
    return [int(item) for item in value.reshape(-1).tolist()]
