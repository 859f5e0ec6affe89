"""`tf.train.experimental`."""

from __future__ import annotations

from dtfctl.runtime.train.precision.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from dtfctl.runtime.train.precision.optimizer import (
    MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)
from dtfctl.runtime.train.prefetching import PrefetchParametersHook
from dtfctl.runtime.train.staleness import BoundedStalenessHook

__all__ = [
    "BoundedStalenessHook",
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "PrefetchParametersHook",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
]
