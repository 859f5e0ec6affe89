"""`tf.contrib.opt`: Adam with weight decay, with Nesterov's momentum, and for sparse gradients."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.train.optimizer import Optimizer
from dtfctl.runtime.train.optimizers.adam import AdamOptimizer
from dtfctl.runtime.train.optimizers.descent import MomentumOptimizer

__all__ = ["AdamWOptimizer", "LazyAdamOptimizer", "MomentumWOptimizer"]


class _DecoupledDecay(Optimizer):
    """An optimizer that shrinks each variable by a fraction before its step (Loshchilov & Hutter, 2017)."""

    _decay: Any
    _decayed: Any = None

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **options: Any) -> Any:
        """Shrink the variables (those of `decay_var_list`, if given) and take a step."""
        self._decayed = None if decay_var_list is None else {v.name for v in decay_var_list}
        return super().minimize(loss, *args, **options)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None, decay_var_list: Any = None
    ) -> Any:
        """Shrink the variables (those of `decay_var_list`, if given) and apply gradients to them."""
        if decay_var_list is not None:
            self._decayed = {v.name for v in decay_var_list}
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        chosen = [v for _, v in pairs if self._decayed is None or v.name in self._decayed]
        shrunk = [tf.assign_sub(v, self._decay * v) for v in chosen]
        with tf.control_dependencies(shrunk):
            return super().apply_gradients(pairs, global_step, name)


class AdamWOptimizer(_DecoupledDecay, AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        AdamOptimizer.__init__(self, learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._decay = weight_decay


class MomentumWOptimizer(_DecoupledDecay, MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        MomentumOptimizer.__init__(self, learning_rate, momentum, use_locking, name, use_nesterov)
        self._decay = weight_decay


class LazyAdamOptimizer(AdamOptimizer):
    """Adam that moves, of a variable with a sparse gradient, only the rows that have one."""

    def _apply_rows(self, grad: Any, indices: Any, var: Any) -> Any:
        power1, power2 = self._get_beta_accumulators()
        kind = var.dtype.base_dtype
        rate, beta1, beta2, epsilon = (tf.cast(v, kind) for v in (self._rate, self._b1, self._b2, self._eps))
        rate *= tf.sqrt(1 - tf.cast(power2.value(), kind)) / (1 - tf.cast(power1.value(), kind))
        rows, values = indices, grad
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, rows) + (1 - beta1) * values
        new_v = beta2 * tf.gather(v, rows) + (1 - beta2) * tf.square(values)
        moved = tf.gather(var, rows) - rate * new_m / (tf.sqrt(new_v) + epsilon)
        with tf.control_dependencies([moved, new_m, new_v]):
            return tf.group(
                tf.scatter_update(m, rows, new_m),
                tf.scatter_update(v, rows, new_v),
                tf.scatter_update(var, rows, moved),
            )
