"""Hosts that Slurm lends: its nodes are found, watched and given back; agents are started as steps.

The hosts have names of their own, `slurm-0` and so on, so that a cluster whose allocation begins anew goes on under
the same names on other nodes. One thread looks at the allocation, seldom: whether a node is there the agents'
heartbeats say, half a minute before Slurm does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint, Grant, HostFailed
from dtfctl.launcher.providers.line import Line
from dtfctl.launcher.providers.remote import KNOCK_S, RemoteHost, RemoteProvider
from dtfctl.launcher.providers.slurm import allocation, commands
from dtfctl.launcher.providers.slurm.commands import Job, Node, SlurmSilent
from dtfctl.launcher.providers.slurm.step import StepLine
from dtfctl.launcher.spec.model import LENT_GROUP, ClusterSpec
from dtfctl.net.address import answers

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""How often a running allocation is looked at; sooner when an agent is lost."""
ENDING_LOOK_S = 0.5
QUEUE_LOOK_S = 2.0
LONG_QUEUE_S = 10.0
"""How often one that has waited for a minute is."""
SHORT_QUEUE_S = 60.0
FIRST_LOOK_S = 60.0
GONE = "ask for another: dtfctl up FILE; or end the cluster: dtfctl down"


@dataclass(frozen=True, slots=True)
class _Lent:
    """The nodes of one granting."""

    job: str
    restarts: int
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """The node of each host."""

    @property
    def id(self) -> str:
        """Tells one granting from the next."""
        return f"{self.job}.{self.restarts}"


class SlurmProvider(RemoteProvider):
    """Agents on nodes of an allocation."""

    def __init__(self, paths: ClusterPaths) -> None:
        super().__init__(paths)
        self._condition = threading.Condition()
        self._grant: Grant | None = None
        self._lent: _Lent | None = None
        self._gone: set[str] = set()
        """Hosts whose nodes Slurm has taken out of the allocation."""
        self._wanted = 0
        """Looks that were asked for."""
        self._looked = 0
        """Those of them that have been made."""
        self._problem = ""
        self._is_closed = False
        self._is_ending = False
        self._queued_since = 0.0
        self._watcher: threading.Thread | None = None

    # ------------------------------------------------------------------ calls from the links' threads

    def configure(self, spec: ClusterSpec) -> None:
        super().configure(spec)
        if self._watcher is None:
            self._watcher = guard.forever(self._watch, name="slurm")
            self._watcher.start()
        self._look_soon()

    def find_agent(self, host: str) -> AgentEndpoint | None:
        self._granted(host)
        return super().find_agent(host)

    def start_agent(self, host: str) -> AgentEndpoint:
        self._granted(host)
        return super().start_agent(host)

    def may_run(self, host: str) -> bool:
        """Tell whether an agent was ever started there, on a node that is still lent: Slurm ends all with its job."""
        with self._condition:
            is_lent = self._lent is not None and host in self._lent.nodes and host not in self._gone
        return is_lent and super().may_run(host)

    def _reachable(self, endpoint: AgentEndpoint) -> AgentEndpoint:
        if answers(endpoint.address, KNOCK_S):
            return endpoint
        raise HostFailed(
            "unreachable",
            f"its agent at {endpoint.address} cannot be called from this machine",
            "run `dtfctl up` on a machine from which the nodes' ports can be reached, or inside an allocation",
        )

    def begin_anew(self) -> None:
        known = allocation.read(self._paths)
        if known is not None and known.job and known.is_ours:
            commands.requeue(known.job)
            self._look_soon()

    def give_back(self) -> bool:
        return allocation.release(self._paths)

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        super().close()

    # ------------------------------------------------------------------ where agents were last

    def _remember(self, host: str, info: dict[str, Any]) -> AgentEndpoint:
        with self._condition:
            lent = self._lent.id if self._lent is not None else ""
        return super()._remember(host, {**info, "lent": lent})

    def _remembered(self, host: str) -> AgentEndpoint | None:
        """Find where its agent was last; None where that was on another node, or before all of it ended."""
        with self._condition:
            lent = self._lent.id if self._lent is not None else ""
        return super()._remembered(host) if self._read_memory(host).get("lent") == lent else None

    def _has_later(self, name: str) -> Path:
        """Note what a node has by the node: nodes keep it, hosts change theirs."""
        with self._condition:
            node = self._lent.nodes.get(name) if self._lent is not None else None
        return self._paths.host(name) / f"layers-{node.name if node is not None else ''}"

    # ------------------------------------------------------------------ what is lent

    def _granted(self, host: str) -> tuple[str, Node]:
        """Find the job and the node that a host is.

        Raises:
            HostFailed: it is none now; `queued`, where it may be one later, `ended`, where it will not.
        """
        with self._condition:
            if self._grant is None or self._grant.state != "queued":
                # Looked at anew: who asks has just lost an agent, or was told that there may be another allocation.
                self._wanted = ticket = self._wanted + 1
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._looked >= ticket or self._is_closed, FIRST_LOOK_S)
            grant, lent = self._grant, self._lent
            is_gone = host in self._gone
            problem = self._problem
        if grant is None:
            raise HostFailed("queued", problem or "Slurm has not said yet what it lends")
        if grant.state == "queued":
            raise HostFailed("queued", queue_text(grant))
        if grant.state == "ended":
            raise HostFailed("ended", f"{grant.what} {grant.why}", GONE)
        assert lent is not None
        node = lent.nodes.get(host)
        if node is None or is_gone:
            raise HostFailed("ended", f"{grant.what} has no node for it any more", "its tasks run elsewhere meanwhile")
        return lent.job, node

    async def _open(self, host: RemoteHost) -> tuple[Line, Sequence[str]]:
        job, node = await self._in_thread(lambda: self._node_of(host.name))
        self.on_stage(host.name, "connecting", node.name)
        return StepLine(job, node), ()

    def _node_of(self, host: str) -> tuple[str, Node]:
        """Find the job and the node that a host is, as known."""
        with self._condition:
            if self._lent is not None and host in self._lent.nodes:
                return self._lent.job, self._lent.nodes[host]
        return self._granted(host)

    def _look_soon(self) -> None:
        with self._condition:
            self._wanted += 1
            self._condition.notify_all()

    def _watch(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._wanted > self._looked or self._is_closed, self._pause_s())
                if self._is_closed:
                    return
                ticket = self._wanted
            problem = ""
            try:
                self._look_at_job()
            except SlurmSilent as error:
                problem = error.message
                log.warning("%s; what it lends is taken to be as it was", error.message)
            except LauncherError as error:
                problem = error.message
                log.warning("%s", error.message)
            with self._condition:
                self._looked, self._problem = ticket, problem
                self._condition.notify_all()

    def _pause_s(self) -> float:
        if self._is_ending:
            return ENDING_LOOK_S
        if self._grant is None or self._grant.state != "queued":
            return LOOK_S
        return QUEUE_LOOK_S if time.monotonic() - self._queued_since < SHORT_QUEUE_S else LONG_QUEUE_S

    def _look_at_job(self) -> None:
        """Look at the allocation, and tell what has changed."""
        known = allocation.read(self._paths)
        if known is None or not known.job:
            return
        job = commands.show_job(known.job)
        self._is_ending = job is not None and job.state == commands.ENDING
        if self._is_ending and self._grant is not None:
            return
        what, number = f"Slurm job {known.job}", 0 if job is None else job.restarts
        grant = Grant("queued", what, is_ours=known.is_ours, number=number)
        lent, gone = self._lent, self._gone
        if job is None or job.is_over:
            grant = replace(grant, state="ended", why=allocation.how_it_ended(job))
        elif not job.runs or not job.nodes:
            why = job.reason if job.reason != "None" else job.state.lower()
            grant = replace(grant, why=why, starts=job.starts)
        else:
            lent, gone = self._nodes(job)
            nodes = {host: node.name for host, node in lent.nodes.items() if host not in gone}
            grant = replace(grant, state="granted", nodes=nodes, ends=job.ends)
        with self._condition:
            before, self._grant, self._lent, self._gone = self._grant, grant, lent, gone
            if grant.state == "queued" and (before is None or before.state != "queued"):
                self._queued_since = time.monotonic()
        if grant != before:
            self.on_grant(grant)

    def _nodes(self, job: Job) -> tuple[_Lent, set[str]]:
        """Find which host is which node, as long as the granting lasts; and which of them have been taken out."""
        names = commands.names_of(job.nodes)
        lent = self._lent
        if lent is None or (lent.job, lent.restarts) != (job.id, job.restarts):
            described = commands.describe(job.nodes)
            nodes = {
                f"{LENT_GROUP}-{number}": described[name] for number, name in enumerate(names) if name in described
            }
            lent = _Lent(job.id, job.restarts, nodes)
        return lent, {host for host, node in lent.nodes.items() if node.name not in names}


def queue_text(grant: Grant) -> str:
    """Say what a queued one waits for."""
    when = ""
    if grant.starts is not None and grant.starts > time.time():
        when = f", expected at {time.strftime('%H:%M:%S', time.localtime(grant.starts))}"
    return f"{grant.what} waits in the queue ({grant.why}{when})"
