"""Conditional accumulators: gradients that are averaged once enough of them came."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import as_shape


class ConditionalAccumulatorBase:
    """What dense and sparse accumulators share."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = as_dtype(dtype)
        self._shape = as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        return self._accumulator_ref

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Count the gradients held now."""
        return self._apply("AccumulatorNumAccumulated", name or f"{self._name}_NumAccumulated").outputs[0]

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Make an op after which gradients of earlier steps than this are stale."""
        step = convert_to_tensor(new_global_step, dtypes.int64)
        return self._apply("AccumulatorSetGlobalStep", name or f"{self._name}_SetGlobalStep", new_global_step=step)

    def _apply(self, op: str, name: str, **arguments: Any) -> Operation:
        prefix = "Resource" if self._accumulator_ref.dtype.base_dtype is dtypes.resource else ""
        with context.get_default_graph().colocate_with(self._accumulator_ref.op):
            return make_op(prefix + op, name, handle=self._accumulator_ref, **arguments)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds gradients up; taking one out waits for enough of them and gives the mean (or sum)."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = apply_op(
            "ResourceConditionalAccumulator",
            name,
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=shared_name or "",
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        step = convert_to_tensor(local_step, dtypes.int64)
        return self._apply("AccumulatorApplyGradient", name or "ApplyGradient", local_step=step, gradient=gradient)

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        out = self._apply(
            "AccumulatorTakeGradient", name or "TakeGradient", num_required=num_required, dtype=self._dtype
        ).outputs[0]
        out.set_shape(self._shape)
        return out


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """The same for gradients that are rows of a larger tensor."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = apply_op(
            "SparseConditionalAccumulator",
            name,
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=shared_name or "",
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, ref)

    def _apply(self, op: str, name: str, **arguments: Any) -> Operation:
        with context.get_default_graph().colocate_with(self._accumulator_ref.op):
            return make_op(op, name, handle=self._accumulator_ref, **arguments)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None) -> Operation:
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self, grad_indices: Any, grad_values: Any, grad_shape: Any = None, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        shape = convert_to_tensor([] if grad_shape is None else grad_shape, dtypes.int64)
        return self._apply(
            "SparseAccumulatorApplyGradient",
            name or "SparseApplyGradient",
            local_step=convert_to_tensor(local_step, dtypes.int64),
            gradient_indices=convert_to_tensor(grad_indices, dtypes.int64),
            gradient_values=convert_to_tensor(grad_values, self._dtype),
            gradient_shape=shape,
            has_known_shape=grad_shape is not None,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> list[Tensor]:
        taken = self._apply(
            "SparseAccumulatorTakeGradient", name or "SparseTakeGradient", num_required=num_required, dtype=self._dtype
        )
        return list(taken.outputs)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
