"""A framework as a value, and the group of processes that one start of a job makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dtfctl.launcher.messages.orders import GpuView
from dtfctl.launcher.model import Framework as Name, Success

CLIENT_JOBS = ("chief", "worker", "evaluator")
"""The tasks a job takes for itself, in the order of its processes."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a started job. Ranks are positions in the group."""

    name: str
    """`worker/1`, numbered within the job."""
    host: str
    addresses: tuple[str, ...] = ()
    """`host:port` of the ports it was given, none where its framework asks for none."""

    @property
    def role(self) -> str:
        return self.name.partition("/")[0]

    @property
    def index(self) -> int:
        return int(self.name.partition("/")[2])


@dataclass(frozen=True, slots=True)
class Group:
    """All processes of one start (`generation`, from 1) of a job, the chief first."""

    job_id: str
    generation: int
    members: tuple[Member, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the submission: `tf_config`."""
    retries: int = 0

    def member(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order in which ranks come to them."""
        return tuple(dict.fromkeys(member.host for member in self.members))

    def on_host(self, host: str) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.host == host)


Variables: TypeAlias = Callable[[Group, Member], dict[str, str]]
"""The environment of one process, over what every process of a job gets."""
PortsOf: TypeAlias = Callable[[str, bool], int]
"""How many ports a process (`worker/1`, whether it is the chief) needs."""


def _no_variables(_group: Group, _me: Member) -> dict[str, str]:
    return {}


def _no_ports(_name: str, _chief: bool) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Framework:
    """What differs between frameworks."""

    name: Name
    needs_tasks: bool = False
    """Whether the job's processes start only while the cluster's tasks run."""
    sees_tasks: bool = False
    """Whether the job is told where the cluster's tasks are."""
    brings_ps: bool = False
    """The job runs a process beside each ps too."""
    has_ports: bool = False
    """Whether processes listen where the others are told; nothing of a start may be left then when the next begins."""
    ports: PortsOf = _no_ports
    restarts: Literal["each", "all"] = "each"
    """What follows the death of a process: it alone starts again, or all do."""
    gpus: GpuView = "none"
    interpreter: bool = True
    """The script is Python."""
    success: Success = "all"
    """The processes whose exit code 0 makes a job a success, unless it says otherwise."""
    variables: Variables = _no_variables
