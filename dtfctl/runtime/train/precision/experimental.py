"""`tf.mixed_precision.experimental`."""

from __future__ import annotations

from dtfctl.runtime.train.precision.loss_scale import DynamicLossScale, FixedLossScale, LossScale

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale"]
