"""How each of Keras's optimizers updates a variable."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.keras.optimizers.base import Optimizer, after, scatter_add
from dtfctl.runtime.ops import array_ops, init_ops, math_ops
from dtfctl.runtime.ops.grouping import group


class SGD(Optimizer):
    """var -= rate * grad, with momentum if it is given, Nesterov's if asked for."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: Any = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        self._momentum = callable(momentum) or momentum > 0
        self._set_hyper("momentum", momentum)
        self.nesterov = nesterov
        self._sums_duplicates = self._momentum

    def _create_slots(self, variables: list[Any]) -> None:
        if self._momentum:
            for var in variables:
                self.add_slot(var, "momentum")

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        if self._momentum:
            return make_op(
                "ResourceApplyKerasMomentum",
                var=var.handle,
                accum=self.get_slot(var, "momentum").handle,
                lr=prepared["lr"],
                grad=grad,
                momentum=self._get_hyper("momentum", dtypes.float32),
                use_nesterov=self.nesterov,
            )
        return make_op("ResourceApplyGradientDescent", var=var.handle, alpha=prepared["lr"], delta=grad)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        if not self._momentum:
            return scatter_add(var, indices, -grad * prepared["lr"])
        return make_op(
            "ResourceSparseApplyKerasMomentum",
            var=var.handle,
            accum=self.get_slot(var, "momentum").handle,
            lr=prepared["lr"],
            grad=grad,
            indices=indices,
            momentum=self._get_hyper("momentum", dtypes.float32),
            use_nesterov=self.nesterov,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "nesterov": self.nesterov}


class Adam(Optimizer):
    """Adam (Kingma & Ba, 2014), or AMSGrad."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon, self.amsgrad = epsilon or 1e-7, amsgrad

    def _create_slots(self, variables: list[Any]) -> None:
        for name in ("m", "v", "vhat") if self.amsgrad else ("m", "v"):
            for var in variables:
                self.add_slot(var, name)

    def _prepare(self, variables: list[Any]) -> dict[str, Any]:
        step = math_ops.cast(self.iterations + 1, dtypes.float32)
        first, second = array_ops.identity(self._get_hyper("beta_1")), array_ops.identity(self._get_hyper("beta_2"))
        lr = self._decayed_lr()
        powers = math_ops.pow(first, step), math_ops.pow(second, step)
        scaled = lr * (math_ops.sqrt(1 - powers[1]) / (1 - powers[0]))
        return {"lr": lr, "beta_1": first, "beta_2": second, "powers": powers, "scaled": scaled}

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        extra = {"vhat": self.get_slot(var, "vhat").handle} if self.amsgrad else {}
        if not self.amsgrad:
            extra["use_nesterov"] = False
        return make_op(
            "ResourceApplyAdamWithAmsgrad" if self.amsgrad else "ResourceApplyAdam",
            var=var.handle,
            m=self.get_slot(var, "m").handle,
            v=self.get_slot(var, "v").handle,
            beta1_power=prepared["powers"][0],
            beta2_power=prepared["powers"][1],
            lr=prepared["lr"],
            beta1=prepared["beta_1"],
            beta2=prepared["beta_2"],
            epsilon=constant(self.epsilon, var.dtype.base_dtype),
            grad=grad,
            **extra,
        )

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        first, second = prepared["beta_1"], prepared["beta_2"]
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        kept = m.assign(m * first, read_value=False)
        added = after(kept, lambda: scatter_add(m, indices, grad * (1 - first)))
        kept_v = v.assign(v * second, read_value=False)
        added_v = after(kept_v, lambda: scatter_add(v, indices, (grad * grad) * (1 - second)))
        m_now, v_now = after(added, m.value), after(added_v, v.value)
        done = [added, added_v]
        if self.amsgrad:
            vhat = self.get_slot(var, "vhat")
            v_now = math_ops.maximum(vhat.value(), v_now)
            done.append(vhat.assign(v_now, read_value=False))
        step = prepared["scaled"] * m_now / (math_ops.sqrt(v_now) + self.epsilon)
        return group(var.assign_sub(step, read_value=False), *done)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "epsilon": self.epsilon, "amsgrad": self.amsgrad}


class RMSprop(Optimizer):
    """Divide by a moving average of the gradients' size (Hinton, 2012)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("rho", rho)
        self._momentum = callable(momentum) or momentum > 0
        self._set_hyper("momentum", momentum)
        self.epsilon, self.centered = epsilon or 1e-7, centered

    def _create_slots(self, variables: list[Any]) -> None:
        names = ["rms", *(["momentum"] if self._momentum else []), *(["mg"] if self.centered else [])]
        for name in names:
            for var in variables:
                self.add_slot(var, name)

    def _prepare(self, variables: list[Any]) -> dict[str, Any]:
        return {"lr": self._decayed_lr(), "rho": array_ops.identity(self._get_hyper("rho"))}

    def _fused(self, sparse: bool, var: Any, prepared: dict[str, Any], **gradient: Any) -> Any:
        kind = f"{'Sparse' if sparse else ''}Apply{'Centered' if self.centered else ''}RMSProp"
        extra = {"mg": self.get_slot(var, "mg").handle} if self.centered else {}
        return make_op(
            f"Resource{kind}",
            var=var.handle,
            ms=self.get_slot(var, "rms").handle,
            mom=self.get_slot(var, "momentum").handle,
            lr=prepared["lr"],
            rho=prepared["rho"],
            momentum=self._get_hyper("momentum", dtypes.float32),
            epsilon=constant(self.epsilon, var.dtype.base_dtype),
            **extra,
            **gradient,
        )

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        if self._momentum:
            return self._fused(False, var, prepared, grad=grad)
        rho, rms = prepared["rho"], self.get_slot(var, "rms")
        now = rho * rms + (1.0 - rho) * math_ops.square(grad)
        updates = [rms.assign(now, read_value=False)]
        below = now
        if self.centered:
            mg = self.get_slot(var, "mg")
            mean = rho * mg + (1.0 - rho) * grad
            updates.append(mg.assign(mean, read_value=False))
            below = now - math_ops.square(mean)
        step = prepared["lr"] * grad / (math_ops.sqrt(below) + self.epsilon)
        return group(var.assign(var - step, read_value=False), *updates)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        if self._momentum:
            return self._fused(True, var, prepared, grad=grad, indices=indices)
        rho, rms = prepared["rho"], self.get_slot(var, "rms")
        kept = rms.assign(rms * rho, read_value=False)
        added = after(kept, lambda: scatter_add(rms, indices, (grad * grad) * (1.0 - rho)))
        below = array_ops.gather(after(added, rms.value), indices)
        done = [added]
        if self.centered:
            mg = self.get_slot(var, "mg")
            kept_mean = mg.assign(mg * rho, read_value=False)
            added_mean = after(kept_mean, lambda: scatter_add(mg, indices, grad * (1.0 - rho)))
            below = below - math_ops.square(array_ops.gather(after(added_mean, mg.value), indices))
            done.append(added_mean)
        step = -prepared["lr"] * grad / (math_ops.sqrt(below) + self.epsilon)
        return group(scatter_add(var, indices, step), *done)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "epsilon": self.epsilon, "centered": self.centered}


class Adagrad(Optimizer):
    """Divide by the sum of all gradients' squares (Duchi et al., 2011)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}")
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._initial, self.epsilon = initial_accumulator_value, epsilon or 1e-7

    def _create_slots(self, variables: list[Any]) -> None:
        for var in variables:
            self.add_slot(var, "accumulator", init_ops.Constant(self._initial, dtype=var.dtype.base_dtype))

    def _arguments(self, var: Any, prepared: dict[str, Any]) -> dict[str, Any]:
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "accumulator").handle,
            "lr": prepared["lr"],
            "epsilon": constant(self.epsilon, var.dtype.base_dtype),
        }

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        return make_op("ResourceApplyAdagradV2", grad=grad, **self._arguments(var, prepared))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        return make_op("ResourceSparseApplyAdagradV2", grad=grad, indices=indices, **self._arguments(var, prepared))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "initial_accumulator_value": self._initial, "epsilon": self.epsilon}


class Adadelta(Optimizer):
    """Steps of the size of a moving average of steps (Zeiler, 2012)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("rho", rho)
        self.epsilon = epsilon or 1e-7

    def _create_slots(self, variables: list[Any]) -> None:
        for name in ("accum_grad", "accum_var"):
            for var in variables:
                self.add_slot(var, name)

    def _arguments(self, var: Any, prepared: dict[str, Any]) -> dict[str, Any]:
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "accum_grad").handle,
            "accum_update": self.get_slot(var, "accum_var").handle,
            "lr": prepared["lr"],
            "rho": self._get_hyper("rho", dtypes.float32),
            "epsilon": constant(self.epsilon, var.dtype.base_dtype),
        }

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        return make_op("ResourceApplyAdadelta", grad=grad, **self._arguments(var, prepared))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        return make_op("ResourceSparseApplyAdadelta", grad=grad, indices=indices, **self._arguments(var, prepared))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "epsilon": self.epsilon}


class Adamax(Adam):
    """Adam with the largest gradient in place of the mean square."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-7,
        name: str = "Adamax",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        return make_op(
            "ResourceApplyAdaMax",
            var=var.handle,
            m=self.get_slot(var, "m").handle,
            v=self.get_slot(var, "v").handle,
            beta1_power=prepared["powers"][0],
            lr=prepared["lr"],
            beta1=prepared["beta_1"],
            beta2=prepared["beta_2"],
            epsilon=constant(self.epsilon, var.dtype.base_dtype),
            grad=grad,
        )

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        raise NotImplementedError("Adamax cannot apply sparse gradients here, as of embeddings: use Adam")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        config = super().get_config()
        config.pop("amsgrad")
        return config
