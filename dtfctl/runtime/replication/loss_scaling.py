"""How a replica's loss is scaled, so that the sum of all replicas' gradients is that of the whole batch."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops.losses import LAST_REDUCTION, Reduction
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import ReduceOp


def get_loss_reduction() -> ReduceOp:
    """Return what becomes of replicas' losses: SUM, but MEAN within an Estimator unless its loss is a sum itself."""
    if not contexts.has_strategy() or not getattr(contexts.get_strategy(), "_scale_loss_for_estimator", False):
        return ReduceOp.SUM
    last = context.get_default_graph().get_collection(LAST_REDUCTION)
    sums = last and last[-1] in (Reduction.SUM, Reduction.NONE)
    return ReduceOp.SUM if sums else ReduceOp.MEAN


def loss_of_replica(loss: Any) -> Any:
    """Divide a loss by the number of replicas where their mean is wanted."""
    if get_loss_reduction() is ReduceOp.SUM or contexts.get_strategy().num_replicas_in_sync == 1:
        return loss
    share = convert_to_tensor(1.0 / contexts.get_strategy().num_replicas_in_sync, loss.dtype.base_dtype)
    return apply_op("Mul", x=loss, y=share)
