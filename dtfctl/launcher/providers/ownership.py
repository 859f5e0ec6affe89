"""Whose cluster it is: the folder of a cluster on each of its hosts is stamped with this.

Who comes with another authority is refused there with the name of the owner; `up --adopt` puts another stamp there.
Accounts keep clusters apart by themselves, as each has its own home; one account has one cluster of one name.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
import time

from dtfctl.launcher import paths as layout
from dtfctl.launcher.identity.certificates import authority_name
from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.system.files import write_whole
from dtfctl.values import replace, value

MOST_GIVEN_UP = 20


@value
class Owner:
    """Who brought a cluster up, and from where."""

    user: str
    machine: str
    folder: str
    """DTFCTL_HOME there."""
    since: float
    authority: str = ""
    """The authority of the cluster's certificates: what tells one owner from another."""
    given_up: tuple[str, ...] = ()
    """Authorities of earlier clusters of this name that the owner has given up with `down --force`."""


def ensure(paths: ClusterPaths) -> None:
    """Note that the cluster is this user's, unless it is noted whose it is."""
    if not paths.owner.exists():
        write_whole(paths.owner, codec.encode(_new(paths)).encode())


def _new(paths: ClusterPaths) -> Owner:
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return Owner(user, socket.gethostname(), str(layout.home()), time.time(), given_up=_given_up(paths.name))


def myself(paths: ClusterPaths) -> Owner:
    """Say as whom hosts know this user, be it of a cluster whose files here are gone; makes nothing."""
    return read(paths) if paths.owner.exists() and (paths.certificates / "ca.pem").exists() else _new(paths)


def read(paths: ClusterPaths) -> Owner:
    """Read the owner as hosts are to know it."""
    ensure(paths)
    owner = codec.decode(Owner, paths.owner.read_bytes())
    return replace(owner, authority=authority(paths))


def name_of(paths: ClusterPaths) -> str:
    """Name who the cluster's folder here is stamped by, `user@machine`; empty where it is not. Makes nothing."""
    try:
        owner = codec.decode(Owner, paths.owner.read_bytes())
    except (OSError, ValueError):
        return ""
    return f"{owner.user}@{owner.machine}"


def authority(paths: ClusterPaths) -> str:
    """Name the cluster's authority."""
    return authority_name(paths.certificates)


def give_up(paths: ClusterPaths) -> None:
    """Allow the next cluster of its name to end what hosts out of reach still have of this one."""
    if not (paths.certificates / "ca.pem").exists():
        return
    known = [*(name for name in _given_up(paths.name) if name != authority(paths)), authority(paths)]
    every = {**_lists(), paths.name: known[-MOST_GIVEN_UP:]}
    write_whole(layout.home() / "given-up.json", json.dumps(every).encode())


def _given_up(name: str) -> tuple[str, ...]:
    return tuple(_lists().get(name, ()))


def _lists() -> dict[str, list[str]]:
    try:
        lists: dict[str, list[str]] = json.loads((layout.home() / "given-up.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return lists
