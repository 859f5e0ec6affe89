"""One rate for every weight: gradient descent, plain, proximal and with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.operands import cast_to
from dtfctl.runtime.train.optimizers.training_op import OpOptimizer, target_of


class GradientDescentOptimizer(OpOptimizer):
    """w -= learning_rate * gradient."""

    may_have_momentum = False

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op("ApplyGradientDescent", var, var=target_of(var), alpha=self._rate, delta=grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_sparse(grad, var)

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._resource_apply_sparse(grad, handle, indices)

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        step = apply_op("Mul", x=grad, y=cast_to(self._rate, var.dtype.base_dtype))
        if var._is_resource:
            negative = apply_op("Neg", x=step)
            return make_op(
                "ResourceScatterAdd", resource=var.handle, indices=indices, updates=negative, dtype=var.dtype.base_dtype
            )
        return make_op("ScatterSub", ref=var._ref(), indices=indices, updates=step, use_locking=self._use_locking)


class ProximalGradientDescentOptimizer(OpOptimizer):
    """Gradient descent with L1 and L2 regularization applied in the update (Duchi & Singer, 2009)."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._l1, self._l2 = learning_rate, l1_regularization_strength, l2_regularization_strength

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op(
            "ApplyProximalGradientDescent",
            var,
            var=target_of(var),
            alpha=self._rate,
            l1=float(self._l1),
            l2=float(self._l2),
            delta=grad,
        )

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            "SparseApplyProximalGradientDescent",
            var,
            var=target_of(var),
            alpha=self._rate,
            l1=float(self._l1),
            l2=float(self._l2),
            grad=grad,
            indices=indices,
        )


class MomentumOptimizer(OpOptimizer):
    """accumulation = momentum * accumulation + gradient; w -= learning_rate * accumulation."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._use_nesterov = learning_rate, momentum, use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._hyper(self._momentum, "momentum")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op(
            "ApplyMomentum",
            var,
            var=target_of(var),
            accum=target_of(self.get_slot(var, "momentum")),
            lr=self._rate,
            grad=grad,
            momentum=self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            "SparseApplyMomentum",
            var,
            var=target_of(var),
            accum=target_of(self.get_slot(var, "momentum")),
            lr=self._rate,
            grad=grad,
            indices=indices,
            momentum=self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )
