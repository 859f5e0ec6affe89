"""Looking at hosts before anything is done to them: can one log in, and is there what `up` needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncssh

from dtfctl.launcher.paths import home
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Bundles, Platform
from dtfctl.launcher.providers.conversation import ASK_S, Conversation
from dtfctl.launcher.providers.login import Logins
from dtfctl.launcher.providers.ssh import SshLine
from dtfctl.launcher.spec.available import require_login
from dtfctl.launcher.spec.model import ClusterSpec, Host
from dtfctl.launcher.system.files import private_folder

WANTED_BYTES = 600 * 2**20
"""What the packages take on a host, about."""
CLOCK_S = 5.0
"""A clock that is off by more gets a warning; certificates forgive a day."""


@dataclass(frozen=True, slots=True)
class HostCheck:
    """What was found on one host."""

    name: str
    cause: str = ""
    """The cause why the host cannot be used, as in `HostStatus`; empty when it can."""
    problem: str = ""
    where: str = ""
    hint: str = ""
    python: str = ""
    machine: str = ""
    cores: int = 0
    gpus: int = 0
    free_bytes: int = 0
    clock_off_s: float = 0.0
    """The seconds by which the host's clock differs from this machine's."""
    installed: bool = False
    """Whether this version of dtfctl is there already."""
    login_s: float = 0.0
    unheeded: tuple[str, ...] = ()
    """What ~/.ssh/config says about the host and is not obeyed."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may become a problem."""
        found = list(self.unheeded)
        if not self.cause and not self.installed and self.free_bytes < WANTED_BYTES:
            found.append(f"{self.free_bytes >> 20} MiB free, dtfctl takes about {WANTED_BYTES >> 20} MiB")
        if abs(self.clock_off_s) > CLOCK_S:
            found.append(f"its clock is {abs(self.clock_off_s):.0f} s {'ahead' if self.clock_off_s > 0 else 'behind'}")
        return tuple(found)


def check_hosts(
    spec: ClusterSpec, on_check: Callable[[HostCheck], None] = lambda _: None, names: Sequence[str] = ()
) -> list[HostCheck]:
    """Log in to every host of the spec that is not this machine (or those of `names`), and look; changes nothing."""
    require_login(spec, "`hosts check`")
    hosts = [host for host in spec.hosts if not host.is_local and (not names or host.name in names)]
    return asyncio.run(_check_all(spec, hosts, on_check))


async def _check_all(
    spec: ClusterSpec, hosts: Sequence[Host], on_check: Callable[[HostCheck], None]
) -> list[HostCheck]:
    logins = Logins(spec.ssh, home() / "known_hosts", remember=False)
    bundles = Bundles(private_folder(home()) / "bundles")

    async def check(host: Host) -> HostCheck:
        found = await _check(logins, bundles, spec, host)
        on_check(found)
        return found

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(check(host)) for host in hosts]
        return [task.result() for task in tasks]
    finally:
        await logins.close()


async def _check(logins: Logins, bundles: Bundles, spec: ClusterSpec, host: Host) -> HostCheck:
    begun = time.monotonic()
    try:
        connection = await logins.connect(host.name, host.user)
        try:
            conversation = await Conversation.begin(
                SshLine(connection), await asyncio.to_thread(bundles.likely), spec.home
            )
            took = time.monotonic() - begun
            question = {"do": "look", "cluster": spec.cluster, "host": host.name}
            asked = time.time()
            facts = (await conversation.ask(question, ASK_S))["facts"]
            middle = (asked + time.time()) / 2
        finally:
            connection.close()
        bundle = await asyncio.to_thread(bundles.of, Platform.of_facts(facts), spec.fast)
        return HostCheck(
            host.name,
            python=facts["python"],
            machine=facts["machine"],
            cores=facts["cores"],
            gpus=facts["gpus"],
            free_bytes=facts["free_bytes"],
            clock_off_s=facts["clock"] - middle,
            installed=bundle.runtime in facts["runtimes"],
            login_s=took,
            unheeded=tuple(logins.unheeded.get(host.name, ())),
        )
    except HostFailed as error:
        return HostCheck(host.name, error.cause, error.message, error.where, error.hint)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        return HostCheck(host.name, "unreachable", f"the connection was lost: {error}")
