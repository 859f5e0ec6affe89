"""Leaves of elements that are no tensors, and how each travels in one: sparse and ragged tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.ragged_ops.conversion import from_variant, to_variant
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
from dtfctl.runtime.ops.sparse_ops.serialization import deserialize_sparse, serialize_many_sparse, serialize_sparse
from dtfctl.runtime.ops.sparse_ops.spec import SparseTensorSpec


class Leaf:
    """What is known of a leaf that is no tensor, and travels as a variant.

    Attributes:
        spec: describes it in `element_spec`.
    """

    spec: Any

    @property
    def carrier_shape(self) -> TensorShape:
        """The shape of the variant."""
        return TensorShape(None)

    # As TF1's functions say what it is.

    @property
    def legacy_type(self) -> Any:
        return self.spec.dtype

    @property
    def legacy_shape(self) -> Any:
        return self.spec.shape

    @property
    def legacy_class(self) -> Any:
        return self.spec

    def pack(self, value: Any) -> Tensor:
        """Put the value into a variant."""
        raise NotImplementedError(type(self).__name__)

    def pack_rows(self, value: Any) -> Tensor:
        """Put each row of the value into a variant: along the first axis of the result.

        Raises:
            ValueError: it has no rows.
        """
        raise ValueError(f"{self.spec!r} has no rows: elements cannot be taken apart")

    def unpack(self, variant: Tensor) -> Any:
        """Make the value of the variant again."""
        raise NotImplementedError(type(self).__name__)

    def batched(self, size: int | None) -> Leaf:
        """Describe `size` of them together."""
        return self

    def unbatched(self) -> Leaf:
        """Describe one row."""
        return self

    def common(self, other: Leaf | None) -> Leaf:
        """Describe what is either this or another.

        Raises:
            TypeError: they are of different kinds.
        """
        if not isinstance(other, type(self)) or other.legacy_type != self.legacy_type:
            raise TypeError(f"Two datasets have incompatible types: {self.spec!r} and {getattr(other, 'spec', None)!r}")
        return self._merged(other)

    def _merged(self, other: Self) -> Leaf:
        """Describe what is either this or another of the kind, and of the type."""
        return self


@dataclass(frozen=True)
class SparseLeaf(Leaf):
    spec: SparseTensorSpec

    @property
    def legacy_class(self) -> Any:
        return SparseTensor

    def pack(self, value: Any) -> Tensor:
        return serialize_sparse(value, out_type=dtypes.variant)

    def pack_rows(self, value: Any) -> Tensor:
        return serialize_many_sparse(value, out_type=dtypes.variant)

    def unpack(self, variant: Tensor) -> Any:
        made = deserialize_sparse(variant, self.spec.dtype, self.spec.shape.rank)
        made.known_shape = self.spec.shape
        return made

    def _of_shape(self, shape: TensorShape) -> SparseLeaf:
        return SparseLeaf(SparseTensorSpec(shape, self.spec.dtype))

    def batched(self, size: int | None) -> Leaf:
        return self._of_shape(TensorShape([size]).concatenate(self.spec.shape))

    def unbatched(self) -> Leaf:
        return self._of_shape(self.spec.shape[1:])

    def _merged(self, other: Self) -> Leaf:
        return self._of_shape(self.spec.shape.most_specific_compatible_shape(other.spec.shape))


@dataclass(frozen=True)
class RaggedLeaf(Leaf):
    """A ragged tensor; of ragged rank 0 it is a tensor, that is a row of ragged ones."""

    spec: RaggedTensorSpec

    def pack(self, value: Any) -> Tensor:
        if self.spec.ragged_rank != getattr(value, "ragged_rank", 0):
            raise ValueError(
                f"Ragged rank of value {getattr(value, 'ragged_rank', 0)} does not match ragged rank of type "
                f"{self.spec.ragged_rank}."
            )
        return to_variant(value)

    def pack_rows(self, value: Any) -> Tensor:
        if self.spec.ragged_rank == 0:
            raise ValueError(f"{self.spec!r} has no ragged rows: `map` it to what `unbatch` takes apart")
        return to_variant(value, batched_input=True)

    def unpack(self, variant: Tensor) -> Any:
        spec = self.spec
        made = from_variant(variant, spec.dtype, spec.ragged_rank, row_splits_dtype=spec.row_splits_dtype)
        made.set_shape(spec.shape)
        return made

    def _of(self, shape: TensorShape, ragged_rank: int) -> RaggedLeaf:
        return RaggedLeaf(RaggedTensorSpec(shape, self.spec.dtype, ragged_rank, self.spec.row_splits_dtype))

    def batched(self, size: int | None) -> Leaf:
        return self._of(TensorShape([size]).concatenate(self.spec.shape), self.spec.ragged_rank + 1)

    def unbatched(self) -> Leaf:
        return self._of(self.spec.shape[1:], self.spec.ragged_rank - 1)

    def _merged(self, other: Self) -> Leaf:
        theirs = other.spec
        if theirs.ragged_rank != self.spec.ragged_rank:
            raise TypeError(f"Two datasets have incompatible types: {self.spec!r} and {theirs!r}")
        return self._of(self.spec.shape.most_specific_compatible_shape(theirs.shape), self.spec.ragged_rank)


_LEAVES: list[tuple[type, Callable[[Any], Leaf]]] = [
    (SparseTensor, lambda value: SparseLeaf(SparseTensorSpec.from_value(value))),
    (RaggedTensor, lambda value: RaggedLeaf(RaggedTensorSpec.from_value(value))),
    (SparseTensorSpec, SparseLeaf),
    (RaggedTensorSpec, RaggedLeaf),
]


def register_leaf(kind: type, describe: Callable[[Any], Leaf]) -> None:
    """Let values of a class be leaves of elements; `describe` says how one travels."""
    _LEAVES.append((kind, describe))


def leaf_of(value: Any) -> Leaf | None:
    """Say how a value, or what a spec describes, travels; None where it is a tensor."""
    for kind, describe in _LEAVES:
        if isinstance(value, kind):
            return describe(value)
    return None


def as_element(value: Any) -> Any:
    """Make tensors, sparse and ragged ones of the leaves of a structure; lists are tensors in the making."""
    if _is_sparse_value(value):
        return SparseTensor.from_value(value)
    if isinstance(value, RaggedTensorValue):
        return RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits, validate=False)
    if isinstance(value, tuple):
        items = [as_element(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: as_element(v) for key, v in value.items()}
    return convert_to_tensor(value) if leaf_of(value) is None else value


def _is_sparse_value(value: Any) -> bool:
    """Tell a SparseTensorValue: a session's, or TensorFlow's own."""
    return getattr(value, "_fields", ()) == ("indices", "values", "dense_shape")


def legacy_leaf(kind: Any, dtype: DType, shape: TensorShape) -> Leaf | None:
    """Say how a leaf travels of which TF1's functions give this class, type and shape."""
    if kind in (None, Tensor):
        return None
    if kind is SparseTensor:
        return SparseLeaf(SparseTensorSpec(shape, dtype))
    found = leaf_of(kind)
    if found is None:
        raise TypeError(f"elements of a dataset are no {kind!r}: output_classes are what `get_output_classes` gives")
    return found
