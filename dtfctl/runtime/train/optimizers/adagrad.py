"""A rate for every weight from the sum of its squared gradients: Adagrad, plain and proximal, and Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.math_ops import cast
from dtfctl.runtime.train.optimizers.training_op import OpOptimizer, target_of


class AdagradOptimizer(OpOptimizer):
    """Adagrad (Duchi et al., 2011)."""

    # What updates are called, after "Apply" and "SparseApply".
    _rule = "Adagrad"

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value
        self._regularization: dict[str, float] = {}

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            initializer = init_ops.Constant(self._initial, dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(
                v, initializer, v.shape, v.dtype.base_dtype, "accumulator", self._name
            )

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._apply_rule("Apply", var, grad=grad)

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._apply_rule("SparseApply", var, grad=grad, indices=indices)

    def _apply_rule(self, prefix: str, var: Any, **gradient: Tensor) -> Any:
        accum = target_of(self.get_slot(var, "accumulator"))
        return self._training_op(
            f"{prefix}{self._rule}",
            var,
            var=target_of(var),
            accum=accum,
            lr=self._rate,
            **self._regularization,
            **gradient,
        )


class ProximalAdagradOptimizer(AdagradOptimizer):
    """Adagrad with L1 and L2 regularization in the update."""

    _rule = "ProximalAdagrad"

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._regularization = {"l1": float(l1_regularization_strength), "l2": float(l2_regularization_strength)}


class AdagradDAOptimizer(OpOptimizer):
    """Adagrad with dual averaging: sparse linear models through L1 regularization (Duchi et al., 2011).

    Args:
        global_step: the variable counting the steps.

    Raises:
        ValueError: the initial accumulator value is not positive.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial = initial_gradient_squared_accumulator_value
        self._l1, self._l2 = float(l1_regularization_strength), float(l2_regularization_strength)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            self._zeros_slot(v, "gradient_accumulator", self._name)
            initializer = init_ops.Constant(self._initial, dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(
                v, initializer, v.shape, v.dtype.base_dtype, "gradient_squared_accumulator", self._name
            )

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")
        self._step = cast(convert_to_tensor(self._global_step), dtypes.int64) + 1

    def _apply_da(self, op: str, grad: Tensor, var: Any, **more: Any) -> Any:
        return self._training_op(
            op,
            var,
            var=target_of(var),
            gradient_accumulator=target_of(self.get_slot(var, "gradient_accumulator")),
            gradient_squared_accumulator=target_of(self.get_slot(var, "gradient_squared_accumulator")),
            grad=grad,
            lr=self._rate,
            l1=self._l1,
            l2=self._l2,
            global_step=self._step,
            **more,
        )

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._apply_da("ApplyAdagradDA", grad, var)

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._apply_da("SparseApplyAdagradDA", grad, var, indices=indices)


class AdadeltaOptimizer(OpOptimizer):
    """Adadelta (Zeiler, 2012)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            self._zeros_slot(v, "accum", self._name)
            self._zeros_slot(v, "accum_update", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyper(self._lr, "lr")
        self._rho_tensor = self._hyper(self._rho, "rho")
        self._eps = self._hyper(self._epsilon, "epsilon")

    def _slots_of(self, var: Any) -> dict[str, Any]:
        return {
            "var": target_of(var),
            "accum": target_of(self.get_slot(var, "accum")),
            "accum_update": target_of(self.get_slot(var, "accum_update")),
            "lr": self._rate,
            "rho": self._rho_tensor,
            "epsilon": self._eps,
        }

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op("ApplyAdadelta", var, grad=grad, **self._slots_of(var))

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op("SparseApplyAdadelta", var, grad=grad, indices=indices, **self._slots_of(var))
