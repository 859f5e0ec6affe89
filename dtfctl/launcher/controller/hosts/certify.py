"""Certificates of a cluster's processes: given out before they are needed, renewed before they end, and on demand.

The controller's machine has the authority's key. A host is given a certificate for each of its tasks over the
controller's connection to its agent, which the agent's own certificate protects; private keys go nowhere else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import (
    AUTHORITY_LIFETIME_S,
    FORMER,
    Authority,
    Issued,
    Role,
    ensure_certificate,
    expiry,
    file_name,
    is_due,
    renew_authority,
    renew_certificate,
)
from dtfctl.launcher.identity.keyring import AUTHORITY
from dtfctl.launcher.messages import agent_calls
from dtfctl.launcher.messages.agent import Certificate, CertifyRequest
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.client import Channel

log = logging.getLogger(__name__)

CERTIFY_S = 20.0
LOOK_AT = 1 / 30
"""The part of their lifetime after which this machine's own certificates are looked at again ..."""
LONGEST_LOOK_S = 3600.0
"""... or as often as this."""
OWN: tuple[Role, ...] = ("controller", "cli")


def due_names(held: Mapping[str, float], wanted: Sequence[str], now: float, lifetime_s: float) -> list[str]:
    """List the certificates that are wanted, and that are missing or end soon."""
    return [name for name in wanted if name not in held or is_due(held[name], now, lifetime_s)]


class HostCertificates:
    """The certificates of one host: a cheap look now and then, and a call when something is due. For one thread.

    Args:
        folder: with the authority's key.
        lifetime_s: of new ones.
    """

    def __init__(self, folder: Path, cluster: str, host: str, lifetime_s: Callable[[], float]) -> None:
        self._folder = folder
        self._cluster = cluster
        self._host = host
        self._lifetime_s = lifetime_s
        self._held: dict[str, float] | None = None
        self._has_told = False
        self._asked = 0
        self._done = 0
        self._changed = threading.Condition()

    def forget(self) -> None:
        """Forget what the agent has: it is another one now, perhaps, and is asked again."""
        self._held, self._has_told = None, False

    def renew(self) -> int:
        """Have all of them replaced soon; what to wait for. Any thread."""
        with self._changed:
            self._asked += 1
            return self._asked

    def wait_renewed(self, number: int, within_s: float) -> bool:
        """Wait until that renewal is done; return whether it was in time. Any thread."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= number, within_s)

    def held(self) -> dict[str, float]:
        """Tell when each certificate ends, as the agent said last. Any thread."""
        return dict(self._held or {})

    def is_pending(self) -> bool:
        """Tell whether somebody waits for new certificates."""
        return self._asked > self._done

    def provide(self, channel: Channel, orders: HostOrders) -> list[str]:
        """See to it that the agent and each task of the orders has one that lasts; the names of those replaced.

        Raises:
            LauncherError: the agent cannot be told.
        """
        asked = self._asked
        if self._held is None:
            self._held = self._call(channel, CertifyRequest())
        tasks = {file_name("task", order.name): order.name for order in orders.tasks} if orders.tls else {}
        agent = file_name("agent", self._host)
        now = time.time()
        wanted = [agent, *tasks]
        due = wanted if asked > self._done else due_names(self._held, wanted, now, self._lifetime_s())
        replaced = [name for name in due if name in self._held]
        gone = [name for name in self._held if name.startswith("task-") and name not in tasks]
        told, self._has_told = self._has_told, True
        untold = not told and (self._folder / FORMER).exists()
        if due or gone or untold or self._held.get(AUTHORITY) != expiry(self._folder / "ca.pem"):
            self._held = self._replace(channel, due, tasks)
        with self._changed:
            self._done = asked
            self._changed.notify_all()
        return replaced

    def _replace(self, channel: Channel, due: Sequence[str], tasks: Mapping[str, str]) -> dict[str, float]:
        authority = Authority(self._folder, self._cluster)
        news = []
        for name in due:
            if name in tasks:
                issued = authority.issue("task", tasks[name], lifetime_s=self._lifetime_s())
            else:
                issued = self._agents(authority)
            news.append(Certificate(issued.name, issued.cert, issued.key))
        request = CertifyRequest(authority.pem, tuple(news), tuple(tasks.values()), self._former())
        return self._call(channel, request)

    def _former(self) -> bytes:
        path = self._folder / FORMER
        return path.read_bytes() if path.exists() else b""

    def _agents(self, authority: Authority) -> Issued:
        """Issue a new certificate for the agent, which is kept here too: a later agent there is started with it."""
        issued = authority.issue("agent", self._host, lifetime_s=self._lifetime_s())
        issued.save(self._folder)
        return issued

    def _call(self, channel: Channel, request: CertifyRequest) -> dict[str, float]:
        return dict(channel.call(agent_calls.CERTIFY, request, timeout_s=CERTIFY_S).until)


def renew_own(paths: ClusterPaths, lifetime_s: float, now: float, *, all_of_them: bool = False) -> list[str]:
    """Renew what this machine holds itself and is due: the authority's, the controller's, yours; their names."""
    found = []
    for folder in (paths.certificates, paths.readers):
        if all_of_them or is_due(expiry(folder / "ca.pem"), now, AUTHORITY_LIFETIME_S):
            renew_authority(folder)
            found.append(f"{AUTHORITY} of {folder.name}")
    roles: list[tuple[Path, Role]] = [*((paths.certificates, role) for role in OWN), (paths.readers, "metrics")]
    for folder, role in roles:
        files = ensure_certificate(folder, paths.name, role, lifetime_s=lifetime_s)
        if all_of_them or is_due(expiry(files.cert), now, lifetime_s):
            renew_certificate(folder, paths.name, role, lifetime_s=lifetime_s)
            found.append(role)
    return found


def own_ends(paths: ClusterPaths) -> dict[str, float]:
    """Read when each certificate of this machine ends."""
    names = {role: paths.certificates / f"{role}.pem" for role in OWN}
    found = {AUTHORITY: expiry(paths.certificates / "ca.pem")}
    found |= {role: expiry(path) for role, path in names.items() if path.exists()}
    found["metrics"] = expiry(paths.readers / "metrics.pem")
    return found


class OwnCertificates:
    """Renews what this machine holds itself before it ends. For one thread.

    Args:
        lifetime_s: of new ones.
    """

    def __init__(self, paths: ClusterPaths, lifetime_s: Callable[[], float]) -> None:
        self._paths = paths
        self._lifetime_s = lifetime_s
        self._next = 0.0

    def look(self, now: float) -> list[str]:
        """Renew now and then, by the lifetime; return the names of those renewed, none where it must be tried again."""
        lifetime_s = self._lifetime_s()
        if now < self._next:
            return []
        self._next = now + min(LONGEST_LOOK_S, lifetime_s * LOOK_AT)
        try:
            return renew_own(self._paths, lifetime_s, time.time())
        except (OSError, LauncherError) as error:
            log.error("the certificates of this machine are not renewed: %s", error)
            return []
