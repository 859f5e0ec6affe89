"""What batches of elements of several shapes are padded to, and with."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.data.structure import Structure
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


def padded_to(shapes: Any, structure: Structure) -> list[TensorShape]:
    """Give the shape that each component is padded to: its own, where none is asked for.

    Raises:
        ValueError: elements are known not to fit.
    """
    if shapes is None:
        return list(structure.shapes)
    if len(structure.types) == 1:
        wanted = [as_shape(shapes[0] if isinstance(shapes, tuple) and _is_shape(shapes[0]) else shapes)]
    else:
        wanted = [as_shape(s) for s in nest.flatten_up_to(structure.template, shapes)]
    for padded, own in zip(wanted, structure.shapes, strict=True):
        _check_padded(padded, own)
    return wanted


def _check_padded(padded: TensorShape, own: TensorShape) -> None:
    """Refuse to pad to what elements are known not to fit in.

    Raises:
        ValueError: ranks differ, or a dimension would become smaller.
    """
    if padded.dims_or_none is None or own.dims_or_none is None:
        return
    sizes = zip(padded.dims_or_none, own.dims_or_none)
    if padded.rank != own.rank or any(p is not None and n is not None and p < n for p, n in sizes):
        raise ValueError(
            f"The padded shape {padded} is not compatible with the shape {own} of the corresponding input component."
        )


def _is_shape(value: Any) -> bool:
    return isinstance(value, (TensorShape, list, tuple))


def padding_of(values: Any, structure: Structure) -> list[Tensor]:
    """Give what fills up each component: zeros and empty strings, where nothing else is asked for; one for all."""
    number = len(structure.types)
    given = nest.flatten(values) if nest.is_nested(values) else [values] * number
    if len(given) != number:
        raise ValueError(f"padding_values has {len(given)} items, the elements have {number}")
    return [
        convert_to_tensor(("" if t is dtypes.string else 0) if v is None else v, t)
        for v, t in zip(given, structure.types)
    ]
