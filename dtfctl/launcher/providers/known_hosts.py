"""Whether a host is the one it was: its key against known_hosts files, with the line that says otherwise.

`strict` refuses what no file knows. `pin` remembers the key of a host that no file knows, in a file of dtfctl's own,
and is as strict as `strict` from then on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh

from dtfctl.launcher.providers.base import HostFailed


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a file that is about the host."""

    where: str
    """The file and line: `known_hosts:81`."""
    keys: tuple[asyncssh.SSHKey, ...]
    authorities: tuple[asyncssh.SSHKey, ...]
    revoked: tuple[asyncssh.SSHKey, ...]


class HostKeys:
    """The keys that hosts are expected to have."""

    def __init__(
        self, files: Sequence[Path], rule: Literal["strict", "pin"], pins: Path, remember: bool = True
    ) -> None:
        self._files = [*files, pins]
        self._rule = rule
        self._pins = pins
        self._remember = remember
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[tuple[int, int], list[tuple[int, str]]]] = {}

    def entries(self, host: str, address: str, port: int) -> list[Entry]:
        """Find what the files say about a host, by its name and its address."""
        found = []
        for path in self._files:
            for number, line in self._lines(path):
                if not _may_match(line, host, address):
                    continue
                try:
                    match = asyncssh.import_known_hosts(line).match(host, address, port)
                except ValueError:
                    continue  # a line that OpenSSH would skip as well
                keys, authorities, revoked = (tuple(part) for part in match[:3])
                if keys or authorities or revoked:
                    found.append(Entry(f"{path.name}:{number}", keys, authorities, revoked))
        return found

    def _lines(self, path: Path) -> list[tuple[int, str]]:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return []
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._read.get(path)
        if known is None or known[0] != stamp:
            text = path.read_text(errors="replace")
            lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
            known = self._read[path] = (stamp, lines)
        return known[1]

    def judge(self, entries: Sequence[Entry], name: str, port: int, key: asyncssh.SSHKey) -> HostFailed | None:
        """Say what is wrong with the key that a host has shown; None when it may be trusted."""
        public = key.public_data
        for entry in entries:
            if any(known.public_data == public for known in entry.revoked):
                return HostFailed("host-key", "host key is revoked", "do not connect to this host", entry.where)
        if any(known.public_data == public for entry in entries for known in entry.keys):
            return None
        named = [entry for entry in entries if entry.keys]
        if named:
            return HostFailed(
                "host-key",
                "host key changed",
                "if the host was set up anew, delete that line; if not, somebody may be listening",
                named[0].where,
            )
        if self._rule == "strict":
            return HostFailed(
                "host-key",
                f"host key is not known ({key.get_algorithm()} {key.get_fingerprint()})"
                if not self._files[0].exists()
                else "host key is not known",
                f"log in once with ssh to check it, add it to {self._files[0]}, or set `ssh: {{host_keys: pin}}`",
            )
        if self._remember:
            self._pin(name, port, key)
        return None

    def _pin(self, name: str, port: int, key: asyncssh.SSHKey) -> None:
        shown = name if port == 22 else f"[{name}]:{port}"
        line = f"{shown} {key.export_public_key().decode().strip()}\n"
        with self._lock:
            self._pins.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._pins, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line.encode())
            finally:
                os.close(fd)


def _may_match(line: str, host: str, address: str) -> bool:
    """Tell cheaply whether a line may match: to parse all lines of a long file for a long list would take seconds."""
    head = line.split(None, 1)[0] if line[0] != "@" else line.split(None, 2)[1]
    return head.startswith("|") or any(c in head for c in "*?!") or host in head or (address != "" and address in head)
