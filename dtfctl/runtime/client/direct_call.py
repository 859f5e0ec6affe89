"""Signatures of `Session.run` whose plain steps take the short way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dtfctl.runtime.client.backend import Prepared, own_values
from dtfctl.runtime.client.feeds import FeedConverter
from dtfctl.runtime.client.fetches import FetchPlan


class DirectCall:
    """A signature whose plain steps take the short way (`Backend.prepare`).

    Attributes:
        converters: one a feed, in the order of the feed_dict.
        kept: the fetches and keys it was made for, so that their ids stay theirs.
        single: what it gives is the one fetched tensor's value.
    """

    __slots__ = ("converters", "kept", "plan", "prepared", "single")

    def __init__(self, plan: FetchPlan, prepared: Prepared, converters: list[FeedConverter], kept: Any) -> None:
        self.plan = plan
        self.prepared = prepared
        self.converters = converters
        self.kept = kept
        self.single = plan.is_single

    def run(self, values: Iterable[Any]) -> Any:
        results = own_values(self.prepared([convert(v) for convert, v in zip(self.converters, values)]))
        return results[0] if self.single else self.plan.results(results)


def call_key(fetches: Any, feed_dict: Mapping[Any, Any] | None) -> tuple[Any, ...]:
    """Tell signatures of `run` apart by the identity of what is fetched and fed."""
    kind = fetches.__class__
    if kind is list or kind is tuple:
        if feed_dict:
            return (kind, len(fetches), *map(id, fetches), *map(id, feed_dict))
        return (kind, *map(id, fetches))
    if feed_dict:
        return (id(fetches), *map(id, feed_dict))
    return (id(fetches),)
