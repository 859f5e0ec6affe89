"""TF1's optimizers, each a thin layer over the training ops that do the work where the variable lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.operands import cast_to
from dtfctl.runtime.train.optimizer import Optimizer


def _target(variable: Any) -> Any:
    """What a training op takes for a variable: its handle or its reference."""
    return variable.handle if variable._is_resource else variable._ref()


class _TrainingOps(Optimizer):
    """An optimizer whose update is one training op, named alike for reference and resource variables."""

    def _training_op(self, op: str, variable: Any, **inputs: Any) -> Operation:
        """Run `op` (such as "ApplyAdam") or its Resource form; tensors are cast to the variable's type."""
        dtype = variable.dtype.base_dtype
        kind = f"Resource{op}" if variable._is_resource else op
        arguments: dict[str, Any] = {}
        for key, value in inputs.items():
            held = isinstance(value, Tensor) and (value.dtype.is_ref or value.dtype.is_object)
            if held or key in ("indices", "use_locking", "use_nesterov"):
                arguments[key] = value
            else:
                arguments[key] = cast_to(value, dtype)
        arguments.setdefault("use_locking", self._use_locking)
        return make_op(kind, **arguments)

    def _hyper(self, value: Any, name: str) -> Tensor:
        return convert_to_tensor(self._call_if_callable(value), name=name)


class GradientDescentOptimizer(_TrainingOps):
    """w -= learning_rate * gradient."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op("ApplyGradientDescent", var, var=_target(var), alpha=self._rate, delta=grad)

    def _needs_unique_indices(self) -> bool:
        return False

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        step = apply_op("Mul", x=grad, y=cast_to(self._rate, var.dtype.base_dtype))
        if var._is_resource:
            negative = apply_op("Neg", x=step)
            return make_op(
                "ResourceScatterAdd", resource=var.handle, indices=indices, updates=negative, dtype=var.dtype.base_dtype
            )
        return make_op("ScatterSub", ref=var._ref(), indices=indices, updates=step, use_locking=self._use_locking)


class ProximalGradientDescentOptimizer(_TrainingOps):
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
            var=_target(var),
            alpha=self._rate,
            l1=float(self._l1),
            l2=float(self._l2),
            delta=grad,
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            "SparseApplyProximalGradientDescent",
            var,
            var=_target(var),
            alpha=self._rate,
            l1=float(self._l1),
            l2=float(self._l2),
            grad=grad,
            indices=indices,
        )


class MomentumOptimizer(_TrainingOps):
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
            var=_target(var),
            accum=_target(self.get_slot(var, "momentum")),
            lr=self._rate,
            grad=grad,
            momentum=self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            "SparseApplyMomentum",
            var,
            var=_target(var),
            accum=_target(self.get_slot(var, "momentum")),
            lr=self._rate,
            grad=grad,
            indices=indices,
            momentum=self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )


class AdamOptimizer(_TrainingOps):
    """Adam (Kingma & Ba, 2014)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda v: str(v.name))
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyper(self._lr, "learning_rate")
        self._b1 = self._hyper(self._beta1, "beta1")
        self._b2 = self._hyper(self._beta2, "beta2")
        self._eps = self._hyper(self._epsilon, "epsilon")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        power1, power2 = self._get_beta_accumulators()
        return self._training_op(
            "ApplyAdam",
            var,
            var=_target(var),
            m=_target(self.get_slot(var, "m")),
            v=_target(self.get_slot(var, "v")),
            beta1_power=power1.value(),
            beta2_power=power2.value(),
            lr=self._rate,
            beta1=self._b1,
            beta2=self._b2,
            epsilon=self._eps,
            grad=grad,
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        """Moments decay everywhere and grow at the rows named, as TF1 does."""
        dtype = var.dtype.base_dtype
        power1, power2 = (cast_to(p.value(), dtype) for p in self._get_beta_accumulators())
        rate, b1, b2, eps = (cast_to(t, dtype) for t in (self._rate, self._b1, self._b2, self._eps))
        one = constant(1, dtype)
        scaled_rate = rate * apply_op("Sqrt", x=one - power2) / (one - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        graph = context.get_default_graph()
        moments = []
        for slot, decay, new in ((m, b1, grad), (v, b2, grad * grad)):
            decayed = slot.assign(slot.value() * decay, use_locking=self._use_locking, read_value=False)
            with graph.control_dependencies([decayed]):
                moments.append(self._scatter_add(slot, indices, new * (one - decay)))
        with graph.control_dependencies(moments):
            update = scaled_rate * m.read_value() / (apply_op("Sqrt", x=v.read_value()) + eps)
        changed = var.assign_sub(update, use_locking=self._use_locking, read_value=False)
        return group(changed, *moments)

    def _scatter_add(self, variable: Any, indices: Tensor, values: Tensor) -> Operation:
        if variable._is_resource:
            return make_op(
                "ResourceScatterAdd",
                resource=variable.handle,
                indices=indices,
                updates=values,
                dtype=variable.dtype.base_dtype,
            )
        return make_op(
            "ScatterAdd", ref=variable._ref(), indices=indices, updates=values, use_locking=self._use_locking
        )

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Any:
        graph = context.get_default_graph()
        power1, power2 = self._get_beta_accumulators()
        with graph.control_dependencies(update_ops), graph.colocate_with(power1.op):
            decayed = [
                p.assign(p.value() * cast_to(b, p.dtype.base_dtype), use_locking=self._use_locking, read_value=False)
                for p, b in ((power1, self._b1), (power2, self._b2))
            ]
        return group(*update_ops, *decayed, name=name_scope)


class AdagradOptimizer(_TrainingOps):
    """Adagrad (Duchi et al., 2011)."""

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

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            initializer = init_ops.Constant(self._initial, dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(
                v, initializer, v.shape, v.dtype.base_dtype, "accumulator", self._name
            )

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op(
            "ApplyAdagrad",
            var,
            var=_target(var),
            accum=_target(self.get_slot(var, "accumulator")),
            lr=self._rate,
            grad=grad,
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            "SparseApplyAdagrad",
            var,
            var=_target(var),
            accum=_target(self.get_slot(var, "accumulator")),
            lr=self._rate,
            grad=grad,
            indices=indices,
        )


class ProximalAdagradOptimizer(AdagradOptimizer):
    """Adagrad with L1 and L2 regularization in the update."""

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
        self._l1, self._l2 = float(l1_regularization_strength), float(l2_regularization_strength)

    def _apply(self, grad: Tensor, var: Any) -> Any:
        accum = _target(self.get_slot(var, "accumulator"))
        return self._training_op(
            "ApplyProximalAdagrad",
            var,
            var=_target(var),
            accum=accum,
            lr=self._rate,
            l1=self._l1,
            l2=self._l2,
            grad=grad,
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        accum = _target(self.get_slot(var, "accumulator"))
        return self._training_op(
            "SparseApplyProximalAdagrad",
            var,
            var=_target(var),
            accum=accum,
            lr=self._rate,
            l1=self._l1,
            l2=self._l2,
            grad=grad,
            indices=indices,
        )


class AdadeltaOptimizer(_TrainingOps):
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
            "var": _target(var),
            "accum": _target(self.get_slot(var, "accum")),
            "accum_update": _target(self.get_slot(var, "accum_update")),
            "lr": self._rate,
            "rho": self._rho_tensor,
            "epsilon": self._eps,
        }

    def _apply(self, grad: Tensor, var: Any) -> Any:
        return self._training_op("ApplyAdadelta", var, grad=grad, **self._slots_of(var))

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op("SparseApplyAdadelta", var, grad=grad, indices=indices, **self._slots_of(var))


class RMSPropOptimizer(_TrainingOps):
    """RMSProp (Hinton, 2012), with momentum; centered by the mean gradient where asked."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum, self._epsilon = learning_rate, decay, momentum, epsilon
        self._centered = centered

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for v in var_list:
            ones = init_ops.Ones(dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(v, ones, v.shape, v.dtype.base_dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(v, "mg", self._name)
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyper(self._learning_rate, "learning_rate")
        self._rho = self._hyper(self._decay, "decay")
        self._momentum_tensor = self._hyper(self._momentum, "momentum")
        self._eps = self._hyper(self._epsilon, "epsilon")

    def _arguments(self, var: Any) -> dict[str, Any]:
        out = {
            "var": _target(var),
            "ms": _target(self.get_slot(var, "rms")),
            "mom": _target(self.get_slot(var, "momentum")),
            "lr": self._rate,
            "rho": self._rho,
            "momentum": self._momentum_tensor,
            "epsilon": self._eps,
        }
        if self._centered:
            out["mg"] = _target(self.get_slot(var, "mg"))
        return out

    def _apply(self, grad: Tensor, var: Any) -> Any:
        op = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        return self._training_op(op, var, grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        op = "SparseApplyCenteredRMSProp" if self._centered else "SparseApplyRMSProp"
        return self._training_op(op, var, grad=grad, indices=indices, **self._arguments(var))


class FtrlOptimizer(_TrainingOps):
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
            "var": _target(var),
            "accum": _target(self.get_slot(var, "accum")),
            "linear": _target(self.get_slot(var, "linear")),
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

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        return self._training_op(
            f"SparseApplyFtrl{self._version}", var, grad=grad, indices=indices, **self._arguments(var)
        )
