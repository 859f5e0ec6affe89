"""What the controller needs from a kind of host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.procfs import ProcessId
from dtfctl.net.address import UNIX

Cause: TypeAlias = Literal[
    "auth", "host-key", "unreachable", "python", "disk", "install", "sync", "setup", "agent", "owner", "shared"
]
LOGIN_CAUSES: frozenset[Cause] = frozenset({"auth", "host-key", "unreachable"})
"""We did not get in at all."""
LASTING_CAUSES: frozenset[Cause] = frozenset({"auth", "host-key", "python", "setup", "owner"})
"""Trying again by itself would help nobody, and may lock an account: the next `up` does."""
Stage: TypeAlias = Literal["connecting", "installing", "syncing", "setup", "starting", "layer", "note"]
OnStage: TypeAlias = Callable[[str, Stage, str], None]
"""Hears (host, stage, detail) when work on a host enters a stage; called from any thread. `layer` is news of packages
that come while tasks run already, `note` of what was passed over."""


@dataclass(frozen=True, slots=True)
class AgentEndpoint:
    """A running agent."""

    host: str
    address: str
    """`host:port` for the controller."""
    process: ProcessId
    through: str = ""
    """The way that calls take when the agent's port cannot be reached: `SSH`, `SSH over bastion`; empty: directly."""
    socket: str = ""
    """The unix socket at which it is called: its own on this machine, or what SSH forwards; empty: at its address."""

    @property
    def called_at(self) -> str:
        """The address for a `Channel`."""
        return f"{UNIX}{self.socket}" if self.socket else self.address


class HostFailed(LauncherError):
    """A host cannot be used. The message has no host name in it, so that hosts with the same trouble can be grouped.

    Attributes:
        cause: which kind of trouble.
        where: the place that shows it, such as `known_hosts:81`; empty where there is none.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, cause: Cause, message: str, hint: str = "", where: str = "") -> None:
        super().__init__(message, hint)
        self.cause = cause
        self.where = where


class Provider(Protocol):
    """Agents of hosts. Calls block, come from a thread of the host's own, and may be made again."""

    on_stage: OnStage

    def configure(self, spec: ClusterSpec) -> None:
        """Take over the spec: at the start, and whenever it changes."""

    def find_agent(self, host: str) -> AgentEndpoint | None:
        """Find the agent that runs there now, if any.

        Raises:
            HostFailed: nobody knows, because the host cannot be asked.
        """

    def start_agent(self, host: str) -> AgentEndpoint:
        """Bring the host up to what the spec says, start its agent and wait until it can be called.

        Raises:
            LauncherError: it cannot be started; the message says why.
        """

    def refresh(self, host: str) -> None:
        """Make the files and the set-up of a host whose agent runs what the spec says now.

        Raises:
            LauncherError: they could not be.
        """

    def may_run(self, host: str) -> bool:
        """Tell whether an agent was ever started there, so that something may be left of it."""

    def wait_ended(self, host: str, timeout_s: float) -> bool:
        """Wait until no agent runs, starts or puts its things away there; return False after `timeout_s`."""

    def kill_agent(self, host: str, *, if_it_hangs: bool = False) -> bool:
        """End an agent at once; its tasks go on. Whether it has ended.

        `if_it_hangs`: only where its process shows that its loop does not turn (`pulse.py`).
        """

    def clean(self, host: str) -> None:
        """Delete the agent's files after it has ended; logs and checkpoints stay."""

    def close(self) -> None:
        """Let go of connections."""


def _silent(_host: str, _stage: Stage, _detail: str) -> None:
    """Ignore what is told."""


silent: OnStage = _silent
