"""The command line of the system's ssh that logs in as the spec says."""

from __future__ import annotations

import os
import pwd
import shlex
from pathlib import Path

from dtfctl.launcher.errors import Conflict, NotFound
from dtfctl.launcher.model import ClusterStatus
from dtfctl.launcher.operator.host_access import targets
from dtfctl.launcher.paths import home
from dtfctl.launcher.spec.model import ClusterSpec, Host, Ssh

DEFAULT = Ssh()
KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""What ssh tries where nothing names a key."""


def ssh_to(name: str, spec: ClusterSpec, status: ClusterStatus) -> list[str]:
    """Make the command of the system's ssh to a host, or to a task's; the last word is the host.

    Raises:
        NotFound: no such host. Conflict: it is this machine.
    """
    if "/" in name:
        name = targets(name, status)[0].host
    host = next((host for host in spec.hosts if host.name == name.removeprefix("host:")), None)
    if host is None:
        known = ", ".join(host.name for host in spec.hosts[:8])
        raise NotFound(f"there is no host {name!r} in cluster {spec.cluster}", f"hosts: {known}")
    if host.is_local:
        raise Conflict(f"{host.name} is this machine", "there is nothing to log in to")
    return ssh_command(host, spec.ssh, home() / "known_hosts")


def ssh_command(host: Host, ssh: Ssh, pins: Path) -> list[str]:
    """Make the command `ssh ... HOST`; what the spec leaves open is for ~/.ssh/config to say.

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
        words += ["-o", f"UserKnownHostsFile={' '.join(map(_quoted, files))}"]
    words += ["-o", f"StrictHostKeyChecking={'accept-new' if ssh.host_keys == 'pin' else 'yes'}"]
    return [*words, *_of_home()]  # of an option that is given twice the first counts


def _of_home() -> list[str]:
    """List options for the settings, known hosts and keys below $HOME, where that is not the account's home.

    dtfctl and all other programs look there; ssh looks below the home that the password file says.
    """
    folder = Path.home() / ".ssh"
    try:
        if os.path.realpath(folder) == os.path.realpath(Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"):
            return []
    except KeyError:  # an account without an entry: ssh itself refuses to run
        return []
    config = folder / "config"
    says_known_hosts = config.exists() and "userknownhostsfile" in config.read_text(errors="replace").lower()
    words = ["-F", str(config) if config.exists() else "none"]
    if not says_known_hosts:
        words += ["-o", f"UserKnownHostsFile={_quoted(folder / 'known_hosts')}"]
    for key in KEYS:
        words += ["-o", f"IdentityFile={_quoted(folder / key)}"] if (folder / key).exists() else []
    return words


def _quoted(path: Path | str) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _through(path: tuple[str, ...], ssh: Ssh, pins: Path) -> list[str]:
    """Make the options to go over jump hosts, with the spec's key at each, which `ssh -J` would not use there."""
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
