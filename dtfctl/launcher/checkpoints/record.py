"""The files of one folder on this host: which there are, in which version; told to others and taken from them.

The record lies in the folder itself (`.dtfctl/files.json`): a folder that was deleted as a whole takes its record
along, and is filled again instead of being emptied everywhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dtfctl.copied import KNOWN_UNTIL, OWN
from dtfctl.launcher.checkpoints.manifest import (
    HIGHEST_VERSION,
    MOST_FILES,
    STATE,
    checkpoint_of,
    goes_with,
    is_newer,
    is_replicated,
)
from dtfctl.launcher.errors import NotFound, TransferFailed
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.agent import Entry
from dtfctl.launcher.system.files import OUT_OF_SPACE, no_space, private_folder, write_whole
from dtfctl.values import field, replace, value

SETTLE_S = 0.4
"""A file that has not changed for so long is finished."""
STATE_BEGINS = b"model_checkpoint_path:"
PIECE_BYTES = 4 * 2**20
UNSTORED = 1_000_000
"""More versions than are given or heard of between two times that a record is stored."""
MOST_DELETED = 2000
"""How many of the files that were deleted last are remembered."""

Mark = tuple[int, int, int]
"""Size, time of change and inode of a file: what differs when it was written again."""


@value
class _Saved:
    entries: tuple[Entry, ...] = ()
    marks: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    clock: int = 0
    floor: int = 0


class Record:
    """Any thread. What changes it is called by one thread, which has it stored with `save` now and then: a record that
    is older than the files is brought up to date by the next look at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)
        private_folder(folder / OWN)
        self._file = folder / OWN / "files.json"
        self._lock = threading.RLock()
        self._boot = secrets.token_hex(4)
        self._count = 1
        saved = self._load()
        self._entries = {entry.path: entry for entry in saved.entries}
        self._clock = max([saved.clock, *(entry.version for entry in saved.entries)])
        """The highest version that was heard of."""
        if self._clock:
            self._clock += UNSTORED  # what was changed while nobody looked is newer than what was told before
        self.floor = saved.floor
        """What is not known and has no higher version was deleted."""
        self._deleted = sum(entry.deleted for entry in saved.entries)
        self._parts: dict[str, set[str]] = {}
        """The files of each checkpoint."""
        for path in self._entries:
            self._file_under(path)
        self._is_stored = True
        self._complete_at: float | None = None
        """When the last look began, if it found nothing that was being written."""
        self._marks: dict[str, Mark] = dict(saved.marks)
        self._fresh: dict[str, tuple[Mark, float]] = {}
        """Files that were written since, what they looked like, and when they were first seen so."""
        self._missing: dict[str, float] = {}
        """Files that are gone, and since when: a folder that is being deleted as a whole loses them one by one."""
        self.times_taken_away = 0
        """How often the folder was found deleted as a whole; each time it is one of which nothing is known."""
        for name in os.listdir(folder / OWN):
            if name.startswith("incoming-"):
                (folder / OWN / name).unlink(missing_ok=True)

    def _load(self) -> _Saved:
        try:
            return codec.decode(_Saved, self._file.read_text())
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return _Saved()  # what is there is told as if it were new

    def save(self) -> None:
        """Store what has changed since the last time.

        Raises:
            NoSpace.
        """
        with self._lock:
            if self._is_stored or not self.is_there:
                return
            self._forget()
            saved = _Saved(tuple(self._entries.values()), dict(self._marks), self._clock, self.floor)
            self._is_stored = True
        try:
            write_whole(self._file, codec.encode(saved).encode())
        except BaseException:
            self._is_stored = False
            raise

    def _forget(self) -> None:
        """Keep only the floor of the oldest deletions."""
        if self._deleted <= MOST_DELETED:
            return
        gone = sorted((entry for entry in self._entries.values() if entry.deleted), key=lambda entry: entry.version)
        for entry in gone[:-MOST_DELETED]:
            self.floor = max(self.floor, entry.version)
            del self._entries[entry.path]
            part = checkpoint_of(entry.path)
            if part is not None and (paths := self._parts.get(part)) is not None:
                paths.discard(entry.path)
                if not paths:
                    del self._parts[part]
        self._deleted = MOST_DELETED

    @property
    def is_there(self) -> bool:
        """Whether the folder is the one that this is the record of: it was not deleted as a whole."""
        return self._file.parent.is_dir()

    @property
    def tag(self) -> str:
        """Changes with every change of an entry."""
        with self._lock:
            return f"{self._boot}:{self._count}"

    @property
    def entries(self) -> dict[str, Entry]:
        with self._lock:
            return dict(self._entries)

    @property
    def busy(self) -> set[str]:
        """Files that are being written, by this host's processes."""
        with self._lock:
            return set(self._fresh)

    # ------------------------------------------------------------------ what this host's processes write

    def scan(self) -> bool:
        """Take notice of what was written and deleted here; whether anything is new.

        Raises:
            NoSpace.
        """
        if not self.is_there:
            self._begin_again()
        began = time.monotonic()
        found = self._look()
        now, finished = time.monotonic(), []
        with self._lock:
            for path, mark in found.items():
                if self._marks.get(path) == mark:
                    self._fresh.pop(path, None)
                    continue
                before = self._fresh.get(path)
                is_new = before is None or before[0] != mark
                if before is None or is_new:
                    before = self._fresh[path] = (mark, now)
                if (not is_new and now - before[1] >= SETTLE_S) or self._is_whole_state(path):
                    finished.append((path, mark))
            for path in self._fresh.keys() - found.keys():
                del self._fresh[path]
            self._missing = {path: self._missing.get(path, now) for path in self._marks if path not in found}
            gone = [path for path, since in self._missing.items() if since < began and now - since >= SETTLE_S]
        hashed = [(path, mark, sha) for path, mark in finished if (sha := self._hash(path, mark)) is not None]
        if not hashed and not gone:
            with self._lock:
                self._complete_at = None if self._fresh else began
            return False
        with self._lock:
            for path in gone:
                del self._missing[path]
                self._marks.pop(path, None)
                self._put(Entry(path, self._next(), deleted=True))
            for path, mark, sha in hashed:
                self._fresh.pop(path, None)
                self._marks[path] = mark
                known = self._entries.get(path)
                if known is None or known.deleted or (known.sha256, known.size) != (sha, mark[0]):
                    self._put(Entry(path, self._next(), mark[0], sha, mark[1]))
            self._complete_at = None if self._fresh else began
            self._is_stored = False
        return True

    def _begin_again(self) -> None:
        """Know nothing any more of a folder that was taken away as a whole, so that it is filled again."""
        private_folder(self.folder)
        private_folder(self._file.parent)
        with self._lock:
            self._entries, self._marks, self._fresh, self._missing, self._parts = {}, {}, {}, {}, {}
            self._deleted = self.floor = 0
            self._is_stored = False
            self._count += 1
            self.times_taken_away += 1

    @property
    def age_s(self) -> float | None:
        """What was written longer ago than this is among the entries; None while something is being written."""
        with self._lock:
            return None if self._complete_at is None else time.monotonic() - self._complete_at

    @property
    def clock(self) -> int:
        with self._lock:
            return self._clock

    def hear(self, clock: int) -> None:
        """Note how far another host has come with its versions: what is written here from now on is newer than all
        that."""
        with self._lock:
            self._clock = max(self._clock, min(clock, HIGHEST_VERSION))

    def _next(self) -> int:
        return self._clock + 1

    def _put(self, entry: Entry) -> None:
        known = self._entries.get(entry.path)
        self._deleted += entry.deleted - (known is not None and known.deleted)
        self._entries[entry.path] = entry
        self._file_under(entry.path)
        self._clock = max(self._clock, entry.version)
        self._count += 1
        self._is_stored = False

    def _file_under(self, path: str) -> None:
        part = checkpoint_of(path)
        if part is not None:
            self._parts.setdefault(part, set()).add(path)

    def of_checkpoint(self, prefix: str) -> dict[str, Entry]:
        """Return what is known of the files of one checkpoint."""
        with self._lock:
            return {path: self._entries[path] for path in self._parts.get(prefix, ())}

    def _look(self) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        for at, folders, names in os.walk(self.folder):
            inside = os.path.relpath(at, self.folder)
            base = "" if inside == "." else inside + "/"
            folders[:] = [name for name in folders if is_replicated(f"{base}{name}/x")]
            for name in names:
                path = base + name
                if not is_replicated(path) or len(found) >= MOST_FILES:
                    continue
                with contextlib.suppress(OSError):
                    info = os.lstat(os.path.join(at, name))
                    if stat.S_ISREG(info.st_mode):
                        found[path] = (info.st_size, info.st_mtime_ns, info.st_ino)
        return found

    def _is_whole_state(self, path: str) -> bool:
        """Tell whether it is TensorFlow's list of checkpoints, which takes its place when it is whole.

        Of a program that saves all the time it is never seen at rest, and on other hosts would name what is long gone.
        """
        if path.rpartition("/")[2] != STATE:
            return False
        try:
            with self._open(path) as file:
                return bool(file.read(len(STATE_BEGINS)) == STATE_BEGINS)
        except OSError:
            return False

    def _hash(self, path: str, mark: Mark) -> str | None:
        """Return the SHA-256 of a file; None where it is being written again, or gone."""
        digest = hashlib.sha256()
        try:
            with self._open(path) as file:
                while data := file.read(PIECE_BYTES):
                    digest.update(data)
                return digest.hexdigest() if _mark_of(os.fstat(file.fileno())) == mark else None
        except OSError:
            return None

    def _open(self, path: str):  # type: ignore[no-untyped-def]
        fd = os.open(self.folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return os.fdopen(fd, "rb")

    # ------------------------------------------------------------------ for others, and from them

    def set_known_until(self, moment: float) -> None:
        """Tell the processes of this host, by the time of a file: what anybody wrote before that moment is here, or on
        no host that is not lost (`runtime/train/checkpoint_management.py` waits for it)."""
        path = self.folder / OWN / KNOWN_UNTIL
        path.touch()
        os.utime(path, (moment, moment))

    def read(self, path: str, sha256: str, offset: int) -> bytes:
        """Return a piece of a file of this version.

        Raises:
            NotFound: there is another version by now, or none.
        """
        with self._lock:
            entry, mark = self._entries.get(path), self._marks.get(path)
        gone = NotFound(f"{path} is no longer there in that version")
        if entry is None or entry.deleted or entry.sha256 != sha256 or mark is None:
            raise gone
        try:
            with self._open(path) as file:
                if _mark_of(os.fstat(file.fileno())) != mark:
                    raise gone
                data: bytes = os.pread(file.fileno(), PIECE_BYTES, max(0, offset))
                return data
        except OSError:
            raise gone from None

    def remove(self, entry: Entry) -> None:
        """Delete a file that another host has deleted."""
        with self._lock:
            known = self.of_checkpoint(checkpoint_of(entry.path) or "")
            others = goes_with(entry.path, known) if not self._is_gone(entry.path) else []
            self._unlink(entry.path)
            self._put(entry)
            for path in others:
                self._unlink(path)
                self._put(Entry(path, self._next(), deleted=True))

    def _is_gone(self, path: str) -> bool:
        known = self._entries.get(path)
        return known is None or known.deleted

    def _unlink(self, path: str) -> None:
        mark = self._marks.pop(path, None)
        with contextlib.suppress(OSError):
            target = self._inside(path)
            if _mark_of(os.lstat(target)) == mark:  # else it has just been written again
                target.unlink()

    def _inside(self, path: str) -> Path:
        """Find where a path is inside the folder. Raises TransferFailed: a link leads out of it."""
        whole = self.folder / path
        if whole.parent.resolve() != (self.folder.resolve() / path).parent:
            raise TransferFailed(f"{path} leads out of {self.folder} through a link")
        return whole

    def note(self, entry: Entry) -> bool:
        """Note that the file is here already, as another host has it under a higher number; False where it is not."""
        with self._lock:
            known = self._entries.get(entry.path)
            if known is None or known.deleted or (known.sha256, known.size) != (entry.sha256, entry.size):
                return False
            self._put(replace(entry, mtime_ns=known.mtime_ns))
            return True

    def store(self, entry: Entry, pieces: Callable[[int], bytes]) -> bool:
        """Take a file over, of which `pieces` gives what begins at an offset; False: it was written here meanwhile.

        Raises:
            TransferFailed: it is not what it was said to be; NoSpace.
        """
        temporary = self.folder / OWN / f"incoming-{secrets.token_hex(6)}"
        try:
            digest, size = hashlib.sha256(), 0
            with temporary.open("xb") as file:
                while size < entry.size:
                    data = pieces(size)
                    if not data or size + len(data) > entry.size:
                        raise TransferFailed(f"{entry.path} has another length than it was said to have")
                    file.write(data)
                    digest.update(data)
                    size += len(data)
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != entry.sha256:
                raise TransferFailed(f"{entry.path} was damaged on its way")
            os.utime(temporary, ns=(entry.mtime_ns, entry.mtime_ns))
            return self._take_place(temporary, entry)
        except OSError as error:
            if error.errno in OUT_OF_SPACE:
                raise no_space(self.folder) from error
            raise TransferFailed(f"cannot write {entry.path}: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)

    def _take_place(self, temporary: Path, entry: Entry) -> bool:
        target = self.folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = self._inside(entry.path)
        with self._lock:
            try:
                there: Mark | None = _mark_of(os.lstat(target))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
                there = None
            if there != self._marks.get(entry.path) or not is_newer(entry, self._entries.get(entry.path)):
                return False  # what was written here gets a higher number, and wins
            os.replace(temporary, target)
            handle = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            self._marks[entry.path] = _mark_of(os.lstat(target))
            self._put(entry)
        return True


def _mark_of(info: os.stat_result) -> Mark:
    return info.st_size, info.st_mtime_ns, info.st_ino
