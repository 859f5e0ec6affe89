"""Datagrams between an agent and its tasks, over unix sockets in a 0700 folder.

Task to agent: a beat, every `beat_s` and at once when it becomes ready or makes news. Agent to task: a peer went
down or came up. Each is one JSON object with a version; datagrams on a unix socket are neither lost nor reordered,
but a send fails while the other side is away, and is then done again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

VERSION = 1
LARGEST_DATAGRAM = 65536


@dataclass(frozen=True, slots=True)
class Beat:
    """`task` (`worker/1`) in its `incarnation` is alive."""

    task: str
    incarnation: int
    ready: bool
    """It serves."""
    steps: int
    """Graph executions so far."""


@dataclass(frozen=True, slots=True)
class PeerDown:
    job: str
    index: int
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class PeerUp:
    job: str
    index: int
    address: str
    incarnation: int


Note: TypeAlias = Beat | PeerDown | PeerUp
_KINDS: dict[str, type[Beat] | type[PeerDown] | type[PeerUp]] = {
    "beat": Beat,
    "peer_down": PeerDown,
    "peer_up": PeerUp,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}


def pack(note: Note) -> bytes:
    return json.dumps({"v": VERSION, "kind": _NAMES[type(note)], **asdict(note)}).encode()


def unpack(data: bytes) -> Note:
    """Raises ValueError for what is not a note of this version."""
    try:
        content: dict[str, Any] = json.loads(data)
        if content.pop("v") != VERSION:
            raise ValueError("another version")
        return _KINDS[content.pop("kind")](**content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a note: {data[:100]!r}") from error
