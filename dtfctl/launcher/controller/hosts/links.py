"""What is known of the links between hosts: kept with the cluster, and an event when one has become worse."""

from __future__ import annotations

from collections.abc import Collection

from dtfctl.launcher.controller.decisions.link_rates import LEAST_SHARE
from dtfctl.launcher.controller.state.store import Store
from dtfctl.launcher.messages import codec
from dtfctl.launcher.model import LinkStatus
from dtfctl.values import value

KEY = "links"
# What is worse than noise beside a lesser rate: so many times the round trip, and so much longer.
MOST_TIMES, LEAST_LONGER_S = 3.0, 0.002


@value
class Links:
    """All that is known, as it is stored."""

    links: tuple[LinkStatus, ...] = ()


class LinkRecord:
    """The newest figures of each pair, by who speaks to whom; used by the controller's loop alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        text = store.get(KEY)
        stored = () if text is None else codec.decode(Links, text).links
        self._links = {(link.source, link.target): link for link in stored}

    def take(self, link: LinkStatus) -> None:
        """Keep what was measured. What could not be measured leaves what was known."""
        pair = link.source, link.target
        before = self._links.get(pair)
        if link.problem:
            self._store.add_event("link.failed", f"host:{link.target}", f"from {link.source}: {link.problem}")
            return
        worse = degraded(before, link)
        if worse:
            self._store.add_event("link.degraded", f"host:{link.target}", f"from {link.source}: {worse}")
        self._links[pair] = link
        self._store.put(KEY, codec.encode(Links(tuple(self._links.values()))))

    def known(self, hosts: Collection[str]) -> tuple[LinkStatus, ...]:
        """List those between hosts that there are."""
        return tuple(link for (a, b), link in sorted(self._links.items()) if a in hosts and b in hosts)


def degraded(before: LinkStatus | None, now: LinkStatus) -> str:
    """Say how a link has become worse; empty where it has not, or nothing was known."""
    if before is None:
        return ""
    if now.bytes_s < LEAST_SHARE * before.bytes_s:
        return f"{now.bytes_s / 1e6:,.4g} MB/s, and {before.bytes_s / 1e6:,.4g} before"
    if now.round_trip_s > max(MOST_TIMES * before.round_trip_s, before.round_trip_s + LEAST_LONGER_S):
        return f"a round trip takes {now.round_trip_s * 1e3:.2g} ms, and {before.round_trip_s * 1e3:.2g} before"
    return ""
