"""Say what is wanted of the whole cluster, as a host keeps it for the controller.

A controller whose database is lost begins again with the newest copy that any host has; see `controller/rebuild.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dtfctl.launcher.messages import codec
from dtfctl.values import field, value


@value
class Copy:
    """One copy. Of two the one with the higher epoch, or of the same epoch with the higher revision, is newer."""

    epoch: int = 0
    revision: int = 0
    entries: Mapping[str, str] = field(default_factory=dict)


def parse(content: bytes) -> Copy:
    """Read a copy as a host keeps it; an empty one where nothing is kept. Raises ValueError."""
    return codec.decode(Copy, content) if content else Copy()
