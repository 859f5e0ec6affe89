"""Mutual TLS 1.3 with certificates that may be renewed while the process runs.

A process proves itself with three files: the authority's certificate, its own and the key of that. Whoever renews them
writes them anew; the next connection is made with what is there then, and no process has to start again.

A certificate's common name says who its holder is: `ROLE` or `ROLE:NAME`. Of a task it is `task:JOB/INDEX`, and the
certificate is valid for one name, `JOB-INDEX.DOMAIN`, where DOMAIN is the same for all tasks of a cluster.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from dtfctl.values import value

TRIES = 20
TRY_S = 0.01
"""Key and certificate are two files; between the writing of one and the other they do not match."""


@value
class Pem:
    """What the files of an identity hold."""

    ca: bytes
    cert: bytes
    key: bytes


@value
class _Loaded:
    stamp: tuple[tuple[int, int, int], ...]
    pem: Pem
    server: ssl.SSLContext
    client: ssl.SSLContext


class Identity:
    """Who this process is to others; any thread.

    Args:
        ca: the authority of those who are let in, and of those who are called.
        cert, key: of this process.

    Raises:
        OSError, ssl.SSLError: on first use, the files are not there or do not belong together.
    """

    def __init__(self, ca: Path, cert: Path, key: Path) -> None:
        self._files = (ca, cert, key)
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._generation = 0

    def server_context(self) -> ssl.SSLContext:
        """Make a context for the next connection that comes: only who has a certificate of the authority is let in."""
        return self._newest().server

    def client_context(self) -> ssl.SSLContext:
        """Make a context for the next connection that is made."""
        return self._newest().client

    def context_and_certificate(self, server: bool) -> tuple[ssl.SSLContext, bytes]:
        """Make a context for the next connection that comes or is made;
        and give the certificate (DER) that this side shows."""
        newest = self._newest()
        text = newest.pem.cert.decode("ascii")
        first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
        return newest.server if server else newest.client, ssl.PEM_cert_to_DER_cert(first)

    def pem(self) -> Pem:
        """Read the files as they are now."""
        return self._newest().pem

    def generation(self) -> int:
        """Look at the files; the number grows when they were renewed."""
        self._newest()
        return self._generation

    def _newest(self) -> _Loaded:
        with self._lock:
            loaded = self._loaded
            try:
                if loaded is not None and loaded.stamp == self._stamp():
                    return loaded
                self._loaded = loaded = self._load()
                self._generation += 1
            except (OSError, ssl.SSLError):
                # What there was is valid still: a renewal begins long before the end.
                if loaded is None:
                    raise
            return loaded

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        found = [os.stat(path) for path in self._files]
        return tuple((state.st_mtime_ns, state.st_ino, state.st_size) for state in found)

    def _load(self) -> _Loaded:
        for left in reversed(range(TRIES)):
            stamp = self._stamp()
            try:
                contexts = [self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)]
                pem = Pem(*(path.read_bytes() for path in self._files))
                if stamp == self._stamp():
                    return _Loaded(stamp, pem, *contexts)
            except ssl.SSLError:
                if not left:
                    raise
            time.sleep(TRY_S)
        raise ssl.SSLError(f"{self._files[1]} changes all the time")

    def _context(self, protocol: int) -> ssl.SSLContext:
        ca, cert, key = self._files
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca)
        context.load_cert_chain(cert, key)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # connections are kept, not begun again
        return context


def common_name(certificate: Any) -> str:
    """Return the common name in what `getpeercert` gives; empty where there is none."""
    subject: Any = (certificate or {}).get("subject", ())
    return next((str(text) for part in subject for key, text in part if key == "commonName"), "")


def role_and_name(common: str) -> tuple[str, str]:
    """Split `ROLE:NAME`, or `ROLE`, whose name is empty."""
    role, _, name = common.partition(":")
    return role, name


def task_host(job: str, index: int, domain: str) -> str:
    """Return the name that a task's certificate is valid for."""
    return f"{job}-{index}.{domain}"
