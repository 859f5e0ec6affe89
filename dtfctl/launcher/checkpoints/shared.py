"""Prove that a folder is one and the same on several hosts: one leaves a token in it, the others find that there."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from dtfctl.launcher.messages.agent import SharedStep

PREFIX = ".dtfctl-shared-"
FIND_S = 10.0
"""A host may see late what another one wrote: network file systems remember what was not there."""
LOOK_S = 0.1
OLD_S = 3600.0
"""A token that old was left by a controller that died."""


def prove(folder: str, token: str, host: str, step: SharedStep, find_s: float = FIND_S) -> str:
    """Return what speaks against it here; empty when nothing does. A host that finds the token must be able to
    write."""
    if not re.fullmatch(r"[0-9a-f]{16,64}", token):
        return "that is no token"
    root = Path(folder).expanduser()
    path = root / f"{PREFIX}{token}"
    try:
        if step == "leave":
            root.mkdir(parents=True, exist_ok=True)
            _tidy(root)
            _create(path)
        elif step == "take":
            path.unlink(missing_ok=True)
        else:
            if not _appears(path, find_s):
                return "not shared"
            mine = root / f"{PREFIX}{token}-{os.getpid()}-{re.sub(r'[^A-Za-z0-9.-]', '_', host)}"
            _create(mine)
            mine.unlink()
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    return ""


def _create(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _appears(path: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not os.path.lexists(path):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _tidy(root: Path) -> None:
    for path in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > OLD_S:
                path.unlink()
