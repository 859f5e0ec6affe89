"""Compiled regions, kept by what they were made from in a folder only this user can write to.

What is read there is run, so nothing is read that somebody else could have written: the folder and each file are this
user's, and nobody else may write to them. A file that is not whole counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dtfctl.durable import not_private, whole_file
from dtfctl.runtime.kernels.native.image import Image

log = logging.getLogger(__name__)

_MOST_BYTES = 16 << 20
# A region has 4 to 40 KB.
_MOST_FILES = 4000


# Phases that touch less are not worth waking a thread.
LEAST_BYTES_SHARED = 512 << 10


def is_shared(blocks: int, nbytes: int) -> bool:
    """Tell whether a phase of so many blocks, which touches so much, is shared out to threads."""
    return blocks >= 2 and nbytes >= LEAST_BYTES_SHARED


class Touched(NamedTuple):
    """What a phase does to memory.

    Attributes:
        array: of those that the code gets; begin, nbytes: where in it; is_written: whether it is changed there.
        by_rows: whether each block has a part of that to itself, one after the other.
    """

    array: int
    begin: int
    nbytes: int
    is_written: bool
    by_rows: bool


@dataclass(frozen=True)
class Phase:
    """Loops that go through rows together.

    Attributes:
        blocks: in how many parts of the same size they may be cut; 1: in none.
        nbytes: how much they touch; touched: what.
    """

    blocks: int
    nbytes: int
    touched: Sequence[Touched] = ()


@dataclass(frozen=True)
class Compiled:
    """A region's code.

    Attributes:
        operands: which of its sketch's operands it gets, in order.
        scratch: bytes of memory that it needs besides; phases: in order.
        image: the code; numbers: of its table (`machine.numbers_of`).
    """

    operands: Sequence[int]
    scratch: int
    phases: Sequence[Phase]
    image: Image
    numbers: tuple[int, ...]

    def packed(self) -> tuple[str, bytes]:
        """Return a line that says what it is, without its end, and the image's bytes."""
        head = {
            "operands": list(self.operands),
            "scratch": self.scratch,
            "phases": [[p.blocks, p.nbytes, [list(t) for t in p.touched]] for p in self.phases],
            "entries": dict(self.image.entries),
            "numbers": list(self.numbers),
            "bytes": len(self.image.code),
        }
        return json.dumps(head), self.image.code

    @classmethod
    def unpacked(cls, head: dict[str, object], code: bytes) -> Compiled:
        """Make it of what `packed` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        operands, scratch, phases, entries = (head[k] for k in ("operands", "scratch", "phases", "entries"))
        numbers = head["numbers"]
        if not isinstance(operands, list) or not isinstance(phases, list) or not isinstance(entries, dict):
            raise TypeError
        if not isinstance(numbers, list):
            raise TypeError
        where = {str(name): int(at) for name, at in entries.items()}
        if not isinstance(scratch, int) or any(not 0 <= at < len(code) for at in where.values()):
            raise ValueError
        made = [Phase(int(a), int(b), _touched(c)) for a, b, c in phases]
        return cls([int(n) for n in operands], scratch, made, Image(code, where), tuple(int(n) for n in numbers))


def _touched(packed: object) -> list[Touched]:
    if not isinstance(packed, list):
        raise TypeError
    return [Touched(int(n), int(begin), int(size), bool(w), bool(r)) for n, begin, size, w, r in packed]


def read(digest: str) -> Compiled | None:
    """Read the code of a sketch; None where there is none that may be run."""
    folder = _folder()
    if folder is None:
        return None
    try:
        with open(_path(folder, digest), "rb", opener=_open) as file:
            held = os.fstat(file.fileno())
            is_ours = held.st_uid == os.geteuid() and not held.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not is_ours or held.st_size > _MOST_BYTES:
                return None
            data = file.read()
    except OSError:
        return None
    whole, rest = data[:32], data[32:]
    if hashlib.sha256(rest).digest() != whole:
        return None
    head, _, code = rest.partition(b"\n")
    try:
        return Compiled.unpacked(json.loads(head), code)
    except (KeyError, TypeError, ValueError):
        return None


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def keep(digest: str, made: Compiled) -> None:
    """Keep the code of a sketch, where that can be."""
    folder = _folder()
    if folder is None:
        return
    _forget_old(folder)
    head, code = made.packed()
    data = head.encode() + b"\n" + code
    try:
        with whole_file(_path(folder, digest)) as file:
            file.write(hashlib.sha256(data).digest() + data)
    except OSError as e:
        _warn("regions cannot be kept in", str(folder), type(e).__name__, str(e.strerror))


def _forget_old(folder: Path) -> None:
    """Remove the older half of what is kept, where that is too much."""
    try:
        names = os.listdir(folder)
        if len(names) < _MOST_FILES:
            return
        files = sorted((folder / name for name in names), key=lambda p: p.lstat().st_mtime)
        for path in files[: _MOST_FILES // 2]:
            path.unlink(missing_ok=True)
    except OSError as e:
        _warn("old regions cannot be removed from", str(folder), type(e).__name__, str(e.strerror))


@lru_cache(16)
def _warn(what: str, folder: str, kind: str, why: str) -> None:
    """Say once what does not work: it will not for the next region either."""
    log.warning("%s %s: %s: %s", what, folder, kind, why)


def _path(folder: Path, digest: str) -> Path:
    return folder / f"{hashlib.sha256(f'{_made_by()} {digest}'.encode()).hexdigest()[:40]}.region"


@lru_cache(1)
def _made_by() -> str:
    """Say what else code depends on: who compiles it, by which rules, and for which processor."""
    return f"{rules_of(Path(__file__).parent, 'llvmlite')} {platform.machine()} {processor()}"


def rules_of(folder: Path, package: str) -> str:
    """Say by which rules code is made: those of a package in its version, and of a folder's modules."""
    # With it come the modules of mail, 20 ms that a program without machine code does not need.
    from importlib.metadata import PackageNotFoundError, version

    try:
        made_by = version(package)
    except PackageNotFoundError:
        made_by = ""
    rules = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        rules.update(path.read_bytes())
    return f"{made_by} {rules.hexdigest()}"


@lru_cache(1)
def processor() -> str:
    """Say what the processor is and can do."""
    told = {}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if not line.strip():
                    break
                told[name.strip()] = value.strip()
    except OSError:
        return platform.processor()
    return " ".join(told.get(k, "") for k in ("vendor_id", "cpu family", "model", "flags"))


@lru_cache(1)
def _folder() -> Path | None:
    """Find where code may be kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dtfctl" / "native"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = not_private(folder)
    except (OSError, RuntimeError) as e:
        why = str(e)
    if why:
        log.warning("regions are compiled anew by each process, as %s %s", folder, why)
        return None
    return folder
