"""What a stranger can try at a port, and which ports there are."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dtfctl.launcher.identity.certificates import TlsFiles

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PAGE = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Port:
    pid: int
    command: str
    address: str
    number: int


def listening_ports(pids: list[int]) -> list[Port]:
    """Every TCP port at which these processes listen, each in the network that it is in."""
    sockets: dict[str, int] = {}
    networks: dict[str, int] = {}
    for pid in pids:
        networks[os.readlink(f"/proc/{pid}/ns/net")] = pid
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(fd)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets[target[8:-1]] = pid
    found = []
    for table in [f"/proc/{pid}/net/{name}" for pid in networks.values() for name in ("tcp", "tcp6")]:
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                address, _, number = fields[1].partition(":")
                pid = sockets[fields[9]]
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(Port(pid, command, address, int(number, 16)))
    return found


def make_expired(folder: Path, authority: Path, name: str) -> TlsFiles:
    """A certificate of the cluster's own authority whose time is over."""
    issuer_key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now - datetime.timedelta(hours=1))
        .sign(issuer_key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles.of(folder, "expired")
    files.ca.write_bytes((authority / "ca.pem").read_bytes())
    files.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def is_answered(port: int, files: TlsFiles | None, hello: bytes) -> bool:
    """Whether a server says anything to who greets it over TLS with this certificate, or without one."""
    return greet(port, files, hello) == "answered"


def greet(
    port: int, files: TlsFiles | None, hello: bytes, address: str = "127.0.0.1"
) -> Literal["answered", "closed", "refused"]:
    """What comes of it; `closed`: TLS was agreed on, and then the server hung up without a word."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # a stranger does not care who he talks to
    context.set_alpn_protocols(["h2"] if hello is PREFACE else ["http/1.1"])
    if files is not None:
        context.load_cert_chain(files.cert, files.key)
    try:
        with (
            socket.create_connection((address, port), PATIENCE_S) as raw,
            context.wrap_socket(raw, server_hostname="x") as secure,
        ):
            secure.sendall(hello)
            return "answered" if secure.recv(4096) else "closed"
    except (ssl.SSLError, ConnectionError):
        return "refused"


def plain_answer(port: int, hello: bytes) -> bytes:
    """What a server says to plain text; a TLS alert is a refusal, and nothing."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as raw:
        try:
            raw.sendall(hello)
            answer = raw.recv(4096)
        except ConnectionError:
            return b""
    return b"" if answer[:1] == b"\x15" else answer
