"""Ops of the nn family that stop gradients."""

from __future__ import annotations

from dtfctl.runtime.framework.registries import not_differentiable

not_differentiable("InTopK", "InTopKV2", "CTCGreedyDecoder", "CTCBeamSearchDecoder", "DataFormatDimMap")
not_differentiable("FractionalAvgPoolGrad", "FractionalMaxPoolGrad", "ApproxTopK")
