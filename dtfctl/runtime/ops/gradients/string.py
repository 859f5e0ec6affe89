"""String ops have no gradients."""

from __future__ import annotations

from dtfctl.runtime.framework.registries import not_differentiable

not_differentiable(
    "AsString",
    "ReduceJoin",
    "StringJoin",
    "StringSplit",
    "StringSplitV2",
    "StringToHashBucket",
    "StringToHashBucketFast",
    "StringToHashBucketStrong",
    "StringLength",
    "RegexReplace",
    "StaticRegexReplace",
    "StringFormat",
)
