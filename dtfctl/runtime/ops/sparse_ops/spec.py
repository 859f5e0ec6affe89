"""Types of sparse tensors."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


class SparseTensorSpec:
    """Type and dense shape of a sparse tensor."""

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        self.shape: TensorShape = as_shape(shape)
        self.dtype: DType = as_dtype(dtype)

    @property
    def value_type(self) -> type:
        return SparseTensor

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """Describe a sparse tensor, or the value of one.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(value, SparseTensor):
            return cls(value.shape, value.dtype)
        if not all(hasattr(value, part) for part in ("indices", "values", "dense_shape")):
            raise TypeError("Expected SparseTensor or SparseTensorValue")
        return cls.from_value(SparseTensor.from_value(value))

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Tell whether a sparse tensor, or what another spec describes, can be of this type and shape."""
        other = spec_or_value
        if not isinstance(other, (SparseTensorSpec, SparseTensor)):
            return False
        return self.dtype == other.dtype.base_dtype and bool(self.shape.is_compatible_with(other.shape))

    def _key(self) -> tuple[Any, ...]:
        return self.shape.dims_or_none, self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self.shape!r}, {self.dtype!r})"
