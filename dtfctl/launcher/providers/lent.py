"""Hosts that are lent: who lends them is looked at, and an agent is sought only where a host is lent now.

The hosts have names of their own, `slurm-0` and so on, so that a cluster whose nodes are others goes on under the same
names. One thread looks at who lends them, seldom: whether a node is there the agents' heartbeats say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint, Grant, HostFailed
from dtfctl.launcher.providers.remote import KNOCK_S, RemoteProvider
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.net.address import answers

log = logging.getLogger(__name__)
Node = TypeVar("Node")

LOOK_S = 10.0
"""How often what is lent is looked at; sooner when an agent is lost."""
ENDING_LOOK_S = 0.5
QUEUE_LOOK_S = 2.0
LONG_QUEUE_S = 10.0
"""How often one that has waited for a minute is."""
SHORT_QUEUE_S = 60.0
FIRST_LOOK_S = 60.0
GONE = "ask for another: dtfctl up FILE; or end the cluster: dtfctl down"


@dataclass(frozen=True, slots=True)
class Place(Generic[Node]):
    """Where a host is."""

    node: Node
    life: str
    """Tells one lending of the node from the next: what ran in the one before has ended with it."""


@dataclass(frozen=True, slots=True)
class Lent(Generic[Node]):
    """What a look has found."""

    grant: Grant
    places: Mapping[str, Place[Node]] = field(default_factory=dict)
    """Where the hosts are that are lent now."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """What hosts wait for that may be lent later, while others are."""


class LentProvider(RemoteProvider, Generic[Node]):
    """Agents on hosts that somebody lends; subclasses say who."""

    def __init__(self, paths: ClusterPaths) -> None:
        super().__init__(paths)
        self._condition = threading.Condition()
        self._lent: Lent[Node] | None = None
        self._wanted = 0
        """Looks that were asked for."""
        self._looked = 0
        """Those of them that have been made."""
        self._problem = ""
        self._is_closed = False
        self._is_ending = False
        self._queued_since = 0.0
        self._watcher: threading.Thread | None = None

    def _look_at_lender(self, spec: ClusterSpec, before: Lent[Node] | None) -> Lent[Node] | None:
        """Look at what is lent; None where nothing new can be said. `_is_ending` is set while it is about to change.

        Raises:
            LauncherError: it cannot be asked; what was lent is taken to be as it was.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ calls from the links' threads

    def configure(self, spec: ClusterSpec) -> None:
        super().configure(spec)
        if self._watcher is None:
            self._watcher = guard.forever(self._watch, name="lent")
            self._watcher.start()
        self._look_soon()

    def find_agent(self, host: str) -> AgentEndpoint | None:
        self._granted(host)
        return super().find_agent(host)

    def start_agent(self, host: str) -> AgentEndpoint:
        self._granted(host)
        return super().start_agent(host)

    def may_run(self, host: str) -> bool:
        """Tell whether an agent was ever started there, on a node that is still lent: all ends with what lends it.

        Before what is lent is known it may be: who takes a cluster down must not pass it by.
        """
        with self._condition:
            is_lent = self._lent is None or host in self._lent.places
        return is_lent and super().may_run(host)

    def _reachable(self, endpoint: AgentEndpoint) -> AgentEndpoint:
        if answers(endpoint.address, KNOCK_S):
            return endpoint
        raise HostFailed(
            "unreachable",
            f"its agent at {endpoint.address} cannot be called from this machine",
            "run `dtfctl up` on a machine from which the nodes' ports can be reached, or on one of the nodes",
        )

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        super().close()

    # ------------------------------------------------------------------ where agents were last

    def _place(self, host: str) -> Place[Node] | None:
        """Find where a host is, as known; None: nowhere."""
        with self._condition:
            return None if self._lent is None else self._lent.places.get(host)

    def _life(self, host: str) -> str:
        place = self._place(host)
        return "" if place is None else place.life

    def _remember(self, host: str, info: dict[str, Any]) -> AgentEndpoint:
        return super()._remember(host, {**info, "lent": self._life(host)})

    def _remembered(self, host: str) -> AgentEndpoint | None:
        """Find where its agent was last; None where that was on another node, or before all of it ended."""
        return super()._remembered(host) if self._read_memory(host).get("lent") == self._life(host) else None

    # ------------------------------------------------------------------ what is lent

    def _granted(self, host: str) -> Place[Node]:
        """Find where a host is.

        Raises:
            HostFailed: it is nowhere now; `queued`, where it may be lent later, `ended`, where it will not.
        """
        with self._condition:
            if self._lent is None or self._lent.grant.state != "queued":
                # Looked at anew: who asks has just lost an agent, or was told that there may be another grant.
                self._wanted = ticket = self._wanted + 1
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._looked >= ticket or self._is_closed, FIRST_LOOK_S)
            lent, problem = self._lent, self._problem
        if lent is None:
            raise HostFailed("queued", problem or "it is not known yet what is lent")
        grant = lent.grant
        if grant.state == "queued":
            raise HostFailed("queued", queue_text(grant))
        if grant.state == "ended":
            raise HostFailed("ended", f"{grant.what} {grant.why}", GONE)
        place = lent.places.get(host)
        if place is None and host in lent.waits:
            raise HostFailed("queued", lent.waits[host])
        if place is None:
            raise self._has_none(grant)
        return place

    def _has_none(self, grant: Grant) -> HostFailed:
        """Say that a host is not among those that are lent."""
        return HostFailed("ended", f"{grant.what} has no node for it any more", "its tasks run elsewhere meanwhile")

    def _place_of(self, host: str) -> Place[Node]:
        """Find where a host is, as known, else by another look."""
        return self._place(host) or self._granted(host)

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
                self._renew()
            except LauncherError as error:
                problem = error.message
                log.warning("%s; what is lent is taken to be as it was", error.message)
            with self._condition:
                self._looked, self._problem = ticket, problem
                self._condition.notify_all()

    def _pause_s(self) -> float:
        if self._is_ending:
            return ENDING_LOOK_S
        if self._lent is None or self._lent.grant.state != "queued":
            return LOOK_S
        return QUEUE_LOOK_S if time.monotonic() - self._queued_since < SHORT_QUEUE_S else LONG_QUEUE_S

    def _renew(self) -> None:
        """Look at what is lent, and tell what has changed."""
        spec = self._spec
        found = None if spec is None else self._look_at_lender(spec, self._lent)
        if found is None:
            return
        with self._condition:
            before, self._lent = self._lent, found
            if found.grant.state == "queued" and (before is None or before.grant.state != "queued"):
                self._queued_since = time.monotonic()
        if before is None or found.grant != before.grant:
            self.on_grant(found.grant)


def queue_text(grant: Grant) -> str:
    """Say what a queued one waits for."""
    when = ""
    if grant.starts is not None and grant.starts > time.time():
        when = f", expected at {time.strftime('%H:%M:%S', time.localtime(grant.starts))}"
    return f"{grant.what} waits in the queue ({grant.why}{when})"
