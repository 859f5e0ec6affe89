"""Certificates: when they are renewed, what a host accepts; who reads them meanwhile never sees half of them."""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from dtfctl.launcher.controller.hosts.certify import due_names
from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.identity import certificates
from dtfctl.launcher.identity.certificates import Authority, ensure_authority, ensure_certificate, expiry, is_due
from dtfctl.launcher.identity.keyring import Keyring

DAY_S = 86400.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "certificates"
    ensure_authority(made, "c")
    return made


def names_in(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.DNSName)


def test_a_tasks_certificate_is_valid_for_that_task_alone(folder: Path) -> None:
    files = ensure_certificate(folder, "c", "task", "worker/1")
    assert names_in(files.cert) == ["worker-1.task.c.dtfctl"]
    assert files.cert.name == "task-worker-1.pem"


def test_the_end_stands_in_the_file_and_in_the_certificate(folder: Path) -> None:
    files = ensure_certificate(folder, "c", "cli", lifetime_s=5 * DAY_S)
    certificate = x509.load_pem_x509_certificate(files.cert.read_bytes())
    assert expiry(files.cert) == certificate.not_valid_after_utc.timestamp()
    assert abs(expiry(files.cert) - time.time() - 5 * DAY_S) < 60
    # One that an earlier version made says it only in the certificate.
    files.cert.write_bytes(files.cert.read_bytes().partition(b"\n")[2])
    assert expiry(files.cert) == certificate.not_valid_after_utc.timestamp()


def test_a_third_of_the_lifetime_is_left_when_one_is_renewed() -> None:
    assert not is_due(until=100.0, now=66.0, lifetime_s=99.0)
    assert is_due(until=100.0, now=68.0, lifetime_s=99.0)
    assert is_due(until=1000.0, now=0.0, lifetime_s=99.0)  # made when more was allowed
    held = {"agent-a": 80.0, "task-ps-0": 20.0}
    assert due_names(held, ["agent-a", "task-ps-0", "task-worker-0"], 0.0, 90.0) == ["task-ps-0", "task-worker-0"]


def test_one_that_has_ended_is_made_anew(folder: Path) -> None:
    files = ensure_certificate(folder, "c", "agent", "a", lifetime_s=-5.0)
    assert expiry(files.cert) < time.time()
    ensure_certificate(folder, "c", "agent", "a")
    assert expiry(files.cert) > time.time()


def test_what_an_authority_signed_stays_valid_when_its_own_certificate_is_renewed(folder: Path, tmp_path: Path) -> None:
    old = ensure_certificate(folder, "c", "task", "ps/0").cert.read_bytes()
    before, name = (folder / "ca.pem").read_bytes(), certificates.authority_name(folder)
    certificates.renew_authority(folder)
    after = (folder / "ca.pem").read_bytes()
    assert after != before
    assert certificates.authority_name(folder) == name
    x509.load_pem_x509_certificate(old).verify_directly_issued_by(x509.load_pem_x509_certificate(after))
    new = Authority(folder, "c").issue("task", "ps/1").cert
    x509.load_pem_x509_certificate(new).verify_directly_issued_by(x509.load_pem_x509_certificate(before))


def test_who_reads_while_it_is_renewed_sees_the_old_or_the_new_one(folder: Path) -> None:
    files = ensure_certificate(folder, "c", "task", "ps/0")
    identity = files.identity()
    identity.pem()
    stop = threading.Event()

    def renew() -> None:
        while not stop.is_set():
            certificates.renew_certificate(folder, "c", "task", "ps/0")

    writer = threading.Thread(target=renew)
    writer.start()
    try:
        deadline = time.monotonic() + 60.0
        while identity.generation() < 20 and time.monotonic() < deadline:
            pem = identity.pem()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            both = folder / "both.pem"
            both.write_bytes(pem.key + pem.cert)
            context.load_cert_chain(both)  # raises where they do not belong together
    finally:
        stop.set()
        writer.join()
    assert identity.generation() >= 20


def test_what_is_broken_on_the_disk_does_not_end_who_has_read_it(folder: Path) -> None:
    files = ensure_certificate(folder, "c", "task", "ps/0")
    identity = files.identity()
    context = identity.server_context()
    files.cert.unlink()
    assert identity.server_context() is context
    with pytest.raises(OSError):
        files.identity().server_context()


def test_a_host_takes_certificates_of_its_own_processes_only(folder: Path, tmp_path: Path) -> None:
    authority = Authority(folder, "c")
    shared, own = tmp_path / "shared", tmp_path / "host"
    shared.mkdir()
    keyring = Keyring("a", shared, own)
    issued = [authority.issue("agent", "a"), authority.issue("task", "ps/0"), authority.issue("task", "worker/1")]
    keyring.take(authority.pem, issued, ["ps/0", "worker/1"])
    assert keyring.held().keys() == {"ca", "agent-a", "task-ps-0", "task-worker-1"}
    assert keyring.of_task("worker/1").exist
    assert {path.stat().st_mode & 0o777 for path in own.rglob("*.key")} == {0o600}
    keyring.take(authority.pem, [], ["ps/0"])  # worker/1 has moved away
    assert keyring.held().keys() == {"ca", "agent-a", "task-ps-0"}
    for wrong in ("controller", "agent-b", "task-../../x-1", "task-a-1/../ca"):
        bad = certificates.Issued(wrong, issued[0].cert, issued[0].key, 0.0)
        with pytest.raises(UsageError):
            keyring.take(authority.pem, [bad], ["ps/0"])
    assert sorted(path.name for path in shared.iterdir()) == ["agent-a.key", "agent-a.pem", "ca.pem"]
