"""What ~/.ssh/config says about a host: read as OpenSSH reads it, and what is not obeyed named with file and line, as
silence would look like obedience. `docs/operations.md` lists both.

asyncssh has a reader of its own, which this one is made of. It goes other ways than OpenSSH where users notice it: at a
key file that is not there, a comment behind a value, `=` in a quoted command, tokens, a jump host beside a command.
"""

from __future__ import annotations

import contextlib
import getpass
import glob
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.config import ConfigParseError, SSHClientConfig

SYSTEM_FILE = Path("/etc/ssh/ssh_config")
HARMLESS = {
    "stricthostkeychecking": ("yes", "ask"),
    "verifyhostkeydns": ("no",),
    "proxyusefdpass": ("no",),
    "canonicalizehostname": ("no",),
    "controlmaster": ("no",),
    "controlpath": ("none",),
}
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
    "CanonicalizeHostname": "write the whole name as HostName",
    "PubkeyAcceptedAlgorithms": "what the host accepts is used",
    "PubkeyAcceptedKeyTypes": "what the host accepts is used",
}
OF_A_LOGIN = frozenset(
    (
        *("HostName", "User", "Port", "IdentityFile", "IdentityAgent", "IdentitiesOnly", "CertificateFile"),
        *("ProxyJump", "ProxyCommand", "HostKeyAlias", "UserKnownHostsFile", "AddressFamily", "BindAddress"),
    )
)


_EITHER = ("ProxyCommand", "ProxyJump")
"""The options of which the one that is said first counts."""
_MATCHES_BY_VALUE = ("host=", "originalhost=", "user=", "localuser=", "exec=", "tagged=", "localnetwork=")


class Config(SSHClientConfig):
    """What a file says about one host."""

    _handlers: dict[str, tuple[str, Any]] = {
        key: known for key, known in SSHClientConfig._handlers.items() if key != "canonicalizehostname"
    }
    _percent_expand = {*SSHClientConfig._percent_expand, "UserKnownHostsFile"}

    def parse(self, path: Path) -> None:
        """Take over what a file says; tokens are expanded."""
        self._path, self._line_no, self._matching = path, 0, True
        self._tokens = {"%": "%"}
        with open(path, errors="replace") as file:
            for line in file:
                self._line_no += 1
                self._take(line.strip())
        self._set_tokens()
        if path == self.first:
            self._settle()

    first = Path()
    """The file that includes the others."""

    def _take(self, line: str) -> None:
        """Take one line: `KEYWORD VALUE ...` or `KEYWORD = VALUE ...`, or a comment."""
        if not line or line[0] == "#":
            return
        end = next((i for i, c in enumerate(line) if c in " \t="), len(line))
        keyword, rest = line[:end].lower(), line[end:].lstrip().removeprefix("=").lstrip()
        if (keyword not in self._handlers) or not (self._matching or keyword in self._conditionals):
            return
        if keyword in self._no_split:
            args = [rest] if rest else []
        else:
            try:
                lexer = shlex.shlex(rest, posix=True, punctuation_chars=False)
                lexer.whitespace_split, lexer.escape = True, ""
                args = list(lexer)
            except ValueError as error:
                self._error(str(error))
        if keyword == "match":
            args = self._conditions(args)
        option, handler = self._handlers[keyword]
        if not args:
            self._error(f"Missing {option} value")
        handler(self, option, args)
        if args:
            self._error(f"Extra data at end: {' '.join(args)}")

    def _conditions(self, args: list[str]) -> list[str]:
        """Read the conditions of a `Match`, with the command of `exec` as it is to be run."""
        found: list[str] = []
        for arg in args:
            if found and found[-1].lower().lstrip("!") == "exec":
                self._set_tokens()
                found.append(self._expand_val(arg))
            elif arg.lower().lstrip("!").startswith(_MATCHES_BY_VALUE):
                found += arg.split("=", 1)
            else:
                found.append(arg)
        return found

    def _include(self, option: str, args: list[str]) -> None:
        """Include the files whose names match, in their order; none where none does."""
        before = self._path, self._line_no
        for pattern in args:
            whole = Path(self._default_path, Path(pattern).expanduser())
            for path in sorted(glob.glob(str(whole))):
                if Path(path).is_file():
                    self.parse(Path(path))
        self._path, self._line_no = before
        self._matching = True
        args.clear()

    _handlers["include"] = ("Include", _include)

    def _settle(self) -> None:
        """Settle what is left when all has been read."""
        said: dict[str, Any] = self._options
        for option in self._percent_expand & {*said}:
            value = said[option]
            if isinstance(value, list):
                said[option] = [self._expand_val(item) for item in value]
            elif isinstance(value, str):
                said[option] = self._expand_val(value)
        for option in [name for name in said if name in _EITHER][1:]:
            del said[option]
        if "IdentityFile" in said:
            said["IdentityFile"] = [name for name in map(_key_file, said["IdentityFile"]) if name]
        agent = said.get("IdentityAgent")
        if isinstance(agent, str) and (agent == "SSH_AUTH_SOCK" or agent[:1] == "$"):
            said["IdentityAgent"] = os.environ.get(agent.removeprefix("$"))


def _key_file(name: str) -> str:
    """Find a key that is there, or its public half, as an agent may have the other; else empty: OpenSSH goes on."""
    return next((path for path in (name, f"{name}.pub") if os.path.exists(os.path.expanduser(path))), "")


class _Noting(Config):
    """Notes options instead of ignoring them."""

    noted: list[str]


def _noting(options: Mapping[str, str]) -> type[_Noting]:
    """Make a reader that notes these options."""

    def note(self: Any, option: str, args: list[str]) -> None:
        value = " ".join(args)
        args.clear()
        if value.lower() not in HARMLESS.get(option.lower(), ()):
            self.noted.append(f"{self._path}:{self._line_no}: {option} {value} is not obeyed: {options[option]}")

    handlers = {**Config._handlers, **{option.lower(): (option, note) for option in options}}
    return type("_NotingThese", (_Noting,), {"_handlers": handlers, "noted": []})


def _read(kind: type[Config], path: Path, host: str, user: str | None, port: int | None) -> Config:
    """Read a file, and read it again where it has something for when all else is known (`Match final`)."""
    names = (getpass.getuser(), user or (), host, port or ())
    found = kind(None, False, False, False, *names)  # type: ignore[arg-type]
    if os.access(path, os.R_OK):
        found.first = path
        found.parse(path)
        if found.has_match_final():
            final = kind(None, False, False, True, *names)  # type: ignore[arg-type]
            final._options.update({name: value for name, value in found._options.items() if name == "Hostname"})
            final.first = path
            final.parse(path)
            found = final
            found._final = None  # it has been
    return found


def user_file() -> Path:
    return Path("~/.ssh/config").expanduser()


async def options_of(
    host: str, user: str | None, port: int | None, /, **values: Any
) -> asyncssh.SSHClientConnectionOptions:
    """Find how to log in to a host, with what the user's file says where `values` do not.

    Raises:
        ConfigParseError: the file cannot be understood.
    """
    base = asyncssh.SSHClientConnectionOptions.__new__(asyncssh.SSHClientConnectionOptions)
    base.kwargs = {}
    base.config = _read(Config, user_file(), host, user, port)
    # A terminal would echo what is said to the program there.
    values = {"request_pty": False, **values, "config": None, "host": host}
    made: asyncssh.SSHClientConnectionOptions = await asyncssh.SSHClientConnectionOptions.construct(base, **values)
    made.config.loaded = True  # else connecting reads the file again, in asyncssh's way
    return made


def unheeded(host: str, user: str | None = None, port: int | None = None) -> list[str]:
    """List what the user's and the system's file say about a host in vain.

    Each as `~/.ssh/config:12: OPTION VALUE is not obeyed: ...`. What is wrong in a file is not said here: logging in
    says it.
    """
    found = []
    home = str(Path("~").expanduser())
    system = dict.fromkeys(OF_A_LOGIN, "only ~/.ssh/config is read; say it there")
    for path, options in ((user_file(), dict(UNHEEDED)), (SYSTEM_FILE, system)):
        kind = _noting(options)
        with contextlib.suppress(ConfigParseError, OSError, ValueError):
            _read(kind, path, host, user, port)
            found += [note.replace(f"{home}/", "~/", 1) for note in dict.fromkeys(kind.__dict__["noted"])]
    return found
