"""What the controller needs from a kind of host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.procfs import ProcessId
from dtfctl.net.address import UNIX

Cause: TypeAlias = Literal[
    "auth",
    "host-key",
    "unreachable",
    "python",
    "disk",
    "install",
    "sync",
    "setup",
    "agent",
    "owner",
    "shared",
    "queued",
    "ended",
]
"""Why a host cannot be used. `queued`: nobody has lent it yet; `ended`: nobody lends it any more."""
LOGIN_CAUSES: frozenset[Cause] = frozenset({"auth", "host-key", "unreachable"})
"""We did not get in at all."""
LASTING_CAUSES: frozenset[Cause] = frozenset({"auth", "host-key", "python", "setup", "owner", "ended"})
"""Trying again by itself would help nobody, and may lock an account: the next `up` does."""
Stage: TypeAlias = Literal["connecting", "installing", "syncing", "setup", "starting", "layer", "note"]
OnStage: TypeAlias = Callable[[str, Stage, str], None]
"""Hears (host, stage, detail) when work on a host enters a stage; called from any thread. `layer` is news of packages
that come while tasks run already, `note` of what was passed over."""


GrantState: TypeAlias = Literal["queued", "granted", "ended"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What the hosts of a cluster are lent by, for as long as they are: an allocation of a batch system."""

    state: GrantState
    what: str
    """What one calls it: `Slurm job 17`."""
    why: str = ""
    """What a queued one waits for, how one has ended."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The machine behind each host that is lent."""
    ends: float | None = None
    """The time at which the hosts are taken back, in seconds since the epoch; None: not known, or never."""
    starts: float | None = None
    """The time at which a queued one is expected to begin."""
    is_ours: bool = False
    """Whether the cluster has asked for it: then it can be given back, for good or for a later one."""
    number: int = 0
    """Grows each time that it begins anew."""
    lives: Mapping[str, str] = field(default_factory=dict)
    """Where each host is lent by itself: tells one lending of it from the next."""


OnGrant: TypeAlias = Callable[[Grant], None]
"""Hears of a grant that has changed; called from any thread."""


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
    """Agents of hosts. Calls block, come from a thread of the host's own, and may be made again.

    Where the hosts are lent, by a batch system for a time, the provider also knows of that: it tells `on_grant`, and
    takes `begin_anew` and `give_back`.
    """

    on_stage: OnStage
    on_grant: OnGrant

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

    def begin_anew(self) -> None:
        """Give lent hosts back for others later: what is lent goes on as `queued`. Only one that `is_ours`.

        Raises:
            LauncherError: who lends them refuses.
        """

    def give_back(self) -> bool:
        """Give lent hosts back for good, with all that still runs there. Whether that ends whatever there is.

        Raises:
            LauncherError: who lends them cannot be asked.
        """

    def close(self) -> None:
        """Let go of connections."""


def _silent(_host: str, _stage: Stage, _detail: str) -> None:
    """Ignore what is told."""


silent: OnStage = _silent


def _unheard(_grant: Grant) -> None:
    """Ignore what is told."""


unheard: OnGrant = _unheard
