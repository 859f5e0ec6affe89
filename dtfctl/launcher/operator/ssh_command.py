"""The command line of the system's ssh that logs in as the spec says. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path

from dtfctl.launcher.spec.model import Host, Ssh

DEFAULT = Ssh()


def ssh_command(host: Host, ssh: Ssh, pins: Path) -> list[str]:
    """`ssh ... HOST`; what the spec leaves open is for ~/.ssh/config to say.

    `pins`: dtfctl's own file of host keys that were accepted at the first `up`.
    """
    words = [*_login(ssh, pins), *_through(ssh.jump, ssh, pins)]
    if ssh.port != DEFAULT.port:
        words += ["-p", str(ssh.port)]
    return ["ssh", *words, f"{host.user}@{host.name}" if host.user else host.name]


def _login(ssh: Ssh, pins: Path) -> list[str]:
    words = ["-o", f"ConnectTimeout={max(1, round(ssh.timeout))}"]
    if ssh.key:
        words += ["-i", str(Path(ssh.key).expanduser())]
    files = [str(Path(ssh.known_hosts).expanduser())]
    if ssh.host_keys == "pin":
        files.insert(0, str(pins))  # ssh adds new keys to the first
    if ssh.host_keys == "pin" or ssh.known_hosts != DEFAULT.known_hosts:
        quoted = " ".join(f'"{name}"' if " " in name else name for name in files)
        words += ["-o", f"UserKnownHostsFile={quoted}"]
    return [*words, "-o", f"StrictHostKeyChecking={'accept-new' if ssh.host_keys == 'pin' else 'yes'}"]


def _through(path: tuple[str, ...], ssh: Ssh, pins: Path) -> list[str]:
    """Over jump hosts, with the spec's key at each of them, which `ssh -J` would not use there."""
    if not path:
        return []
    user, _, address = path[-1].rpartition("@")
    name, port = address, ""
    if address.count(":") == 1:
        name, _, port = address.partition(":")
    user = user or ssh.user or ""
    words = ["ssh", *_login(ssh, pins), *_through(path[:-1], ssh, pins)]
    words += ["-p", port] if port else []
    quoted = shlex.join([*words, f"{user}@{name}" if user else name])
    # ssh reads % in a ProxyCommand: %h and %p are of the host behind the jump, all others stand for themselves.
    return ["-o", f"ProxyCommand={quoted.replace('%', '%%')} -W [%h]:%p"]
