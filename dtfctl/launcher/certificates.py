"""A certificate authority for each cluster, and one certificate for each process.

A certificate's common name is `ROLE` or `ROLE:NAME`; the role decides what its holder may ask for (`rpc.py`). Every
certificate is valid for the server name `ROLE.CLUSTER.dtfctl` and for loopback, as server and as client.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from dtfctl.launcher.files import private_folder, write_whole
from dtfctl.values import value

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

Role: TypeAlias = Literal["controller", "agent", "cli", "task", "metrics"]

LIFETIME_DAYS = 825
BACKDATED_HOURS = 24
"""Hosts' clocks differ; a certificate made now must be valid on one that is behind."""


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


def server_name(role: Role, cluster: str) -> str:
    return f"{role}.{cluster}.dtfctl"


def ensure_authority(folder: Path, cluster: str) -> None:
    """Make the cluster's authority unless it is there."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    private_folder(folder)
    if (folder / "ca.pem").exists() and (folder / "ca.key").exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"authority of cluster {cluster}")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _save(folder / "ca.key", folder / "ca.pem", key, certificate)


def ensure_certificate(folder: Path, cluster: str, role: Role, name: str = "", hosts: tuple[str, ...] = ()) -> TlsFiles:
    """The certificate of one process, made by the cluster's authority unless it is there.

    `hosts`: addresses beside loopback under which the process is reached.
    """
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    files = TlsFiles.of(folder, f"{role}-{name.replace('/', '-')}" if name else role)
    if files.exist:
        return files
    authority_key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    authority = x509.load_pem_x509_certificate(files.ca.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [
        x509.DNSName(server_name(role, cluster)),
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    certificate = (
        _builder(_name(f"{role}:{name}" if name else role), authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    _save(files.key, files.cert, key, certificate)
    return files


def expiry(certificate: Path) -> float:
    """When a PEM certificate ends to be valid, in seconds since the epoch."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
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
        .not_valid_after(now + datetime.timedelta(days=LIFETIME_DAYS))
    )


def _save(key_path: Path, cert_path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    from cryptography.hazmat.primitives import serialization

    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_whole(key_path, private)
    write_whole(cert_path, certificate.public_bytes(serialization.Encoding.PEM))
