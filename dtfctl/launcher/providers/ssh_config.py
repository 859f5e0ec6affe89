"""What ~/.ssh/config says about a host and is not obeyed, with file and line: silence would look like obedience.

asyncssh reads the file, with its `Host`, `Match` and `Include`; here it is read once more in the same way for the
options that asyncssh does not know, and the system's file for those that a login depends on. `docs/operations.md` lists
both.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncssh.config import ConfigParseError, SSHClientConfig

SYSTEM_FILE = Path("/etc/ssh/ssh_config")
HARMLESS = {"stricthostkeychecking": ("yes", "ask"), "verifyhostkeydns": ("no",), "proxyusefdpass": ("no",)}
"""Values that change nothing."""
UNHEEDED: Mapping[str, str] = {
    "StrictHostKeyChecking": "host keys are always checked; `ssh: {host_keys: pin}` takes unknown ones once",
    "HashKnownHosts": "pinned keys are kept with plain names, in a file that only you can read",
    "KnownHostsCommand": "keys are looked up in files",
    "RevokedHostKeys": "mark them `@revoked` in a known_hosts file",
    "VerifyHostKeyDNS": "keys are looked up in files",
    "ControlMaster": "dtfctl logs in by itself",
    "ControlPath": "dtfctl logs in by itself",
    "BindInterface": "use BindAddress",
    "ProxyUseFdpass": "the command has to carry the connection itself",
    "SecurityKeyProvider": "use ssh-agent",
    "ConnectionAttempts": "`ssh: {retries: N}` says it",
}
OF_A_LOGIN = frozenset(
    (
        *("HostName", "User", "Port", "IdentityFile", "IdentityAgent", "IdentitiesOnly", "CertificateFile"),
        *("ProxyJump", "ProxyCommand", "HostKeyAlias", "UserKnownHostsFile", "AddressFamily", "BindAddress"),
    )
)


def _noting(options: Mapping[str, str]) -> type[SSHClientConfig]:
    """A reader that notes these options instead of ignoring them."""

    def note(self: Any, option: str, args: list[str]) -> None:
        value = " ".join(args)
        args.clear()
        if value.lower() not in HARMLESS.get(option.lower(), ()):
            self.noted.append(f"{self._path}:{self._line_no}: {option} {value} is not obeyed: {options[option]}")

    handlers = {**SSHClientConfig._handlers, **{option.lower(): (option, note) for option in options}}
    return type("NotingConfig", (SSHClientConfig,), {"_handlers": handlers, "noted": []})


def unheeded(host: str, user: str | None = None, port: int | None = None) -> list[str]:
    """What the user's and the system's file say about a host in vain.

    Each as `~/.ssh/config:12: OPTION VALUE is not obeyed: ...`. What is wrong in a file is not said here: logging in
    says it.
    """
    found = []
    home = str(Path("~").expanduser())
    system = dict.fromkeys(OF_A_LOGIN, "only ~/.ssh/config is read; say it there")
    for path, options in ((Path(home, ".ssh", "config"), dict(UNHEEDED)), (SYSTEM_FILE, system)):
        if not os.access(path, os.R_OK):
            continue
        reader = _noting(options)
        try:
            reader.load(None, [path], False, False, False, getpass.getuser(), user or (), host, port or ())
        except (ConfigParseError, OSError, ValueError):
            continue
        found += [note.replace(f"{home}/", "~/", 1) for note in reader.__dict__["noted"]]
    return found
