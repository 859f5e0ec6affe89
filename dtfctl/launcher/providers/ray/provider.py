"""Hosts that Ray lends: the bundles of a placement group, with an actor on each that runs commands there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Grant, HostFailed
from dtfctl.launcher.providers.lent import Lent, LentProvider, Place
from dtfctl.launcher.providers.line import Line, Process
from dtfctl.launcher.providers.ray import allocation
from dtfctl.launcher.providers.ray.client import Bridge, Command, RaySilent
from dtfctl.launcher.providers.remote import RemoteHost
from dtfctl.launcher.spec.model import ClusterSpec

GRANTED = frozenset({"CREATED", "RESCHEDULING"})
"""States of a placement group whose nodes are lent: while one is sought for a lost node the others stay."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of Ray's."""

    id: str
    address: str

    @property
    def name(self) -> str:
        return f"{self.address}/{self.id[:6]}"


class RayLine:
    """Commands on a host, by its actor."""

    def __init__(self, bridge: Bridge, group: str, index: int, place: Place[Node], has_gpus: bool) -> None:
        self._bridge = bridge
        self._to = {"name": group, "index": index, "life": place.life, "has_gpus": has_gpus}
        self._node = place.node
        self._open: list[Command] = []
        self._is_closed = False

    @property
    def is_used(self) -> bool:
        return False

    async def run(self, command: str) -> Process:
        begun = await self._bridge.run(**self._to, command=command)
        self._open.append(begun)
        return begun

    def is_closed(self) -> bool:
        return self._is_closed or self._bridge.is_closed

    def watch(self, on: bool) -> None:
        """Look at nothing: heartbeats say whether a node is there."""

    def why(self, said: str) -> HostFailed | None:
        return None

    def close(self) -> None:
        self._is_closed = True
        for command in self._open:
            command.close()

    def give_up(self) -> None:
        self.close()

    def abort(self) -> None:
        self.close()


class RayProvider(LentProvider[Node]):
    """Agents on nodes of a Ray cluster."""

    def __init__(self, paths: ClusterPaths) -> None:
        self._bridge: Bridge | None = None
        self._bridging = asyncio.Lock()
        super().__init__(paths)

    def give_back(self) -> bool:
        return allocation.release(self._paths)

    def _has_later(self, name: str) -> Path:
        """Note what a node has by the node: nodes keep it, hosts change theirs."""
        place = self._place(name)
        return self._paths.host(name) / f"layers-{place.node.id[:16] if place is not None else ''}"

    async def _open(self, host: RemoteHost) -> tuple[Line, Sequence[str]]:
        place = await self._in_thread(lambda: self._place_of(host.name))
        self.on_stage(host.name, "connecting", place.node.name)
        known = await self._in_thread(lambda: allocation.read(self._paths))
        if known is None:
            raise HostFailed("ended", "its placement group has been given back")
        index = int(host.name.rpartition("-")[2])
        return RayLine(await self._bridge_to(known), known.name, index, place, known.ray.gpus > 0), ()

    async def _bridge_to(self, group: allocation.Group) -> Bridge:
        async with self._bridging:
            if self._bridge is None or self._bridge.is_closed:
                if self._bridge is not None:
                    await self._bridge.end()
                self._bridge = await Bridge.begin(group.ray)
            return self._bridge

    def _look_at_lender(self, spec: ClusterSpec, before: Lent[Node] | None) -> Lent[Node] | None:
        known = allocation.read(self._paths)
        if known is None:
            return None
        asked = {
            "name": known.name,
            "count": known.ray.hosts,
            "least": known.ray.min or known.ray.hosts,
            "bundle": allocation.bundle_of(known.ray),
        }

        async def ask() -> dict[str, object]:
            try:
                return await (await self._bridge_to(known)).ask("look", **asked)
            except RaySilent:
                if self._bridge is not None:
                    await self._bridge.end()
                raise

        found = self._run(ask(), None)
        grant = Grant("queued", f"Ray placement group {known.name}", is_ours=True)
        state = str(found["state"])
        if state == "REMOVED":
            return Lent(replace(grant, state="ended", why="is gone: it was removed, or Ray has begun anew"))
        if state not in GRANTED:
            return Lent(replace(grant, why=str(found["why"])))
        hosts = found["hosts"]
        assert isinstance(hosts, dict)
        places = {
            f"{spec.provider}-{index}": Place(Node(about["node"], about["address"]), about["life"])
            for index, about in hosts.items()
        }
        nodes = {host: place.node.name for host, place in places.items()}
        waits = found["waits"]
        assert isinstance(waits, dict)
        why = {f"{spec.provider}-{index}": f"{grant.what}: {text}" for index, text in waits.items()}
        return Lent(replace(grant, state="granted", nodes=nodes), places, why)

    def _has_none(self, grant: Grant) -> HostFailed:
        return HostFailed("queued", f"{grant.what} has no node for it now: its node is lost, and Ray looks for another")

    async def _close(self) -> None:
        await super()._close()
        if self._bridge is not None:
            await self._bridge.end()
