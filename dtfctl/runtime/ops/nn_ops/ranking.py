"""The largest elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor


class TopK(NamedTuple):
    """What `top_k` gives."""

    values: Tensor
    indices: Tensor


def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """Find values and indices of the k largest entries of each row; the indices are of index_type."""
    values, indices = apply_op_outputs("TopKV2", input=input, k=k, sorted=sorted, index_type=index_type, name=name)
    return TopK(values, indices)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Tell whether each target is among the k best predictions of its row."""
    with name_scope(name, "in_top_k"):
        targets = convert_to_tensor(targets, name="targets")
        k = k if isinstance(k, Tensor) else constant(k, targets.dtype.base_dtype)
        return apply_op("InTopKV2", predictions=predictions, targets=targets, k=k)


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> Any:
    """Find the `k` largest elements along a dimension, and where they are; `recall_target` of them may do."""
    return _approximate(True, **locals())


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> Any:
    """Find the `k` smallest elements along a dimension, and where they are; `recall_target` of them may do."""
    return _approximate(False, **locals())


def _approximate(is_max_k: bool, operand: Any, **arguments: Any) -> Any:
    return tuple(apply_op_outputs("ApproxTopK", input=operand, is_max_k=is_max_k, **arguments))
