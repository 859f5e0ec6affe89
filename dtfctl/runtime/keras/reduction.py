"""How losses of examples become one number."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


class Reduction:
    """How losses of examples become one number: not at all, by their sum, or by their mean."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return the names of all."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: str) -> None:
        """Check a name.

        Raises:
            ValueError: it is none.
        """
        if key not in cls.all():
            raise ValueError(f'Invalid Reduction Key: {key}. Expected keys are "{cls.all()}"')


def weigh(losses: Any, sample_weight: Any) -> Tensor:
    """Multiply losses of examples by the examples' weights; a scalar, or of the rank that fits."""
    if sample_weight is None:
        sample_weight = 1.0
    with name_scope("weighted_loss"):
        values = convert_to_tensor(losses)
        weights: Tensor = math_ops.cast(sample_weight, values.dtype)
        rank, weight_rank = values.shape.rank, weights.shape.rank
        if rank is not None and weight_rank not in (None, 0):
            if weight_rank - rank == 1:
                weights = array_ops.squeeze(weights, [-1])
            elif rank - weight_rank == 1:
                weights = array_ops.expand_dims(weights, -1)
        return math_ops.multiply(values, weights)


def valid_weights(losses: Any, sample_weight: Any, masks: list[Any], reduction: str) -> Any:
    """Make weights of masks that say which losses count, and of the examples' weights.

    Where a mean is taken it is one of those that count.
    """
    dtype = convert_to_tensor(losses).dtype
    found = [math_ops.cast(mask, dtype) for mask in masks if mask is not None]
    if not found:
        return sample_weight
    mask = found[0] if len(found) == 1 else math_ops.multiply(*found)
    if reduction in (Reduction.AUTO, Reduction.SUM_OVER_BATCH_SIZE):
        mask *= math_ops.cast(array_ops.size(mask), dtype) / math_ops.reduce_sum(mask)
    if sample_weight is None:
        return mask
    weights = math_ops.cast(sample_weight, dtype)
    for _ in range((mask.shape.rank or 0) - (weights.shape.rank or 0)):
        weights = array_ops.expand_dims(weights, -1)
    return weights * mask


def reduce(losses: Tensor, reduction: str) -> Tensor:
    """Make one number of losses."""
    if reduction == Reduction.NONE:
        return losses
    total = math_ops.reduce_sum(losses)
    if reduction == Reduction.SUM:
        return total
    count = math_ops.cast(array_ops.size(losses, name="num_elements"), losses.dtype)
    return math_ops.div_no_nan(total, count, name="value")


def weighted_loss(losses: Any, sample_weight: Any, reduction: str) -> Tensor:
    """Weigh losses of examples, and make one number of them."""
    weighted = weigh(losses, sample_weight)
    if not weighted.dtype.is_floating:
        weighted = math_ops.cast(weighted, dtypes.float32)
    return reduce(weighted, reduction)
