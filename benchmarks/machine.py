"""What was measured on: versions, cores, load."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "grpcio", "numba", "scipy", "protobuf")


@dataclass
class Machine:
    """The conditions of a run."""

    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float] = (0.0, 0.0, 0.0)
    packages: dict[str, str] = field(default_factory=dict)
    sides: dict[str, dict[str, Any]] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)


def describe() -> Machine:
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        kernel=platform.release(),
        load_before=os.getloadavg(),
        packages={name: version for name in PACKAGES if (version := _version(name))},
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
