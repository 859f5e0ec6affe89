"""Types and shapes of the components of an element."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


def as_types(value: Any) -> list[DType]:
    return [as_dtype(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def as_shapes(value: Any, types: list[DType], unknown_dims: bool = False) -> list[TensorShape]:
    if value is None:
        return []
    single = isinstance(value, TensorShape) or not isinstance(value, (list, tuple))
    if single or (isinstance(value, (list, tuple)) and all(v is None or isinstance(v, int) for v in value) and value):
        value = [value]
    if value == () or value == []:
        value = [()] * len(types) if len(types) == 1 else value
    shapes = [as_shape(v) for v in value]
    if len(shapes) != len(types):
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(shapes)}, "
            f"len(dtypes)={len(types)}"
        )
    if not unknown_dims and not all(s.is_fully_defined() for s in shapes):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    return shapes
