"""Start a process under a keeper, find it again, learn how it ended."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.start import keeper
from dtfctl.launcher.messages.orders import LogRules
from dtfctl.launcher.system.files import explained, private_folder, write_whole
from dtfctl.launcher.system.procfs import ProcessId, is_alive
from dtfctl.net.descriptors import VARIABLE, usual_limit
from dtfctl.values import value

KEEPER = Path(keeper.__file__)
CLAIM_WAIT_S = 2.0
"""A keeper that has claimed its start needs milliseconds to fork; this is for a starved host."""


@value
class KeeperStatus:
    """The content of a status file; see keeper.py."""

    phase: Literal["claimed", "running", "ended"]
    keeper: ProcessId
    task: ProcessId | None = None
    exit_code: int | None = None
    signal: int = 0
    max_rss_bytes: int = 0
    over_bytes: int = 0
    """The bytes that the process used when its keeper killed it for its limit; 0: it did not."""


def prepare_start(
    folder: Path, command: Sequence[str], *, log: Path, rules: LogRules, held: Sequence[str] = ("", "0", "")
) -> tuple[str, ...]:
    """Make what a start of `command` needs; the arguments of its keeper. `folder` is new and belongs to this start.

    `held`: GROUPS, MEMORY_BYTES and CORES of `keeper.py`.
    """
    private_folder(folder)
    private_folder(log.parent)
    make_room(folder)
    limits = str(rules.rotate_bytes), str(rules.keep), str(rules.bytes_per_s)
    return str(folder), str(log), *limits, *held, *command


def start_keeper(arguments: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    """Start a keeper as a program, and its command under it."""
    with explained(Path(arguments[0])):
        return subprocess.Popen(
            [*keeper_command(), *arguments],
            stdin=subprocess.DEVNULL,
            env={**env, VARIABLE: str(usual_limit())},
            cwd=cwd,
            start_new_session=True,
        )


def keeper_command() -> tuple[str, ...]:
    """Find what runs a keeper: as compiled when this process imported it, as compiling takes as long as its start."""
    compiled = Path((keeper.__spec__ and keeper.__spec__.cached) or "")
    program = compiled if _is_current(compiled) else KEEPER
    return sys.executable, "-S", "-E", str(program)


def _is_current(compiled: Path) -> bool:
    """Tell whether Python keeps compiled code there, and it is that of the source as it is now."""
    try:
        head, source = compiled.read_bytes()[:16], KEEPER.stat()
    except OSError:
        return False
    flags, changed, size = struct.unpack("<3I", head[4:])
    return (flags, changed, size) == (0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)


def make_room(folder: Path) -> None:
    """Make room on the disk for what the keeper will write, before it starts."""
    write_whole(folder / "room", b" " * keeper.STATUS_BYTES)


def read_status(folder: Path) -> KeeperStatus | None:
    """Read what the keeper wrote, or None before it did (or when the file is damaged)."""
    try:
        text = (folder / "status").read_text()
    except FileNotFoundError:
        return None
    body, _, crc = text.strip().rpartition(" ")
    if not body or f"{zlib.crc32(body.encode()):08x}" != crc:
        return None
    phase, keeper_pid, keeper_ticks, task_pid, task_ticks, code, number, rss, *rest = body.split()
    if phase not in ("claimed", "running", "ended"):
        return None
    keeper = ProcessId(int(keeper_pid), int(keeper_ticks))
    task = None if task_pid == "-" else ProcessId(int(task_pid), int(task_ticks))
    if phase != "ended":
        return KeeperStatus("claimed" if phase == "claimed" else "running", keeper, task)
    over = int(rest[0]) * 1024 if len(rest) == 2 else 0  # a keeper of an older version does not say
    return KeeperStatus("ended", keeper, task, int(code), int(number), int(rss) * 1024, over)


def wait_started(folder: Path, timeout_s: float = CLAIM_WAIT_S) -> KeeperStatus | None:
    """Wait for the status once the task runs (or has ended); None when the start did not happen, and never will."""
    deadline = time.monotonic() + timeout_s
    while True:
        status = read_status(folder)
        if status is not None and status.phase != "claimed":
            return status
        if status is not None and not is_alive(status.keeper):
            return None
        if time.monotonic() >= deadline:
            return None if _forbid(folder) else read_status(folder)
        time.sleep(0.002)


def forbid_start(folder: Path) -> KeeperStatus | None:
    """Find a start that a former agent may have begun: its status, or None and a late keeper gives up."""
    if _forbid(folder):
        return None
    return wait_started(folder)


def _forbid(folder: Path) -> bool:
    private_folder(folder)
    try:
        os.close(os.open(folder / "status", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def ending_of(status: KeeperStatus | None) -> Ending:
    """Tell how the process ended, as far as its keeper could tell."""
    if status is None or status.phase != "ended":
        return Ending(exit_code=None)
    return Ending(exit_code=status.exit_code, signal=status.signal or None)
