"""Nadam and Ftrl, as Keras's optimizers."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.keras.optimizers.base import Optimizer, after, scatter_add
from dtfctl.runtime.keras.optimizers.schedules import LearningRateSchedule
from dtfctl.runtime.ops import array_ops, init_ops, math_ops
from dtfctl.runtime.ops.grouping import group


class Nadam(Optimizer):
    """Adam with Nesterov's momentum, which grows by a schedule (Dozat, 2015).

    Args:
        schedule_decay: how fast the momentum reaches beta_1.

    Raises:
        ValueError: the learning rate is a schedule.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        # `get_config` describes it by `decay`, programs by its former name.
        kwargs["decay"] = kwargs.pop("schedule_decay", kwargs.get("decay", 0.004))
        rate = kwargs.get("lr", learning_rate)
        if isinstance(rate, LearningRateSchedule):
            raise ValueError("Nadam takes a number as its learning rate, no schedule: its momentum follows one already")
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", rate)
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon or 1e-7
        self._product: Any = None

    def _create_slots(self, variables: list[Any]) -> None:
        if self._product is None:
            dtype = variables[0].dtype.base_dtype
            self._product = self.add_weight("momentum_cache", [], dtype=dtype, initializer="ones", trainable=False)
            self._weights.append(self._product)
        for name in ("m", "v"):
            for var in variables:
                self.add_slot(var, name)

    def _prepare(self, variables: list[Any]) -> dict[str, Any]:
        dtype = variables[0].dtype.base_dtype
        first, second = self._get_hyper("beta_1", dtype), self._get_hyper("beta_2", dtype)
        step = math_ops.cast(self.iterations + 1, dtype)

        def momentum(at: Any) -> Any:
            return first * (1.0 - 0.5 * math_ops.pow(constant(0.96, dtype), self._initial_decay * at))

        now, following = momentum(step), momentum(step + 1.0)
        product = array_ops.identity(self._product) * now
        kept = self._product.assign(product, read_value=False)
        return {
            "lr": array_ops.identity(self._get_hyper("learning_rate", dtype)),
            "beta_1": first,
            "beta_2": second,
            "now": now,
            "following": following,
            "rest": 1.0 - product,
            "rest_following": 1.0 - product * following,
            "rest_second": 1.0 - math_ops.pow(second, step),
            "kept": kept,
        }

    def _step(self, grad: Any, mean: Any, square: Any, prepared: dict[str, Any]) -> Any:
        blend = (1.0 - prepared["now"]) * (grad / prepared["rest"])
        blend += prepared["following"] * (mean / prepared["rest_following"])
        return prepared["lr"] * blend / (math_ops.sqrt(square / prepared["rest_second"]) + self.epsilon)

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        mean = prepared["beta_1"] * m + (1.0 - prepared["beta_1"]) * grad
        square = prepared["beta_2"] * v + (1.0 - prepared["beta_2"]) * math_ops.square(grad)
        moved = var - self._step(grad, mean, square, prepared)
        updates = [m.assign(mean, read_value=False), v.assign(square, read_value=False)]
        return group(var.assign(moved, read_value=False), *updates, prepared["kept"])

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        faded = m.assign(m * prepared["beta_1"], read_value=False)
        added = after(faded, lambda: scatter_add(m, indices, grad * (1.0 - prepared["beta_1"])))
        faded_v = v.assign(v * prepared["beta_2"], read_value=False)
        added_v = after(faded_v, lambda: scatter_add(v, indices, (grad * grad) * (1.0 - prepared["beta_2"])))
        mean = array_ops.gather(after(added, m.value), indices)
        square = array_ops.gather(after(added_v, v.value), indices)
        step = self._step(grad, mean, square, prepared)
        return group(scatter_add(var, indices, -step), added, added_v, prepared["kept"])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "epsilon": self.epsilon}


class Ftrl(Optimizer):
    """Follow the regularized leader (McMahan et al., 2013).

    Raises:
        ValueError: a strength or the accumulators' first value is below 0, or the power is above it.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        for what, value in {
            "initial_accumulator_value": initial_accumulator_value,
            "learning_rate_power": -learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }.items():
            if value < 0.0:
                side = "negative" if what == "learning_rate_power" else "positive"
                raise ValueError(f"`{what}` needs to be {side} or zero")
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("learning_rate_power", learning_rate_power)
        self._set_hyper("l1_regularization_strength", l1_regularization_strength)
        self._set_hyper("l2_regularization_strength", l2_regularization_strength)
        self._set_hyper("beta", beta)
        self._initial, self._shrinkage = initial_accumulator_value, l2_shrinkage_regularization_strength

    def _create_slots(self, variables: list[Any]) -> None:
        for var in variables:
            self.add_slot(var, "accumulator", init_ops.Constant(self._initial, dtype=var.dtype.base_dtype))
            self.add_slot(var, "linear")

    def _arguments(self, var: Any, prepared: dict[str, Any]) -> dict[str, Any]:
        dtype = var.dtype.base_dtype
        lr = prepared["lr"]
        l2 = self._get_hyper("l2_regularization_strength", dtype) + self._get_hyper("beta", dtype) / (2.0 * lr)
        arguments = {
            "var": var.handle,
            "accum": self.get_slot(var, "accumulator").handle,
            "linear": self.get_slot(var, "linear").handle,
            "lr": lr,
            "l1": self._get_hyper("l1_regularization_strength", dtype),
            "l2": l2,
            "lr_power": self._get_hyper("learning_rate_power", dtype),
        }
        return {**arguments, "l2_shrinkage": constant(self._shrinkage, dtype)} if self._shrinkage else arguments

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        op = "ResourceApplyFtrlV2" if self._shrinkage else "ResourceApplyFtrl"
        return make_op(op, grad=grad, **self._arguments(var, prepared))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        op = "ResourceSparseApplyFtrlV2" if self._shrinkage else "ResourceSparseApplyFtrl"
        return make_op(op, grad=grad, indices=indices, **self._arguments(var, prepared))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {
            **super().get_config(),
            "initial_accumulator_value": self._initial,
            "l2_shrinkage_regularization_strength": self._shrinkage,
        }
