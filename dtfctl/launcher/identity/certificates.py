"""A certificate authority for each cluster, and one certificate for each process.

A certificate's common name is `ROLE` or `ROLE:NAME`; the role decides what its holder may ask for (`rpc/method.py`),
the name which host's agent or which task it is. A certificate begins with a line that says when it ends, so that
whoever looks at the clock need not parse it.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.net.tls import Identity, task_host
from dtfctl.values import value

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

Role: TypeAlias = Literal["controller", "agent", "cli", "task", "metrics", "serve", "serve-client"]

DAY_S = 86400.0
LIFETIME_S = 825 * DAY_S
AUTHORITY_LIFETIME_S = 10 * 365 * DAY_S
BACKDATED_HOURS = 24
"""Hosts' clocks differ; a certificate made now must be valid on one that is behind."""
FORMER = "former.pem"
"""Authorities from which the cluster was taken over: its tasks still trust them."""
SLACK_S = 60.0
RENEW_AT = 1 / 3
"""The part of its lifetime that a certificate has left when it is renewed."""
_MARK = "valid until {until:.0f}, made for {lifetime:.0f} seconds"
_KEY = re.compile(rb"key ([0-9a-f]{32})\n")
_MARKED = re.compile(rb"valid until (\d+), made for (\d+) seconds\n")


@value
class TlsFiles:
    """PEM files of one process."""

    ca: Path
    cert: Path
    key: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> TlsFiles:
        return cls(ca=folder / "ca.pem", cert=folder / f"{name}.pem", key=folder / f"{name}.key")

    @property
    def exist(self) -> bool:
        return self.ca.exists() and self.cert.exists() and self.key.exists()

    def identity(self) -> Identity:
        """Say what to speak TLS with."""
        return Identity(self.ca, self.cert, self.key)


def trusted_of_tasks(folder: Path) -> Path:
    """Find the file of tasks' authorities: after an adoption, running tasks keep certificates of the former one."""
    own, former = folder / "ca.pem", folder / FORMER
    text = former.read_bytes() if former.exists() else b""
    if not text:
        return own
    both = folder / "tasks-ca.pem"
    write_whole(both, own.read_bytes() + text)
    return both


@value
class Issued:
    """A new certificate, as text."""

    name: str
    """The name of the certificate's files, without suffix."""
    cert: bytes
    key: bytes
    until: float
    """The end of the certificate, in seconds since the epoch."""

    def save(self, folder: Path) -> None:
        """Write it to `folder`. Its reader may come in between, and then reads again (`net.tls.Identity`)."""
        write_whole(folder / f"{self.name}.key", self.key)
        write_whole(folder / f"{self.name}.pem", self.cert)


def server_name(role: Role, cluster: str, name: str = "") -> str:
    """Name what a certificate of that role is valid for; of a task, its own name in the cluster's domain."""
    domain = f"{role}.{cluster}.dtfctl"
    if role != "task" or not name:
        return domain
    job, _, index = name.partition("/")
    return task_host(job, int(index), domain)


def file_name(role: Role, name: str = "") -> str:
    """Name a certificate's files, without suffix."""
    return f"{role}-{name.replace('/', '-')}" if name else role


class Authority:
    """The cluster's authority, whose key is in `folder`; reading it takes a moment."""

    def __init__(self, folder: Path, cluster: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self._cluster = cluster
        self.pem = (folder / "ca.pem").read_bytes()
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._subject = x509.load_pem_x509_certificate(self.pem).subject

    def issue(self, role: Role, name: str = "", hosts: tuple[str, ...] = (), lifetime_s: float = LIFETIME_S) -> Issued:
        """Make a new key and a certificate for it.

        Args:
            hosts: addresses beside loopback under which the process is reached.
        """
        import ipaddress

        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        names: list[x509.GeneralName] = [x509.DNSName(server_name(role, self._cluster, name))]
        if role != "task":
            names += [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        for host in hosts:
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(f"{role}:{name}" if name else role), self._subject, key.public_key(), lifetime_s)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        until = certificate.not_valid_after_utc.timestamp()
        return Issued(file_name(role, name), _certificate_pem(certificate, lifetime_s), _key_pem(key), until)


def ensure_authority(folder: Path, cluster: str) -> None:
    """Make the cluster's authority unless it is there."""
    import secrets

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private_folder(folder)
    if (folder / "ca.pem").exists() and (folder / "ca.key").exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    write_whole(folder / "ca.key", _key_pem(key))
    # Where two are trusted, the one that has signed is found by its name.
    number = x509.NameAttribute(NameOID.SERIAL_NUMBER, secrets.token_hex(8))
    name = x509.Name([*_name(f"authority of cluster {cluster}"), number])
    write_whole(folder / "ca.pem", _authority_pem(name, key))


def renew_authority(folder: Path) -> None:
    """Give the authority's key a certificate that ends later. What it has signed before stays valid."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    with _locked(folder):
        subject = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()).subject
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        write_whole(folder / "ca.pem", _authority_pem(subject, key))


def ensure_certificate(
    folder: Path,
    cluster: str,
    role: Role,
    name: str = "",
    hosts: tuple[str, ...] = (),
    lifetime_s: float = LIFETIME_S,
) -> TlsFiles:
    """Give one process its certificate; the authority in `folder` makes it unless it is there and lasts."""
    files = TlsFiles.of(folder, file_name(role, name))
    if not files.exist or _ends_soon(files.cert):
        renew_certificate(folder, cluster, role, name, hosts, lifetime_s)
    return files


def renew_certificate(
    folder: Path,
    cluster: str,
    role: Role,
    name: str = "",
    hosts: tuple[str, ...] = (),
    lifetime_s: float = LIFETIME_S,
) -> None:
    """Put a new certificate in the place of that which there is."""
    with _locked(folder):
        Authority(folder, cluster).issue(role, name, hosts, lifetime_s).save(folder)


def is_due(until: float, now: float, lifetime_s: float) -> bool:
    """Tell whether a certificate that ends at `until` is to be replaced: it ends soon, or later than any may now."""
    return not lifetime_s * RENEW_AT <= until - now <= lifetime_s + SLACK_S


def expiry(certificate: Path) -> float:
    """Read when a PEM certificate ends to be valid, in seconds since the epoch."""
    return _times(certificate)[0]


def renew_if_due(folder: Path, cluster: str, role: Role) -> None:
    """Renew one that is there for as long a time as it was made for, where this machine has the authority's key."""
    path = folder / f"{file_name(role)}.pem"
    if _ends_soon(path) and (folder / "ca.key").exists():
        renew_certificate(folder, cluster, role, lifetime_s=_times(path)[1])


def _ends_soon(certificate: Path) -> bool:
    until, lifetime_s = _times(certificate)
    return is_due(until, time.time(), lifetime_s)


def authority_name(folder: Path) -> str:
    """Name the authority in `folder` by its key, which stays when its certificate is renewed."""
    data = (folder / "ca.pem").read_bytes()
    if marked := _KEY.search(data.partition(b"-----BEGIN")[0]):
        return marked[1].decode()
    from cryptography import x509

    return _key_name(x509.load_pem_x509_certificate(data).public_key())


def _key_name(key: Any) -> str:
    import hashlib

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:32]


def _times(certificate: Path) -> tuple[float, float]:
    """Read when a certificate ends, in seconds since the epoch, and how many seconds it is valid in all."""
    data = certificate.read_bytes()
    if marked := _MARKED.match(data):
        return float(marked[1]), float(marked[2])
    from cryptography import x509

    return x509.load_pem_x509_certificate(data).not_valid_after_utc.timestamp(), LIFETIME_S


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one writer in at a time: a key and a certificate of two writers would not belong together."""
    fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _authority_pem(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key.public_key(), AUTHORITY_LIFETIME_S)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    mark, _, rest = _certificate_pem(certificate, AUTHORITY_LIFETIME_S).partition(b"\n")
    return b"\n".join([mark, f"key {_key_name(key.public_key())}".encode(), rest])


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime_s: float
) -> x509.CertificateBuilder:
    import datetime

    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=BACKDATED_HOURS))
        .not_valid_after(now + datetime.timedelta(seconds=lifetime_s))
    )


def _certificate_pem(certificate: x509.Certificate, lifetime_s: float) -> bytes:
    from cryptography.hazmat.primitives import serialization

    until = certificate.not_valid_after_utc.timestamp()
    return f"{_MARK.format(until=until, lifetime=lifetime_s)}\n".encode() + certificate.public_bytes(
        serialization.Encoding.PEM
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
