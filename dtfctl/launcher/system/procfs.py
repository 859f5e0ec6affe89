"""What Linux's /proc says about processes.

A pid alone names nothing: it may be another process by now. A `ProcessId` is the pid and the process's start time in
clock ticks since boot; the two never repeat until a reboot. A zombie counts as dead.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from dtfctl.values import value

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@value
class ProcessId:
    pid: int
    start_ticks: int


@value
class ProcessStat:
    """One reading of /proc/PID/stat."""

    id: ProcessId
    state: str
    """R running, S sleeping, D waiting for a disk, T stopped, Z zombie ..."""
    cpu_s: float
    rss_bytes: int

    @property
    def is_dead(self) -> bool:
        return self.state in "ZX"


def read_stat(pid: int) -> ProcessStat | None:
    """Read a process's numbers; None when there is no such process."""
    # An agent reads this of every process twice a second: plain calls take a third of pathlib's time.
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(fd, 4096).decode(errors="replace")
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    # The command is in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(
        id=ProcessId(pid, int(fields[19])),
        state=fields[0],
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        rss_bytes=int(fields[21]) * PAGE_BYTES,
    )


def identify(pid: int) -> ProcessId | None:
    """Read the full identity of a live process; None when there is none."""
    stat = read_stat(pid)
    return None if stat is None or stat.is_dead else stat.id


def is_alive(process: ProcessId) -> bool:
    return identify(process.pid) == process


def send_signal(process: ProcessId, number: int, *, group: bool = False) -> bool:
    """Send a signal to exactly this process, or to the process group it leads; False when it is gone."""
    if not is_alive(process):
        return False
    try:
        if group:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_group(process: ProcessId) -> bool:
    return send_signal(process, signal.SIGKILL, group=True)


def dump_stacks(process: ProcessId) -> bool:
    """Ask a process to write its threads' stacks to stderr (SIGUSR1, faulthandler), if it is ready for that.

    To one that is not, the signal would be deadly.
    """
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1) and send_signal(process, signal.SIGUSR1)


def command_line(pid: int) -> str:
    """Read the command of a process, for people; empty when unknown."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def port_holder(port: int) -> tuple[int, str] | None:
    """Find the pid and command of the process that listens on a TCP port, where we are allowed to see it."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            for fd in os.scandir(f"/proc/{entry.name}/fd"):
                if str(Path(fd.path).readlink()) in wanted:
                    return int(entry.name), command_line(int(entry.name))
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # no IPv6 here
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                yield fields[9]


def boot_id() -> str:
    """Read the id of this boot: pids, start ticks and monotonic times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def memory_bytes() -> tuple[int, int]:
    """Read the (total, available) memory of the host, in bytes."""
    values = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key in ("MemTotal", "MemAvailable"):
            values[key] = int(rest.split()[0]) * 1024
    return values["MemTotal"], values["MemAvailable"]


def runs_from(folder: Path) -> bool:
    """Tell whether a process of this host is a program of this folder, such as a virtual environment's Python."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().startswith(os.fsencode(folder) + b"/"):
                    return True
    return False
