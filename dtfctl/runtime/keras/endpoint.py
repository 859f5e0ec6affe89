"""The outputs of compiled models: each with its targets, its loss and its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.keras import losses
from dtfctl.runtime.keras.metrics import metric_of
from dtfctl.runtime.keras.reduction import Reduction, reduce, weigh
from dtfctl.runtime.ops import array_ops, math_ops


@dataclass
class Endpoint:
    """One output of a compiled model."""

    output: Any
    name: str
    loss: Any
    weight: float = 1.0
    target: Any = None
    sample_weight: Any = None
    loss_metric: Any = None
    metrics: Any = ()
    weighted_metrics: Any = ()

    @property
    def is_fed(self) -> bool:
        """Whether its targets are fed."""
        return _is_fed(self.target)

    @property
    def weight_is_fed(self) -> bool:
        """Whether its examples' weights are fed."""
        return _is_fed(self.sample_weight)


def _is_fed(tensor: Any) -> bool:
    return tensor is not None and tensor.op.type in ("Placeholder", "PlaceholderWithDefault")


def output_loss(e: Endpoint) -> Any:
    """Compute the loss of one output: a scalar."""
    weight, mask = e.sample_weight, getattr(e.output, "_keras_mask", None)
    if mask is not None:
        mask = math_ops.cast(mask, e.output.dtype)
        if weight is None:
            weight = mask
        else:
            weight = math_ops.cast(weight, mask.dtype)
            for _ in range((mask.shape.rank or 0) - (weight.shape.rank or 0)):
                weight = array_ops.expand_dims(weight, -1)
            weight = weight * mask
    if isinstance(e.loss, losses.Loss):
        reduction = e.loss.reduction
        weighted = weigh(e.loss.call(e.target, e.output), weight)
        return reduce(weighted, Reduction.SUM_OVER_BATCH_SIZE if reduction == Reduction.AUTO else reduction)
    return e.loss(e.target, e.output, sample_weight=weight)


def make_metrics(endpoints: list[Endpoint], asked: Any, weighted: bool, from_serialized: bool) -> None:
    """Make the metrics that `compile` was asked for, each with a name of its own.

    Args:
        from_serialized: metrics that are objects are from a file, and have the output's name in theirs.
    """
    several = len(endpoints) > 1
    taken = {name for e in endpoints for name in (*dict(e.metrics), *dict(e.weighted_metrics))}
    lists = metric_lists(asked, [e.name for e in endpoints])
    for e, wanted in zip(endpoints, lists):
        if e.loss is None:
            continue
        made: dict[str, Any] = {}
        # Of those of one name an output has the last.
        found = {
            name: (metric, from_serialized and metric is one)
            for one in wanted
            for name, metric in [metric_of(one, e.output.shape.as_list(), e.loss, weighted)]
        }
        for name, (metric, is_named) in found.items():
            base = own = f"{e.name}_{name}" if several and not is_named else name
            count = 1
            while own in taken:
                own, count = f"{base}_{count}", count + 1
            taken.add(own)
            metric._name = own
            made[own] = metric
        if weighted:
            e.weighted_metrics = made
        else:
            e.metrics = made


def call_metrics(e: Endpoint, metrics: Any, sample_weight: Any, see: Callable[..., Any] | None = None) -> list[Any]:
    """Let metrics of one output see its targets and values.

    Args:
        see: what is called with a metric and what it is to see; the metric itself when None.

    Returns:
        what the calls returned.
    """
    mask = getattr(e.output, "_keras_mask", None)
    found = []
    for name, metric in dict(metrics).items():
        with name_scope(name):
            weights = sample_weight
            if mask is not None:
                mask = math_ops.cast(mask, e.output.dtype)
                weights = mask if weights is None else mask * array_ops.expand_dims(weights, -1)
            given = {} if weights is None else {"sample_weight": weights}
            found.append((see or type(metric).__call__)(metric, e.target, e.output, **given))
    return found


def per_output(given: Any, names: list[str], what: str, default: Any = None) -> list[Any]:
    """Give each output its loss, or weight."""
    if given is None:
        return [default] * len(names)
    if isinstance(given, dict) and "class_name" not in given:
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(f'Unknown entry in `{what}` dictionary: "{unknown[0]}". Only expected: {names}')
        return [given.get(name, default) for name in names]
    if isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(
                f"When passing a list as {what}, it should have one entry per model output. The model has "
                f"{len(names)} outputs, but you passed {what}={given}"
            )
        return list(given)
    if what == "loss_weights":
        raise TypeError(f"Could not interpret loss_weights argument: {given} - expected a list of dicts.")
    return [given] * len(names)


def metric_lists(given: Any, names: list[str]) -> list[list[Any]]:
    """Give each output its metrics."""
    if not given:
        return [[] for _ in names]
    if isinstance(given, dict):
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(f'Unknown entry in `metrics` dictionary: "{unknown[0]}". Only expected: {names}')
        found = [given.get(name, []) for name in names]
        return [list(f) if isinstance(f, (list, tuple)) else [f] for f in found]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Type of `metrics` argument not understood. Expected a list or dictionary, found: {given}")
    if any(isinstance(g, (list, tuple)) for g in given):
        if len(given) != len(names):
            raise ValueError(f"The model has {len(names)} outputs, but you passed metrics={given}")
        return [list(g) if isinstance(g, (list, tuple)) else [g] for g in given]
    return [list(given) for _ in names]
