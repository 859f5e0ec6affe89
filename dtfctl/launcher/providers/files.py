"""Files that the spec's `sync` sends to hosts: what is in them now, by content, and a tar of it."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import stat
import tarfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfctl.durable import remove_left, whole_file
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.spec.model import ClusterSpec, Sync
from dtfctl.launcher.system.files import private_folder

ALWAYS_OUT = ("__pycache__/", ".git/")
KEPT = 4
"""Archives kept."""


@dataclass(frozen=True, slots=True)
class Synced:
    """One entry of `sync` as its files are now."""

    source: Path
    to: str
    exclude: tuple[str, ...]
    hash: str
    single: bool
    """Whether it is one file, not a folder."""


class Syncs:
    """The spec's `sync`. Any thread."""

    def __init__(self, cache: Path, entries: Sequence[Sync]) -> None:
        self._cache = cache
        self._entries = tuple(entries)
        self._lock = threading.Lock()
        self._stamp: tuple[Any, ...] = ()
        self._latest: list[Synced] = []

    def current(self) -> list[Synced]:
        """List what is to be there now; files are read again only where their size or time changed.

        Raises:
            HostFailed: a source is missing or cannot be read.
        """
        with self._lock, _readable():
            stamp = tuple(
                (str(path), info.st_size, info.st_mtime_ns, info.st_mode)
                for entry in self._entries
                for path, _ in _walk(Path(entry.source), entry.exclude)
                for info in (path.lstat(),)
            )
            if stamp != self._stamp or len(self._latest) != len(self._entries):
                self._latest = [_read(entry) for entry in self._entries]
                self._stamp = stamp
            return list(self._latest)

    def archive(self, item: Synced) -> Path:
        """Pack an item into a tar.

        Raises:
            HostFailed: a file cannot be read.
        """
        with self._lock, _readable():
            path = private_folder(self._cache) / f"sync-{item.hash[:24]}.tar.gz"
            if path.exists():
                path.touch()
                return path
            remove_left(self._cache)
            with whole_file(path) as archive, tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
                for file, name in _walk(item.source, item.exclude):
                    info = tar.gettarinfo(file, Path(item.to).name if item.single else name)
                    info.uid = info.gid = 0
                    info.uname = info.gname = ""
                    if info.isreg():
                        with file.open("rb") as content:
                            tar.addfile(info, content)
                    else:
                        tar.addfile(info)
            archives = sorted(self._cache.glob("sync-*.tar.gz"), key=lambda p: p.stat().st_mtime)
            for old in archives[:-KEPT]:
                old.unlink(missing_ok=True)
            return path


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Blame the user's files where one cannot be read, or goes away meanwhile: that is the user's to mend."""
    try:
        yield
    except OSError as error:
        raise HostFailed(
            "sync",
            f"sync: {error.filename or 'files'}: {error.strerror or error}",
            "mend it, or leave it out with `exclude`",
        ) from None


def setup_of(spec: ClusterSpec, synced: Sequence[Synced]) -> dict[str, Any]:
    """Write down the set-up commands, and the hash that says whether they ran for these files."""
    digest = hashlib.sha256(repr((spec.setup, [(item.to, item.hash) for item in synced])).encode())
    return {"commands": list(spec.setup), "hash": digest.hexdigest(), "env": dict(spec.env)}


def _read(entry: Sync) -> Synced:
    source = Path(entry.source)
    digest = hashlib.sha256(entry.to.encode())
    for path, name in _walk(source, entry.exclude):
        mode = path.lstat().st_mode
        digest.update(f"{name}\0{stat.S_IFMT(mode)}\0{mode & 0o111}\0".encode())
        if stat.S_ISLNK(mode):
            digest.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(mode):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    single = source.is_file()
    to = entry.to
    if single and to.endswith("/"):
        to = to + source.name
    return Synced(source, to, entry.exclude, digest.hexdigest(), single)


def _walk(source: Path, exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield every folder, file and link that goes along, with its name in the archive; in a fixed order."""
    if not os.path.lexists(source):
        raise HostFailed("sync", f"sync: there is no {source}", "check `from` in the spec")
    if source.is_file():
        yield source, source.name
        return
    rules = (*ALWAYS_OUT, *exclude)
    for folder, folders, names in os.walk(source):
        inside = Path(folder).relative_to(source)
        kept = sorted(name for name in folders if not _is_out(str(inside / name), True, rules))
        folders[:] = [name for name in kept if not (Path(folder) / name).is_symlink()]
        if str(inside) != ".":
            yield Path(folder), str(inside)
        for name in sorted([*names, *(name for name in kept if (Path(folder) / name).is_symlink())]):
            if not _is_out(str(inside / name), False, rules):
                path = Path(folder) / name
                if stat.S_ISREG(path.lstat().st_mode) or path.is_symlink():
                    yield path, str(inside / name)


def _is_out(path: str, is_folder: bool, rules: Sequence[str]) -> bool:
    """Tell whether a rule leaves a path out: `*.pyc` anywhere, `data/` such a folder, `a/b` what lies there."""
    name = os.path.basename(path)
    for rule in rules:
        plain = rule.rstrip("/")
        if rule.endswith("/") and not is_folder:
            continue
        if fnmatch.fnmatchcase(path if "/" in plain else name, plain.removeprefix("./")):
            return True
    return False
