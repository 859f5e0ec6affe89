"""What the controller says to the agent of a host beside its orders, and what agents say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dtfctl.launcher.messages.reports import LogChunk, LogPosition
from dtfctl.values import field, value

SharedStep: TypeAlias = Literal["leave", "find", "take"]
"""`leave` on one host; `find` on each other one; `take` on the first again."""


@value
class Applied:
    """Done; `revision` is that of the orders that the host has, `term` that of its lease."""

    revision: int = 0
    term: int = 0


@value
class Script:
    """A job's script, kept by its content. Orders that name it come after it."""

    name: str
    sha256: str
    content: bytes = b""


@value
class RenewRequest:
    """The controller still wants what it ordered: the lease goes on."""

    epoch: int
    revision: int = 0
    """The revision of the orders that the controller has delivered."""
    term: int = 0
    """What the host has said last of its lease (`agent/lease.py`)."""


@value
class KeepRequest:
    """What a controller that has lost its database begins again with (`controller/hosts/state_copies.py`)."""

    epoch: int
    revision: int
    base: int = 0
    """The revision since which `entries` and `removed` are all that has changed; 0: `entries` is everything."""
    entries: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@value
class RecallRequest:
    """All that the host keeps is wanted."""


@value
class RecallReply:
    """All that a host keeps."""

    copy: bytes = b""
    """The host's state as it was kept; empty: none."""
    state: bytes = b""
    """Orders and records of the host, as its agent stores them."""
    boot: str = ""
    """The boot of the agent."""
    happening: int = 0
    """The newest in the agent's life."""


@value
class ProbeRequest:
    """Can this host start a process and write a file?"""


@value
class ProbeReply:
    """What is wrong with a host; empty: nothing."""

    problem: str = ""


@value
class SharedRequest:
    """A step of the proof that a folder is the same one on several hosts."""

    folder: str
    token: str
    step: SharedStep


@value
class Certificate:
    """A new certificate, and its key."""

    name: str
    """The name of the certificate's files: `agent-HOST`, `task-JOB-INDEX`."""
    cert: bytes
    key: bytes


@value
class CertifyRequest:
    """New certificates. Without an authority nothing is changed, and the answer says what there is."""

    authority: bytes = b""
    """The authority's certificate."""
    certificates: tuple[Certificate, ...] = ()
    tasks: tuple[str, ...] = ()
    """The tasks of this host; certificates of others go."""
    former: bytes = b""
    """Authorities that tasks trust, too."""


@value
class Certified:
    """What certificates a host has, and until when they hold."""

    until: Mapping[str, float] = field(default_factory=dict)
    """The end of each certificate by its name, and of `ca`: seconds since the epoch."""


@value
class WatchRequest:
    """Reports are wanted: one at once, then one at every change and every beat."""

    epoch: int
    boot: str = ""
    """The boot of the agent whose happenings the controller has."""
    happening: int = 0
    """The newest it has."""


@value
class ReadLogsRequest:
    """What was written past these positions."""

    positions: tuple[LogPosition, ...] = ()
    max_bytes: int = 0
    wait_s: float = 0.0
    """How long to wait for anything new."""
    tail: int = 0
    """The number of lines before the end to begin at, for a position with file 0; 0: at the start."""


@value
class ReadLogsReply:
    """What was written."""

    chunks: tuple[LogChunk, ...] = ()


@value
class ListFilesRequest:
    """What another host has of a job's checkpoint folder."""

    path: str
    tag: str = ""
    """The tag of the list that the caller has."""
    clock: int = 0
    """The highest version that the caller has heard of."""


@value
class Entry:
    """A file of the folder, whole, or that it is gone."""

    path: str
    """Relative, with `/`."""
    version: int = 0
    size: int = 0
    sha256: str = ""
    mtime_ns: int = 0
    deleted: bool = False


@value
class FileList:
    """What is in a job's checkpoint folder."""

    tag: str = ""
    """The caller's: nothing has changed."""
    entries: tuple[Entry, ...] = ()
    age_s: float | None = None
    """The age in seconds above which nothing that was written is missing; None while files are written."""


@value
class ReadFileRequest:
    """What follows `offset` of a file in a job's checkpoint folder."""

    folder: str
    path: str
    sha256: str
    offset: int = 0


@value
class FilePiece:
    """A piece of such a file."""

    data: bytes = b""


@value
class EchoRequest:
    """Answer at once."""


@value
class EchoReply:
    """The answer."""


@value
class PiecesRequest:
    """Say something for that long, as fast as it is taken."""

    seconds: float


@value
class Piece:
    """A part of what is said; it means nothing."""

    data: bytes = b""


@value
class ShutdownRequest:
    """Stop everything, then the agent."""

    grace_s: float
    epoch: int
    delete_logs: bool = False
