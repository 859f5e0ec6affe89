"""Hosts that Slurm lends: its nodes are found, watched and given back; agents are started as steps.

Slurm is looked at seldom: that a node is lost the agents' heartbeats say, half a minute before Slurm does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Grant
from dtfctl.launcher.providers.lent import Lent, LentProvider, Place
from dtfctl.launcher.providers.line import Line
from dtfctl.launcher.providers.remote import RemoteHost
from dtfctl.launcher.providers.slurm import allocation, commands
from dtfctl.launcher.providers.slurm.commands import Job, Node
from dtfctl.launcher.providers.slurm.step import StepLine
from dtfctl.launcher.spec.model import ClusterSpec


class SlurmProvider(LentProvider[Node]):
    """Agents on nodes of an allocation."""

    def __init__(self, paths: ClusterPaths) -> None:
        super().__init__(paths)
        self._all: tuple[str, Mapping[str, Node]] = ("", {})
        """The granting that was looked at last, and the node that each host has been in it."""

    def begin_anew(self) -> None:
        known = allocation.read(self._paths)
        if known is not None and known.job and known.is_ours:
            commands.requeue(known.job)
            self._look_soon()

    def give_back(self) -> bool:
        return allocation.release(self._paths)

    def _has_later(self, name: str) -> Path:
        """Note what a node has by the node: nodes keep it, hosts change theirs."""
        place = self._place(name)
        return self._paths.host(name) / f"layers-{place.node.name if place is not None else ''}"

    async def _open(self, host: RemoteHost) -> tuple[Line, Sequence[str]]:
        place = await self._in_thread(lambda: self._place_of(host.name))
        self.on_stage(host.name, "connecting", place.node.name)
        return StepLine(place.life.partition(".")[0], place.node), ()

    def _look_at_lender(self, spec: ClusterSpec, before: Lent[Node] | None) -> Lent[Node] | None:
        known = allocation.read(self._paths)
        if known is None or not known.job:
            return None
        job = commands.show_job(known.job)
        self._is_ending = job is not None and job.state == commands.ENDING
        if self._is_ending and before is not None:
            return None
        number = 0 if job is None else job.restarts
        grant = Grant("queued", f"Slurm job {known.job}", is_ours=known.is_ours, number=number)
        if job is None or job.is_over:
            return Lent(replace(grant, state="ended", why=allocation.how_it_ended(job)))
        if not job.runs or not job.nodes:
            why = job.reason if job.reason != "None" else job.state.lower()
            return Lent(replace(grant, why=why, starts=job.starts))
        places = self._places(job, spec)
        nodes = {host: place.node.name for host, place in places.items()}
        return Lent(replace(grant, state="granted", nodes=nodes, ends=job.ends), places)

    def _places(self, job: Job, spec: ClusterSpec) -> dict[str, Place[Node]]:
        """Find which host is which node, the same as long as the granting lasts, without those taken out of it."""
        names = commands.names_of(job.nodes)
        life = f"{job.id}.{job.restarts}"
        if self._all[0] != life:
            described = commands.describe(job.nodes)
            there = {
                f"{spec.provider}-{number}": described[name] for number, name in enumerate(names) if name in described
            }
            self._all = (life, there)
        return {host: Place(node, life) for host, node in self._all[1].items() if node.name in names}
