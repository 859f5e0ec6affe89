"""Ops of the array family that stop gradients."""

from __future__ import annotations

from dtfctl.runtime.framework.registries import not_differentiable

not_differentiable(
    "BroadcastArgs",
    "BroadcastGradientArgs",
    "ConcatOffset",
    "Const",
    "EditDistance",
    "Empty",
    "Fingerprint",
    "HostConst",
    "InvertPermutation",
    "ListDiff",
    "LowerBound",
    "OneHot",
    "OnesLike",
    "Placeholder",
    "PlaceholderV2",
    "Rank",
    "Shape",
    "ShapeN",
    "Size",
    "StopGradient",
    "Unique",
    "UniqueV2",
    "UniqueWithCounts",
    "UniqueWithCountsV2",
    "UnravelIndex",
    "UpperBound",
    "Where",
    "ZerosLike",
    "Bitcast",
    "QuantizeV2",
)
