"""Hosts that Slurm lends: its nodes are found, watched and given back; agents are started as steps.

Slurm is looked at seldom: that a node is lost the agents' heartbeats say, half a minute before Slurm does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Grant
from dtfctl.launcher.providers.lent import Lent, LentProvider, Place
from dtfctl.launcher.providers.line import Line
from dtfctl.launcher.providers.remote import RemoteHost
from dtfctl.launcher.providers.slurm import allocation, commands
from dtfctl.launcher.providers.slurm.allocation import Allocation
from dtfctl.launcher.providers.slurm.commands import Job, Node
from dtfctl.launcher.providers.slurm.reasons import explained
from dtfctl.launcher.providers.slurm.step import StepLine
from dtfctl.launcher.spec.model import ClusterSpec


def _reason(job: Job) -> str:
    """Say what a job waits for."""
    return explained(job.reason, job.called) if job.reason != "None" else job.state.lower()


class SlurmProvider(LentProvider[Node]):
    """Agents on nodes of an allocation."""

    def __init__(self, paths: ClusterPaths) -> None:
        super().__init__(paths)
        self._all: tuple[str, Mapping[str, Node]] = ("", {})
        """The granting that was looked at last, and the node that each host has been in it."""
        self._nodes: dict[str, Node] = {}
        """The node of each job of an array, by its granting."""

    def begin_anew(self) -> None:
        known, spec = allocation.read(self._paths), self._spec
        if known is None or not known.job or not known.is_ours or spec is None:
            return
        jobs = [job for job in allocation.jobs_of(known) if job.runs]
        if known.is_array:
            jobs = [job for job in jobs if job.ends is not None and job.ends - time.time() <= spec.slurm.margin]
        for job in jobs:
            commands.requeue(job.called)
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
        if known.is_array:
            return self._look_at_array(spec, known)
        job = commands.show_job(known.job)
        self._is_ending = job is not None and job.state == commands.ENDING
        if self._is_ending and before is not None:
            return None
        number = 0 if job is None else job.restarts
        grant = Grant("queued", f"Slurm job {known.job}", is_ours=known.is_ours, number=number)
        if job is None or job.is_over:
            return Lent(replace(grant, state="ended", why=allocation.how_it_ended(job)))
        if not job.runs or not job.nodes:
            return Lent(replace(grant, why=_reason(job), starts=job.starts))
        places = self._places(job, spec)
        nodes = {host: place.node.name for host, place in places.items()}
        return Lent(replace(grant, state="granted", nodes=nodes, ends=job.ends), places)

    def _look_at_array(self, spec: ClusterSpec, known: Allocation) -> Lent[Node]:
        """Look at hosts that are jobs of their own, and ask again for those that were taken back for good."""
        jobs = allocation.jobs_of(known)
        self._is_ending = any(job.state == commands.ENDING for job in jobs)
        by_index: dict[int, Job] = {}
        for job in jobs:
            for index in job.indices if not job.is_over else ():
                if index not in by_index or job.runs:
                    by_index[index] = job
        grant = Grant("queued", f"Slurm job {known.job}", is_ours=True, number=sum(job.restarts for job in jobs))
        if not by_index:
            last = max(jobs, key=lambda job: job.ends or 0.0, default=None)
            return Lent(replace(grant, state="ended", why=allocation.how_it_ended(last)))
        wanted = range(spec.slurm.nodes or 1)
        if missing := [index for index in wanted if index not in by_index]:
            known = allocation.ask_again(self._paths, spec.slurm, known, missing)
            self._look_soon()
        places: dict[str, Place[Node]] = {}
        waits: dict[str, str] = {}
        for index in wanted:
            host, found = f"{spec.provider}-{index}", by_index.get(index)
            if found is not None and found.runs and found.nodes:
                life = f"{found.id}.{found.restarts}"
                places[host] = Place(self._node_of(found, life), life)
            else:
                why = "asked for again" if found is None else _reason(found)
                waits[host] = f"Slurm job {known.job}_{index} waits in the queue ({why})"
        lives = {host: place.life for host, place in places.items()}
        self._nodes = {life: self._nodes[life] for life in lives.values()}
        if not places:
            first = by_index[min(by_index)]
            return Lent(replace(grant, why=_reason(first), starts=first.starts), waits=waits)
        ends = [job.ends for job in by_index.values() if job.runs and job.ends is not None]
        nodes = {host: place.node.name for host, place in places.items()}
        grant = replace(grant, state="granted", nodes=nodes, ends=min(ends, default=None), lives=lives)
        return Lent(grant, places, waits)

    def _node_of(self, job: Job, life: str) -> Node:
        """Find the node of a job that has one."""
        if life not in self._nodes:
            described = commands.describe(job.nodes)
            self._nodes[life] = next(iter(described.values()), Node(job.nodes, job.nodes, False))
        return self._nodes[life]

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
