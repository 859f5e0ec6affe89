"""What batches of elements of several shapes are padded to, and with."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.data.structure import Structure
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


def padded_to(shapes: Any, structure: Structure) -> list[TensorShape]:
    """Give the shape that each component is padded to: its own, where none is asked for."""
    if shapes is None:
        return list(structure.shapes)
    if len(structure.types) == 1:
        return [as_shape(shapes[0] if isinstance(shapes, tuple) and _is_shape(shapes[0]) else shapes)]
    return [as_shape(s) for s in nest.flatten_up_to(structure.template, shapes)]


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
