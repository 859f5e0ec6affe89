"""How a controller that runs on a host of its cluster logs in to all of them, without the operator's keys.

`up` makes a key for the cluster, adds it to the `authorized_keys` of every host with the operator's own login, and
sends what it has learned to the controller's host, below `login/` in the cluster's folder:

    key             the cluster's private key
    known_hosts     the host keys as the operator's machine has verified them
    hosts.json      address, port and user of each host, or why the operator could not log in
    sync.json       what `sync` is to put where, and under which hash
    sync/           the archives of it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Cause, HostFailed
from dtfctl.launcher.providers.files import Synced
from dtfctl.launcher.spec.model import Ssh

MET = "met.json"
"""The file on the operator's machine that says what `hosts.json` was when it was sent last."""


@dataclass(frozen=True, slots=True)
class Met:
    """A host as the operator's machine has met it."""

    address: str = ""
    port: int = 22
    user: str = ""
    host_key: str = ""
    """`ssh-ed25519 AAAA...`"""
    cause: Cause | None = None
    """Why it could not be logged in to; None where it could."""
    message: str = ""
    hint: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    """What of the operator's settings for logging in there was not obeyed."""

    @classmethod
    def failed(cls, error: HostFailed) -> Met:
        return cls(cause=error.cause, message=error.message, hint=error.hint, where=error.where)

    def known_hosts_line(self) -> str:
        name = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        return f"{name} {self.host_key}\n"


@dataclass(frozen=True, slots=True)
class _Hosts:
    hosts: Mapping[str, Met]


def met_before(login: Path, met: Mapping[str, Met]) -> dict[str, Met]:
    """Take hosts that cannot be reached now as they were met before, all others as in `met`."""
    try:
        known = codec.decode(_Hosts, (login / MET).read_bytes()).hosts
    except (FileNotFoundError, ValueError):
        known = {}
    return {name: known[name] if now.cause == "unreachable" and name in known else now for name, now in met.items()}


def hosts_file(hosts: Mapping[str, Met]) -> str:
    return codec.encode(_Hosts(hosts))


class OwnLogin:
    """What lies in `login/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts = codec.decode(_Hosts, (folder / "hosts.json").read_bytes()).hosts

    @classmethod
    def of(cls, paths: ClusterPaths) -> OwnLogin | None:
        """Find the cluster's own login; None for a controller on the operator's machine."""
        return cls(paths.login) if (paths.login / "hosts.json").exists() else None

    def ssh(self, ssh: Ssh) -> Ssh:
        """Change the spec's settings to the cluster's own key; hosts reach each other without a jump host."""
        known = str(self._folder / "known_hosts")
        return replace(ssh, key=str(self._folder / "key"), known_hosts=known, host_keys="strict", jump=())

    def met(self, host: str) -> Met:
        """Find how the operator's machine met a host. Raises HostFailed: it could not log in to it."""
        met = self._hosts.get(host)
        if met is None:
            raise HostFailed("auth", "the cluster's key is not known there", "run `dtfctl up` again")
        if met.cause is not None:
            raise HostFailed(met.cause, met.message, met.hint, met.where)
        return met


class SentSyncs:
    """`sync` from what `up` has sent: the sources are on another machine. As `files.Syncs`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        entries: list[dict[str, Any]] = json.loads((folder / "sync.json").read_bytes())
        self._entries = [Synced(Path(), item["to"], (), item["hash"], item["single"]) for item in entries]

    def current(self) -> list[Synced]:
        return list(self._entries)

    def archive(self, item: Synced) -> Path:
        return self._folder / "sync" / f"{item.hash}.tar.gz"
