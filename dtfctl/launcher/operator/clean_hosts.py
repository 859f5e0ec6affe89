"""Removing a cluster, or all of dtfctl, from hosts: everything that runs is ended, every file goes.

Controllers end first, on all hosts, and the keys by which they log in to others go: one that still ran would start
agents again where all has just been ended.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncssh

from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.messages import codec
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.local_controller import end_controller, end_page, find_controller, forget
from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.launcher.providers import ownership
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Bundles
from dtfctl.launcher.providers.conversation import Conversation
from dtfctl.launcher.providers.login import Logins
from dtfctl.launcher.providers.ssh import SshLine
from dtfctl.launcher.spec.available import require_login
from dtfctl.launcher.spec.model import ClusterSpec, Host
from dtfctl.launcher.system.files import private_folder

CLEAN_S = 120.0


@dataclass(frozen=True, slots=True)
class HostCleaned:
    """What was removed from one host."""

    name: str
    cause: str = ""
    """The cause why something is left there, as in `HostStatus`; empty when nothing is."""
    problem: str = ""
    hint: str = ""
    where: str = ""
    ended: int = 0
    """The number of processes that were ended."""
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
    require_login(spec, "`hosts clean`")
    paths = ClusterPaths.of(spec.cluster)
    if controller_client.read_created(paths) is not None and not force:
        raise Conflict(f"cluster {spec.cluster} is up", f"take it down first: dtfctl down -c {spec.cluster}")
    end_page(paths)
    running = find_controller(paths)
    if running is not None:
        end_controller(running[0])  # `force`: it is this machine's own
    request = {
        "cluster": "" if everything else spec.cluster,
        "owner": codec.to_plain(ownership.myself(paths)),
        "force": force,
    }
    done = asyncio.run(_clean(spec, [host for host in spec.hosts if not host.is_local], request, on_host))
    if not any(host.cause for host in done):
        _forget_here(paths)
    return done


def _forget_here(paths: ClusterPaths) -> None:
    """Forget what this machine knows of a cluster that was up, and of which no host has anything any more."""
    if controller_client.read_created(paths) is None:
        return
    paths.controller_place.unlink(missing_ok=True)
    shutil.rmtree(paths.login, ignore_errors=True)
    forget(paths)


async def _clean(
    spec: ClusterSpec, hosts: Sequence[Host], request: dict[str, Any], on_host: Callable[[HostCleaned], None]
) -> list[HostCleaned]:
    logins = Logins(spec.ssh, home() / "known_hosts", remember=False)
    bundles = Bundles(private_folder(home()) / "bundles")

    async def end_controllers(host: Host) -> HostCleaned:
        return await _one(logins, bundles, host, spec.home, {**request, "do": "end_controllers"})

    logs = str(Path(spec.logs.dir) / spec.cluster) if spec.logs.dir else ""

    async def clean(host: Host, before: HostCleaned) -> HostCleaned:
        done = before
        if not before.cause:
            done = await _one(logins, bundles, host, spec.home, {**request, "do": "clean_all", "logs": logs})
            done = done if done.cause else replace(done, ended=done.ended + before.ended)
        on_host(done)
        return done

    try:
        ended = await asyncio.gather(*(end_controllers(host) for host in hosts))
        return list(await asyncio.gather(*(clean(host, before) for host, before in zip(hosts, ended, strict=True))))
    finally:
        await logins.close()


async def _one(
    logins: Logins, bundles: Bundles, host: Host, folder: str | None, request: dict[str, Any]
) -> HostCleaned:
    try:
        connection = await logins.connect(host.name, host.user)
        try:
            conversation = await Conversation.begin(
                SshLine(connection), await asyncio.to_thread(bundles.likely), folder
            )
            reply = await conversation.ask(request, CLEAN_S)
            return HostCleaned(host.name, ended=reply["ended"], was_there=reply.get("was_there", False))
        finally:
            connection.close()
    except HostFailed as error:
        return HostCleaned(host.name, error.cause, error.message, error.hint, error.where)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        return HostCleaned(host.name, "unreachable", f"the connection was lost: {error}")
