"""The optimizer that multiplies a loss by a factor, divides the gradients by it, and skips steps that overflow."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.precision import MIXED, SWITCHES
from dtfctl.runtime.ops import math_ops
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.train.optimizer import GradAndVar, Optimizer
from dtfctl.runtime.train.precision.loss_scale import loss_scale_of

log = logging.getLogger(__name__)


class MixedPrecisionLossScaleOptimizer(Optimizer):
    """Wraps an optimizer for a loss that is scaled.

    Args:
        opt: applies the gradients.
        loss_scale: a `LossScale`, a number, or "dynamic".

    Raises:
        ValueError: they are something else.
    """

    def __init__(self, opt: Optimizer, loss_scale: Any) -> None:
        if not isinstance(opt, Optimizer):
            raise ValueError(f'"opt" must be an instance of Optimizer, but got: {type(opt)}')
        super().__init__(opt._use_locking, opt.get_name())
        scale = loss_scale_of(loss_scale)
        if scale is None:
            raise ValueError("loss_scale cannot be None")
        self._optimizer, self._loss_scale = opt, scale

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list[GradAndVar]:
        """Compute gradients as `Optimizer.compute_gradients` does, by way of the scaled loss."""
        value = loss() if callable(loss) else loss
        scaled = value * math_ops.cast(self._loss_scale(), value.dtype)
        pairs = self._optimizer.compute_gradients(scaled, *args, **kwargs)
        factor = 1 / self._loss_scale()
        return [(None if g is None else _times(g, factor), v) for g, v in pairs]

    def apply_gradients(  # type: ignore[override]
        self, grads_and_vars: Iterable[GradAndVar], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Make an op that applies gradients, and counts the step, unless one of them is infinite or undefined."""
        pairs = list(grads_and_vars)
        adapt, wanted = self._loss_scale.update([g for g, _ in pairs])
        if wanted is True:
            return self._optimizer.apply_gradients(pairs, global_step, name)
        name = name or self.get_name()
        with name_scope(None, "cond") as scope:
            # Where TensorFlow's checkpoints have them.
            self._optimizer._create_slots([v for g, v in pairs if g is not None])
        applied = cond(
            wanted, lambda: self._optimizer.apply_gradients(pairs, global_step, f"{name}-wrapped"), no_op, name=scope
        )
        return group(applied, adapt, name=name)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Any]:
        return [*self._optimizer.variables(), *self._loss_scale._weights.values()]


def _times(grad: Any, factor: Any) -> Any:
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return grad * factor


def enable_mixed_precision_graph_rewrite(
    opt: Optimizer, loss_scale: Any = "dynamic", dtype: Any = dtypes.float16
) -> MixedPrecisionLossScaleOptimizer:
    """Have sessions made from now on compute in mixed precision what loses nothing by it, and wrap an optimizer.

    Args:
        opt: the optimizer; use what is returned instead of it.
        loss_scale: as of `MixedPrecisionLossScaleOptimizer`.
        dtype: float16 for what runs on GPUs, as TensorFlow does; bfloat16 for what runs on CPUs.

    Raises:
        ValueError: `opt` is no optimizer, or wrapped already, or the type is neither.
    """
    if isinstance(opt, MixedPrecisionLossScaleOptimizer):
        raise ValueError(
            '"opt" must not already be an instance of a MixedPrecisionLossScaleOptimizer. '
            "`enable_mixed_precision_graph_rewrite` will automatically wrap the optimizer with a "
            "MixedPrecisionLossScaleOptimizer."
        )
    if not isinstance(opt, Optimizer):
        raise ValueError(f'"opt" must be an instance of a tf.train.Optimizer, but got: {opt}')
    wanted = as_dtype(dtype)
    if wanted not in SWITCHES:
        raise ValueError(f"dtype must be float16 or bfloat16, but got: {wanted.name}")
    wrapped = MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    if MIXED.is_late:
        log.warning(
            "You already have existing Sessions that do not use mixed precision. "
            "enable_mixed_precision_graph_rewrite() will not affect these Sessions."
        )
    MIXED.dtype = wanted
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Have sessions made from now on compute in the graph's own types; wrapped optimizers go on scaling."""
    if MIXED.dtype is None:
        log.warning("disable_mixed_precision_graph_rewrite() called when mixed precision is already disabled.")
    MIXED.dtype = None
