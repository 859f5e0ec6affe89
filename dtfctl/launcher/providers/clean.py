"""Removing a cluster, or all of dtfctl, from hosts: everything that runs is ended, every file goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import asyncssh

from dtfctl.launcher import codec, connect, ownership
from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.files import private_folder
from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Bundles
from dtfctl.launcher.providers.conversation import Conversation
from dtfctl.launcher.providers.login import Logins
from dtfctl.launcher.spec.model import ClusterSpec, Host

CLEAN_S = 120.0


@dataclass(frozen=True, slots=True)
class HostCleaned:
    """What was removed from one host."""

    name: str
    cause: str = ""
    """As of `HostStatus`; empty when nothing is left there."""
    problem: str = ""
    hint: str = ""
    where: str = ""
    ended: int = 0
    """Processes."""
    was_there: bool = False
    """There were files."""


def clean_hosts(
    spec: ClusterSpec,
    *,
    everything: bool = False,
    force: bool = False,
    on_host: Callable[[HostCleaned], None] = lambda _: None,
) -> list[HostCleaned]:
    """End and delete all of the spec's cluster on every host that is not this machine; logs and checkpoints too.

    Args:
        everything: not only of this cluster: all clusters of the account, and what was installed.
        force: also what belongs to somebody else.

    Raises:
        Conflict: the cluster is up, and was brought up from here.
    """
    paths = ClusterPaths.of(spec.cluster)
    if connect.read_created(paths) is not None and not force:
        raise Conflict(f"cluster {spec.cluster} is up", f"take it down first: dtfctl down -c {spec.cluster}")
    request = {
        "do": "clean_all",
        "cluster": "" if everything else spec.cluster,
        "owner": codec.to_plain(ownership.myself(paths)),
        "force": force,
    }
    return asyncio.run(_clean(spec, [host for host in spec.hosts if not host.is_local], request, on_host))


async def _clean(
    spec: ClusterSpec, hosts: Sequence[Host], request: dict[str, Any], on_host: Callable[[HostCleaned], None]
) -> list[HostCleaned]:
    logins = Logins(spec.ssh, home() / "known_hosts", remember=False)
    bundles = Bundles(private_folder(home()) / "bundles")

    async def clean(host: Host) -> HostCleaned:
        done = await _one(logins, bundles, host, spec.home, request)
        on_host(done)
        return done

    try:
        return list(await asyncio.gather(*(clean(host) for host in hosts)))
    finally:
        await logins.close()


async def _one(
    logins: Logins, bundles: Bundles, host: Host, folder: str | None, request: dict[str, Any]
) -> HostCleaned:
    try:
        connection = await logins.connect(host.name, host.user)
        try:
            conversation = await Conversation.begin(connection, await asyncio.to_thread(bundles.likely), folder)
            reply = await conversation.ask(request, CLEAN_S)
            return HostCleaned(host.name, ended=reply["ended"], was_there=reply["was_there"])
        finally:
            connection.close()
    except HostFailed as error:
        return HostCleaned(host.name, error.cause, error.message, error.hint, error.where)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        return HostCleaned(host.name, "unreachable", f"the connection was lost: {error}")
