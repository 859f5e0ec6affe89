"""All hosts of a cluster: each goes to the provider of its kind."""

from __future__ import annotations

import socket
from collections.abc import Callable

from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint, OnGrant, OnStage, Provider, silent, unheard
from dtfctl.launcher.providers.local import LocalProvider
from dtfctl.launcher.spec.model import LOCAL_NAMES, ClusterSpec, Host


class HostProviders:
    """A provider that chooses by the host. Other kinds than this machine are loaded where a cluster needs them."""

    def __init__(self, paths: ClusterPaths, make_remote: Callable[[ClusterPaths], Provider] | None = None) -> None:
        self._paths = paths
        self._make_remote = make_remote
        self._local = LocalProvider(paths)
        self._remote: Provider | None = None
        self._on_stage: OnStage = silent
        self._on_grant: OnGrant = unheard

    @property
    def on_stage(self) -> OnStage:
        return self._on_stage

    @on_stage.setter
    def on_stage(self, hear: OnStage) -> None:
        self._on_stage = self._local.on_stage = hear
        if self._remote is not None:
            self._remote.on_stage = hear

    @property
    def on_grant(self) -> OnGrant:
        return self._on_grant

    @on_grant.setter
    def on_grant(self, hear: OnGrant) -> None:
        self._on_grant = hear
        if self._remote is not None:
            self._remote.on_grant = hear

    def configure(self, spec: ClusterSpec) -> None:
        remote = [host for host in spec.hosts if not host.is_local]
        if remote:
            if self._remote is None:
                self._remote = (self._make_remote or _KINDS[spec.provider])(self._paths)
                self._remote.on_stage, self._remote.on_grant = self._on_stage, self._on_grant
            self._remote.configure(spec)
            if len(remote) < len(spec.hosts):
                self._local.advertise = address_towards(remote[0])
        self._local.configure(spec)

    def _of(self, host: str) -> Provider:
        if host in LOCAL_NAMES:
            return self._local
        assert self._remote is not None, f"no spec names {host}"
        return self._remote

    def find_agent(self, host: str) -> AgentEndpoint | None:
        return self._of(host).find_agent(host)

    def start_agent(self, host: str) -> AgentEndpoint:
        return self._of(host).start_agent(host)

    def refresh(self, host: str) -> None:
        self._of(host).refresh(host)

    def may_run(self, host: str) -> bool:
        return self._of(host).may_run(host)

    def wait_ended(self, host: str, timeout_s: float) -> bool:
        return self._of(host).wait_ended(host, timeout_s)

    def kill_agent(self, host: str, *, if_it_hangs: bool = False) -> bool:
        return self._of(host).kill_agent(host, if_it_hangs=if_it_hangs)

    def clean(self, host: str) -> None:
        self._of(host).clean(host)

    def begin_anew(self) -> None:
        if self._remote is not None:
            self._remote.begin_anew()

    def give_back(self) -> bool:
        return self._remote is not None and self._remote.give_back()

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()


def _ssh(paths: ClusterPaths) -> Provider:
    from dtfctl.launcher.providers.ssh import SshProvider

    return SshProvider(paths)


def _slurm(paths: ClusterPaths) -> Provider:
    from dtfctl.launcher.providers.slurm.provider import SlurmProvider

    return SlurmProvider(paths)


def _ray(paths: ClusterPaths) -> Provider:
    from dtfctl.launcher.providers.ray.provider import RayProvider

    return RayProvider(paths)


_KINDS: dict[str, Callable[[ClusterPaths], Provider]] = {"ssh": _ssh, "slurm": _slurm, "ray": _ray}
"""What makes the provider of hosts other than this machine, by the spec's `provider`."""


def address_towards(host: Host) -> str:
    """Find this machine's address as `host` sees it; nothing is sent to find out."""
    try:
        family, _, _, _, target = socket.getaddrinfo(host.name, 22, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        # The name is one of ~/.ssh/config, or is only known behind a jump host.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 22))
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"
