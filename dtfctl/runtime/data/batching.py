"""Batches of elements, and elements of batches."""

from __future__ import annotations

from typing import Any, Self

from dtfctl.runtime.data.leaves import Leaf, RaggedLeaf
from dtfctl.runtime.data.op_arguments import DETERMINISTIC, int64
from dtfctl.runtime.data.padding import padded_to, padding_of
from dtfctl.runtime.data.structure import AnyDataset, Structure, trace
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.ragged_ops.conversion import from_tensor
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec
from dtfctl.runtime.ops.sparse_ops.spec import SparseTensorSpec


def _static(size: Tensor) -> int | None:
    known = constant_value(size)
    return None if known is None else int(known)


def _ragged(dtype: DType, shape: TensorShape, kind: Leaf | None, splits: DType) -> Leaf | None:
    """Say how a component travels that becomes ragged in a batch: one with a dimension that is not known."""
    dims = shape.dims_or_none
    if kind is not None or dims is None or None not in dims:
        return kind
    rank = max(axis for axis, size in enumerate(dims) if size is None)
    return RaggedLeaf(RaggedTensorSpec(shape, dtype, rank, splits))


def _encoded(leaf: Any, kind: Leaf | None) -> Any:
    if not isinstance(leaf, Tensor) or not isinstance(kind, RaggedLeaf):
        return leaf
    spec = kind.spec
    if spec.ragged_rank:
        leaf = from_tensor(leaf, ragged_rank=spec.ragged_rank, row_splits_dtype=spec.row_splits_dtype)
    return kind.pack(leaf)


class Batching(AnyDataset):
    """What a dataset can make of elements that follow each other, and of parts of elements."""

    def batch(
        self,
        batch_size: Any,
        drop_remainder: bool = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """`batch_size` elements stacked into one, `num_parallel_calls` batches at a time."""
        size = int64(batch_size)
        structure = self.structure.batched(_static(size) if drop_remainder else None)
        if num_parallel_calls is None:
            return self._derived("BatchDatasetV2", structure, name, batch_size=size, drop_remainder=drop_remainder)
        return self._derived(
            "ParallelBatchDataset",
            structure,
            name,
            batch_size=size,
            drop_remainder=drop_remainder,
            num_parallel_calls=int64(num_parallel_calls),
            deterministic=DETERMINISTIC[deterministic],
        )

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Batches of elements padded to common shapes (None: as long as the longest).

        Raises:
            TypeError: elements are sparse or ragged.
        """
        own = self.structure
        if not own.dense:
            raise TypeError(
                "`padded_batch` is only supported for datasets that produce tensor elements but type spec of elements "
                f"in the input dataset is not a subclass of TensorSpec: `{self.element_spec}`. `batch` takes them."
            )
        shapes, values = padded_to(padded_shapes, own), padding_of(padding_values, own)
        tensors = [constant([-1 if d is None else d for d in s.as_list()], dtypes.int64) for s in shapes]
        structure = own.with_shapes([TensorShape([None]).concatenate(s) for s in shapes])
        variant = apply_op(
            "PaddedBatchDatasetV2",
            name,
            input_dataset=self.variant,
            batch_size=int64(batch_size),
            padded_shapes=tensors,
            padding_values=values,
            drop_remainder=drop_remainder,
            output_shapes=list(structure.shapes),
        )
        return type(self)(variant, structure)

    def ragged_batch(
        self,
        batch_size: Any,
        drop_remainder: bool = False,
        row_splits_dtype: Any = dtypes.int64,
        name: str | None = None,
    ) -> Self:
        """Batches of elements whose shapes differ, as ragged tensors.

        A component becomes ragged where a dimension of its shape is not known; others are stacked as `batch` does.
        """
        kinds = [_ragged(*leaf, as_dtype(row_splits_dtype)) for leaf in self.structure.leaves]
        structure = Structure.of_leaves(
            self.structure.template, [(t, s, k) for (t, s, _), k in zip(self.structure.leaves, kinds)]
        )

        def encode(*element: Any) -> tuple[Tensor, ...]:
            given = element[0] if len(element) == 1 else element
            return tuple(_encoded(leaf, kind) for leaf, kind in zip(nest.flatten(given), kinds))

        f = trace(encode, self.structure)
        ragged = self._derived("MapDataset", structure, name, other_arguments=f.captured, f=f.attr)
        return ragged.batch(batch_size, drop_remainder)

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Self:
        """Batches of elements whose shapes differ, as sparse tensors.

        Args:
            row_shape: what no element is larger than: the dense shape of the batch has it, and where a dimension is
                None that of the largest element.

        Raises:
            TypeError: elements are not one tensor each.
        """
        kind = self.structure.kinds[:1]
        if nest.is_nested(self.structure.template) or any(kind):
            raise TypeError(
                "`dense_to_sparse_batch` requires an input dataset whose elements have a single component, but the "
                f"given dataset has the following component types: {self.output_types}."
            )
        spec = SparseTensorSpec(TensorShape([None]).concatenate(as_shape(row_shape)), self.structure.types[0])
        rows = [-1 if size is None else size for size in as_shape(row_shape).as_list()]
        return self._derived(
            "DenseToSparseBatchDataset",
            Structure.of(spec),
            name,
            batch_size=int64(batch_size),
            row_shape=constant(rows, dtypes.int64, [len(rows)]),
        )

    def unbatch(self, name: str | None = None) -> Self:
        """Give the slices of the elements along their first axis."""
        return self.by_rows()._derived("UnbatchDataset", self.structure.unbatched(), name)

    def rebatch(self, batch_size: Any, drop_remainder: bool = False, name: str | None = None) -> Self:
        """Batch the elements of batches again, by one size or by several in turn."""
        sizes = convert_to_tensor(batch_size, dtypes.int64)
        known = constant_value(sizes)
        lead = None
        if known is not None and drop_remainder and len(set(known.reshape(-1).tolist())) == 1:
            lead = int(known.reshape(-1)[0])
        return self.by_rows()._derived(
            "RebatchDatasetV2",
            self.structure.unbatched().batched(lead),
            name=name,
            batch_sizes=sizes,
            drop_remainder=drop_remainder,
        )

    def by_rows(self) -> Self:
        """Let each row of sparse and ragged components travel by itself, so that elements can be cut along them."""
        structure = self.structure
        if structure.dense:
            return self
        carriers = [s[:1].concatenate(k.unbatched().carrier_shape) if k else s for _, s, k in structure.leaves]

        def encode(*element: Any) -> tuple[Tensor, ...]:
            given = element[0] if len(element) == 1 else element
            return tuple(structure.flat_rows(given))

        f = trace(encode, structure)
        rows = structure.with_shapes(carriers)
        return self._derived("MapDataset", rows, other_arguments=f.captured, f=f.attr)
