"""What the user's end asks of a host: the controller passes question and answer on, to and from the host's agent."""

from __future__ import annotations

from dtfctl.launcher.messages.orders import Packages
from dtfctl.values import field, value


@value
class ExamineRequest:
    """What would a job with these requirements need on this host?"""

    host: str
    python: str = ""
    """The interpreter; empty: the agent's own."""
    packages: Packages = field(default_factory=Packages)


@value
class Examination:
    """What such a job would find."""

    facts_json: str
    """The facts of the interpreter, as `host_side.py` tells them."""
    ready: bool = False
    """Nothing has to be installed."""
    installs: bool = False
    """uv or pip is there."""
    index: bool = False
    """A package index answers."""
    have: tuple[str, ...] = ()
    """The packages that are installed, as NAME==VERSION."""


@value
class Gpu:
    """One GPU of a host, and how busy it is."""

    index: int
    name: str
    busy_percent: float = 0.0
    memory_used_bytes: int = 0
    memory_bytes: int = 0


@value
class Rdma:
    """What a host has for remote memory access, and what UCX makes of it: see `dtfctl.net.ucx.Found`."""

    devices: tuple[str, ...] = ()
    ucx: str = ""
    ways: tuple[str, ...] = ()
    problem: str = ""


@value
class InspectRequest:
    """What `doctor` wants to know of a host."""

    host: str
    now: float = 0.0
    """The asker's wall clock."""


@value
class Inspection:
    """How a host is."""

    version: str = ""
    """The version of dtfctl."""
    python: str = ""
    time: float = 0.0
    """The host's wall clock."""
    open_files: int = 0
    """The limit of a process; -1: none."""
    processes: int = 0
    disk_free_bytes: int = 0
    disk_total_bytes: int = 0
    inodes_free: int = 0
    certificate_until: float = 0.0
    loose_files: tuple[str, ...] = ()
    """Private files that others can read."""
    memory_bytes: int = 0
    system: str = ""
    gpus: tuple[Gpu, ...] = ()
    rdma: Rdma = field(default_factory=Rdma)


@value
class MeasureRequest:
    """Measure what comes from another host; its agent's address is the controller's to fill in."""

    host: str
    source: str
    address: str = ""
    cluster: str = ""


@value
class Measured:
    """What was found."""

    round_trip_s: float
    bytes_s: float
