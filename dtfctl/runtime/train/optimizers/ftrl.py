"""Follow the regularised leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.train.optimizers.training_op import OpOptimizer, target_of


class FtrlOptimizer(OpOptimizer):
    """FTRL-proximal (McMahan et al., 2013), with L2 shrinkage where asked."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        super().__init__(use_locking, name)
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value {initial_accumulator_value} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        for what, value in (
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ValueError(f"{what} {value} needs to be positive or zero")
        self._learning_rate, self._power = learning_rate, learning_rate_power
        self._initial = initial_accumulator_value
        self._l1, self._l2, self._shrinkage = (
            l1_regularization_strength,
            l2_regularization_strength,
            l2_shrinkage_regularization_strength,
        )
        if beta is not None:
            if not isinstance(learning_rate, (int, float)):
                raise ValueError("beta needs a learning rate that is a number: it is beta / (2 * rate) more of l2")
            self._l2 += beta / (2.0 * max(learning_rate, 1e-36))
        self._accum_name, self._linear_name = accum_name, linear_name

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            initializer = init_ops.Constant(self._initial, dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(
                v, initializer, v.shape, v.dtype.base_dtype, "accum", self._accum_name or self._name
            )
            self._zeros_slot(v, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _arguments(self, var: Any) -> dict[str, Any]:
        out: dict[str, Any] = {
            "var": target_of(var),
            "accum": target_of(self.get_slot(var, "accum")),
            "linear": target_of(self.get_slot(var, "linear")),
            "lr": self._rate,
            "l1": float(self._l1),
            "l2": float(self._l2),
            "lr_power": float(self._power),
        }
        if self._shrinkage > 0:
            out["l2_shrinkage"] = float(self._shrinkage)
        return out

    @property
    def _version(self) -> str:
        return "V2" if self._shrinkage > 0 else ""

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op(f"ApplyFtrl{self._version}", var, grad=grad, **self._arguments(var))

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            f"SparseApplyFtrl{self._version}", var, grad=grad, indices=indices, **self._arguments(var)
        )
