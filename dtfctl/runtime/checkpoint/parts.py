"""Folders of sharded saves: `PREFIX_temp_ID`, where each task leaves its part until one of them merges all.

A save that was killed, or failed, leaves such a folder with up to a whole copy of the variables in it. A task that
writes a part keeps a lock on a file in the folder (`MARK`): until the parts were merged, its saver saves again, its
session has ended, or its process has, however that did. The next save beside a folder with that file removes it if
nobody has the lock. A part that is whole waits for those of other tasks, so the lock stays when it has been written,
and when its task's share of the step is done. Folders of other programs have no such file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import threading
from pathlib import Path

MARK = ".dtfctl-parts"
_NAME = re.compile(r"_temp_([0-9a-f]{32})\Z")
_lock = threading.RLock()  # sessions end, and let go, also while memory is collected in here
_held: dict[Path, int] = {}
"""Descriptors that have the locks, by folder."""


def are_in(folder: Path) -> bool:
    """Tell whether a folder's name is that of one for parts."""
    return _NAME.search(folder.name) is not None


def hold(folder: Path) -> None:
    """Say that parts are being written into a folder, which is made.

    The former one of the same saver is let go of: that saver is done with it.

    Raises:
        OSError: the file system refuses.
    """
    with _lock:
        if folder in _held and (folder / MARK).exists():
            return
        for known in list(_held):
            if known.name[-32:] == folder.name[-32:] or not known.exists():
                _close(known)
        fd = _locked(folder)
        if fd is not None:
            _held[folder] = fd


def _locked(folder: Path) -> int | None:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # somebody takes it away, as nobody had it
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError:  # a file system without locks: nobody will take it for one that was left
            os.close(fd)
            return None
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def let_go(folder: Path) -> None:
    """Have this process hold a folder no more; one that is empty, or of whose parts nobody wants any, is removed."""
    with _lock:
        _close(folder)
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [MARK]:
            (folder / MARK).unlink()
        folder.rmdir()


def _close(folder: Path) -> None:
    fd = _held.pop(folder, None)
    if fd is not None:
        os.close(fd)


def remove_left(beside: Path) -> None:
    """Remove the folders beside a checkpoint that nobody holds."""
    try:
        found = [Path(entry.path) for entry in os.scandir(beside) if _NAME.search(entry.name) and entry.is_dir()]
    except OSError:
        return  # whoever writes there will see why
    for folder in found:
        with _lock:
            if folder in _held:
                continue
        try:
            fd = os.open(folder / MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # not ours, or gone already
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file with the lock goes last, so that what is left of a removal that was killed is found again.
            for entry in os.scandir(folder):
                if entry.name != MARK:
                    shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
            os.unlink(folder / MARK)
            folder.rmdir()
        except OSError:
            continue  # somebody writes there, or locks cannot tell here
        finally:
            os.close(fd)
