"""Files and folders on their way: as trees, passed on by the controller, and by their content, for jobs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dtfctl.values import value

FileKind: TypeAlias = Literal["file", "folder", "link"]


@value
class TotalBytes:
    """How much all files have; first."""

    count: int = 0


@value
class FileHead:
    """What comes now."""

    path: str
    """Relative, with `/`; empty for the root itself."""
    kind: FileKind
    mode: int = 0
    """The file's permissions."""
    size: int = 0
    mtime: float = 0.0
    link: str = ""
    """Where a link leads."""


@value
class Content:
    """Bytes of the newest head."""

    data: bytes


@value
class Checksum:
    """The checksum of the newest head's content, which is complete with it."""

    sha256: str


@value
class Skipped:
    """What was left out: sockets, devices, links that lead outside."""

    path: str


@value
class Done:
    """The end; without it something is missing."""


@value
class FilePart:
    """A part of a file or folder."""

    what: TotalBytes | FileHead | Content | Checksum | Skipped | Done


@value
class FetchRequest:
    """A file or folder of a host is wanted."""

    host: str
    process: str = ""
    """The process whose folder a relative path starts in."""
    path: str = ""
    folder: str = ""
    """The folder of the job of `process`, as in `ExecStart`."""


@value
class StoreStart:
    """Where a file or folder is to go on a host."""

    host: str
    process: str = ""
    path: str = ""
    """A folder that is there (or ends in `/`): into it; else the new name."""
    name: str = ""
    """The name of the root, where the path is a folder."""
    folder: str = ""
    """The folder of the job of `process`, as in `ExecStart`."""


@value
class StoreInput:
    """Where it is to go, first; then its parts."""

    what: StoreStart | FilePart


@value
class Stored:
    """What was written."""

    path: str
    files: int = 0
    bytes: int = 0


@value
class BlobPiece:
    """A piece of a file that is kept by its content; one whose offset is not where the file ends asks only."""

    sha256: str
    size: int = 0
    """The size of the whole file, in bytes."""
    offset: int = 0
    data: bytes = b""


@value
class BlobHeld:
    """How much of a file is there, from its begin."""

    bytes: int = 0
