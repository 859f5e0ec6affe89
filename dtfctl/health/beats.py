"""Datagrams between an agent and its tasks, over unix sockets in a 0700 folder.

Task to agent: a beat, every `beat_s` and at once when it becomes ready or makes news. Agent to task: a peer went
down, came up or is out of the cluster, a job has ended. Each is one JSON object with a version, in a line of its own,
so that a task that starts hears of all others in a few datagrams. Datagrams on a unix socket are neither lost nor
reordered, but a send fails while the other side is away or has no room, and is then done again.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from dtfctl.figures import TaskFigures
from dtfctl.values import field, names_of, value

VERSION = 1
LARGEST_DATAGRAM = 65536
MOST_LINKS = 128
"""What a beat tells of. With `MOST_WORDS` letters on each one's codecs all of them fit into a datagram."""
MOST_WORDS = 160


@value
class Carried:
    """How a task sends to another one; see `TaskLink`."""

    peer: str
    transport: str
    encrypted: bool
    bytes_s: float = 0.0
    samples: int = 0
    codecs: str = ""


@value
class Beat:
    """`task` (`worker/1`) in its `incarnation` is alive."""

    task: str
    incarnation: int
    ready: bool
    """Whether the task serves."""
    steps: int
    """Graph executions so far."""
    transport: str = ""
    """What carries tensors to other tasks now; see `TaskStatus`."""
    blas: str = ""
    """See `TaskStatus`."""
    stuck: str = ""
    """What of it does not serve any more, in words: then this is no sign of health."""
    unreachable: tuple[str, ...] = ()
    """Tasks that it works with, that are said to be up, and that do not answer it."""
    spared_bytes: int = 0
    """See `TaskStatus`."""
    faults: int = 0
    """What its loops and threads have raised, and went on after."""
    links: tuple[Carried, ...] = ()
    """One for each task that it is linked to; of many the first `MOST_LINKS`."""
    news: tuple[str, ...] = ()
    """What a person is to know, newest last, each with a number of its own before it."""
    figures: TaskFigures = field(default_factory=TaskFigures)


@value
class PeerDown:
    job: str
    index: int
    incarnation: int
    reason: str


@value
class PeerUp:
    job: str
    index: int
    address: str
    incarnation: int


@value
class JobEnded:
    """Nothing of that job runs any more: what the task holds for it is to go."""

    job_id: str


@value
class PeerGone:
    """A task that will not come back for now: taken out of the cluster, or lost with no place left for it."""

    job: str
    index: int
    reason: str
    lost: bool = False
    """Only lost: it comes back when there is a place for it."""


@value
class Place:
    """Where the task stands, and what was measured of the ways from its host to those of other tasks."""

    rack: str
    rates: tuple[tuple[str, float], ...]
    """Bytes a second, by task; of many the first `MOST_LINKS`."""


Note: TypeAlias = Beat | PeerDown | PeerUp | PeerGone | JobEnded | Place
_KINDS: dict[str, type[Beat] | type[PeerDown] | type[PeerUp] | type[PeerGone] | type[JobEnded] | type[Place]] = {
    "beat": Beat,
    "peer_down": PeerDown,
    "peer_up": PeerUp,
    "peer_gone": PeerGone,
    "job_ended": JobEnded,
    "place": Place,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}


def pack(note: Note) -> bytes:
    fields = {name: getattr(note, name) for name in names_of(type(note)) or ()}
    if isinstance(note, Beat):
        fields["links"] = [[getattr(link, name) for name in names_of(Carried) or ()] for link in note.links]
        fields["figures"] = {name: getattr(note.figures, name) for name in names_of(TaskFigures) or ()}
    return json.dumps({"v": VERSION, "kind": _NAMES[type(note)], **fields}).encode()


def unpack_all(data: bytes) -> list[Note]:
    """Return the notes of one datagram. Raises ValueError."""
    return [unpack(line) for line in data.split(b"\n")]


def unpack(data: bytes) -> Note:
    """Raises ValueError for what is not a note of this version."""
    try:
        content: dict[str, Any] = json.loads(data)
        if content.pop("v") != VERSION:
            raise ValueError("another version")
        if "unreachable" in content:
            content["unreachable"] = tuple(content["unreachable"])
        if "news" in content:
            content["news"] = tuple(content["news"])
        if "rates" in content:
            content["rates"] = tuple((str(name), float(rate)) for name, rate in content["rates"])
        if "links" in content:
            content["links"] = tuple(Carried(*fields) for fields in content["links"])
        if "figures" in content:
            counts = tuple(content["figures"].pop("step_counts"))
            content["figures"] = TaskFigures(step_counts=counts, **content["figures"])
        return _KINDS[content.pop("kind")](**content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a note: {data[:100]!r}") from error
