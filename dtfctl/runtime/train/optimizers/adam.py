"""Rates from moving averages of gradients and their squares: Adam and RMSProp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.operands import cast_to
from dtfctl.runtime.train.optimizers.training_op import OpOptimizer, target_of


class AdamOptimizer(OpOptimizer):
    """Adam (Kingma & Ba, 2014)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
        use_own_namescope_for_non_slot_vars: bool = False,
    ) -> None:
        super().__init__(use_locking, name, use_own_namescope_for_non_slot_vars)
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
            var=target_of(var),
            m=target_of(self.get_slot(var, "m")),
            v=target_of(self.get_slot(var, "v")),
            beta1_power=power1.value(),
            beta2_power=power2.value(),
            lr=self._rate,
            beta1=self._b1,
            beta2=self._b2,
            epsilon=self._eps,
            grad=grad,
        )

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
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


class RMSPropOptimizer(OpOptimizer):
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
            "var": target_of(var),
            "ms": target_of(self.get_slot(var, "rms")),
            "mom": target_of(self.get_slot(var, "momentum")),
            "lr": self._rate,
            "rho": self._rho,
            "momentum": self._momentum_tensor,
            "epsilon": self._eps,
        }
        if self._centered:
            out["mg"] = target_of(self.get_slot(var, "mg"))
        return out

    def _apply(self, grad: Tensor, var: Any) -> Any:
        op = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        return self._training_op(op, var, grad=grad, **self._arguments(var))

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        op = "SparseApplyCenteredRMSProp" if self._centered else "SparseApplyRMSProp"
        return self._training_op(op, var, grad=grad, indices=indices, **self._arguments(var))
