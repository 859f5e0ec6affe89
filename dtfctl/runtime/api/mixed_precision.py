"""`tf.mixed_precision`: the rewrite of graphs, and factors on losses."""

from __future__ import annotations

from dtfctl.runtime.train.precision import experimental
from dtfctl.runtime.train.precision.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from dtfctl.runtime.train.precision.optimizer import (
    MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
    "experimental",
]
