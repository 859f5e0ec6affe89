"""What the controller needs from a kind of host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dtfctl.launcher.procfs import ProcessId


@dataclass(frozen=True, slots=True)
class AgentEndpoint:
    """A running agent."""

    host: str
    address: str
    """`host:port` for the controller."""
    process: ProcessId


class Provider(Protocol):
    """Agents of hosts of one kind. Calls block, come from a thread of the host's own, and may be made again."""

    def find_agent(self, host: str) -> AgentEndpoint | None:
        """The agent that runs there now, if any."""

    def start_agent(self, host: str) -> AgentEndpoint:
        """Start it and wait until it can be called.

        Raises:
            LauncherError: it cannot be started; the message says why.
        """

    def has_ended(self, host: str) -> bool:
        """Whether no agent runs there, none is on its way, and none is still putting its things away."""

    def kill_agent(self, host: str) -> None:
        """End an agent that hangs, at once; its tasks go on."""

    def clean(self, host: str) -> None:
        """Delete the agent's files after it has ended."""

    @property
    def tls_folder(self) -> str:
        """Where the tasks' certificates are on a host."""
