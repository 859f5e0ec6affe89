"""How many hosts there are of those that may come and go: told as events when that changes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dtfctl.launcher.spec import elastic
from dtfctl.launcher.spec.model import ClusterSpec

SUBJECT = "hosts"


class HostCount:
    """The numbers of hosts that were told last. Owned by the controller's loop."""

    def __init__(self, add_event: Callable[[str, str, str], object]) -> None:
        self._add_event = add_event
        self._counts: dict[str, int] = {}

    def look(self, there: Collection[str], spec: ClusterSpec) -> None:
        """Tell what has changed: `hosts.fewer`, `hosts.more`, `hosts.too-few`; nothing while a cluster comes up."""
        for name, group in spec.host_groups.items():
            if not elastic.is_elastic_group(group):
                continue
            least, count = group.min or 0, sum(item.name in there for item in group.names)
            before = self._counts.get(name)
            if before == count or (before is None and count < least):
                continue
            self._counts[name] = count
            if before is None:
                continue
            kind = "more" if count > before else "fewer" if count >= least else "too-few"
            text = f"{count} of {len(group.names)} hosts, at least {least} are needed"
            self._add_event(f"hosts.{kind}", SUBJECT, text if len(spec.host_groups) == 1 else f"{name}: {text}")
