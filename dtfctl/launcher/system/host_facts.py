"""What the host has and how busy it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from dtfctl.cores import available
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.system.files import free_bytes, write_whole
from dtfctl.launcher.system.procfs import memory_bytes
from dtfctl.values import value

PROBE_BYTES = 65536
PROBE_S = 20.0


@value
class HostFacts:
    cores: int
    load: float
    memory_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    gpus: int


def usable_cores() -> int:
    """Count the cores this process may keep busy: those it may run on, as far as its control groups let it."""
    return available()


def gpu_count() -> int:
    """Count the NVIDIA GPUs of the host that this process may use."""
    return len(_gpu_names())


def gpu_list(numbers: Iterable[int]) -> str:
    """Write CUDA_VISIBLE_DEVICES for some of the GPUs that this process may use, counted from 0."""
    names = _gpu_names()
    return ",".join(names[number] if number < len(names) else str(number) for number in numbers)


def _gpu_names() -> list[str]:
    """List GPUs as CUDA_VISIBLE_DEVICES calls them: those the driver has in /proc, or what it names of them if set."""
    folder = Path("/proc/driver/nvidia/gpus")
    there = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is None or not there:
        return [str(number) for number in range(there)]
    found = []
    for name in (part.strip() for part in said.split(",")):
        if not name or (name.lstrip("-").isdigit() and not 0 <= int(name) < there):
            break  # as CUDA does: what comes behind it is not looked at
        found.append(name)
    return found[:there]


def probe(state_folder: Path) -> str:
    """Find what keeps this host from running a task: one is tried, a file and a process. Empty when nothing does."""
    path = state_folder / "probe"
    try:
        write_whole(path, b"x" * PROBE_BYTES)
        path.unlink()
        ended = subprocess.run(
            [sys.executable, "-P", "-c", "import socket"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, LauncherError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return "" if ended.returncode == 0 else f"Python ends with {ended.returncode}: {ended.stderr.decode()[-200:]}"


def read_facts(state_folder: Path) -> HostFacts:
    total, free = memory_bytes()
    return HostFacts(
        cores=usable_cores(),
        load=os.getloadavg()[0],
        memory_bytes=total,
        memory_free_bytes=free,
        disk_free_bytes=free_bytes(state_folder),
        gpus=gpu_count(),
    )
