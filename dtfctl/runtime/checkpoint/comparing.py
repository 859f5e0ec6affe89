"""Sum up what is in a checkpoint, and in what two of them differ, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dtfctl.runtime.checkpoint.safetensors_file import TensorSource
from dtfctl.runtime.framework.dtypes import DType

SHOWN = 8
"""Limits how many elements of a tensor are shown."""
_ROWS = 1 << 20


@dataclass(frozen=True)
class Difference:
    """Says in what a tensor differs between two checkpoints.

    Attributes:
        kind: `missing` in the second, `added` by it, or which of the two's facts are not the same.
        what: the facts, for people.
        largest: the largest difference of two values, of numbers of one shape; None elsewhere.
        count: how many elements differ.
    """

    name: str
    kind: Literal["missing", "added", "type", "shape", "values"]
    what: str
    largest: float | None = None
    count: int | None = None


def size_of(kind: DType, shape: tuple[int, ...]) -> int | None:
    """Compute the bytes of a tensor; None of text, of which only its content says it."""
    return None if kind.is_object else int(np.prod(shape, dtype=np.int64)) * kind.np.itemsize


def differences(
    first: TensorSource, second: TensorSource, rtol: float = 0.0, atol: float = 0.0
) -> Iterator[Difference]:
    """Compare two checkpoints, name by name; values as `numpy.isclose` does, NaN being equal to NaN.

    Args:
        rtol, atol: by how much values of the second may differ from the first's: atol + rtol * |first|.
    """
    ours, theirs = first.names(), second.names()
    known = set(theirs)
    for name in ours:
        kind, shape = first.dtype_and_shape(name)
        if name not in known:
            yield Difference(name, "missing", f"{kind.name} {list(shape)}")
            continue
        other_kind, other_shape = second.dtype_and_shape(name)
        if other_kind != kind:
            yield Difference(name, "type", f"{kind.name}, then {other_kind.name}")
        elif other_shape != shape:
            yield Difference(name, "shape", f"{list(shape)}, then {list(other_shape)}")
        else:
            found = _compared(name, first.read(name), second.read(name), rtol, atol)
            if found is not None:
                yield found
    known = set(ours)
    for name in theirs:
        if name not in known:
            kind, shape = second.dtype_and_shape(name)
            yield Difference(name, "added", f"{kind.name} {list(shape)}")


def _compared(name: str, first: Any, second: Any, rtol: float, atol: float) -> Difference | None:
    first, second = np.asarray(first).reshape(-1), np.asarray(second).reshape(-1)
    if first.dtype == object:
        differ = [a != b for a, b in zip(first.tolist(), second.tolist())]
        return Difference(name, "values", f"{sum(differ)} of {len(differ)}", count=sum(differ)) if any(differ) else None
    count, largest = 0, 0.0
    # By pieces: the differences of a large tensor would need several times its memory.
    for at in range(0, first.size, _ROWS):
        a, b = _wide(first[at : at + _ROWS]), _wide(second[at : at + _ROWS])
        with np.errstate(all="ignore"):
            apart = np.abs(a - b)
            same = (a == b) | ((a != a) & (b != b))
            far = ~same & ~(np.isfinite(apart) & (apart <= atol + rtol * np.abs(a)))
            count += int(np.count_nonzero(far))
            if far.any():
                largest = float(np.fmax(largest, np.nanmax(np.where(far, apart, 0))))
                if not np.isfinite(apart[far]).all():
                    largest = float("inf")
    if not count:
        return None
    return Difference(name, "values", f"{count} of {first.size}, by {largest:.3g} at the most", largest, count)


def _wide(values: Any) -> Any:
    """Return numbers in a type in which a difference of two can be told."""
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    if values.dtype in (np.int64, np.uint64):
        # A float64 tells large ones apart only by thousands.
        return values.astype(np.longdouble)
    return values.astype(np.float64)


def statistics(value: Any) -> dict[str, Any]:
    """Sum a tensor up: its first elements, and of numbers the least, the largest, mean, deviation, NaNs, infinities."""
    flat = np.asarray(value).reshape(-1)
    if flat.dtype == object:
        return {"first": [_text(item) for item in flat[:SHOWN].tolist()]}
    found: dict[str, Any] = {"first": [_number(item) for item in flat[:SHOWN].tolist()]}
    if not flat.size or flat.dtype.kind in "cb":
        return found
    wide = flat.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    found |= {
        "nan": int(np.isnan(wide).sum()),
        "infinite": int(np.isinf(wide).sum()),
        "zero": int((wide == 0).sum()),
    }
    if finite.size:
        found |= {
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float(finite.mean()),
            "std": float(finite.std()),
        }
    return found


def _number(item: Any) -> Any:
    """Return a number as JSON has it; else as text."""
    if isinstance(item, (bool, int)):
        return item
    value = complex(item)
    if value.imag:
        return str(item)
    real = float(value.real)
    return real if np.isfinite(real) else str(real)


def _text(item: Any) -> str:
    raw = item if isinstance(item, bytes) else str(item).encode()
    return raw[:80].decode("utf-8", "backslashreplace") + ("..." if len(raw) > 80 else "")
