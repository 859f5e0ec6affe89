"""Every port of a cluster refuses strangers, and every role may do only its own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import InternalError, LauncherError, OtherVersion
from dtfctl.launcher.identity.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.messages import agent_calls as agent_methods, controller_calls
from dtfctl.launcher.messages.agent import ReadLogsRequest
from dtfctl.launcher.messages.controller import ApplyRequest, Nothing, SubmitRequest
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.method import PeerUnavailable
from tests.cluster.conftest import processes_of

Up = Callable[..., Cluster]


def endpoints(cluster: Cluster) -> tuple[str, str]:
    status = cluster.status()
    return status.controller.address, status.hosts[0].agent_address


def ask(address: str, tls: TlsFiles, role: str = "controller") -> None:
    """The most harmless call of that server, as the holder of `tls`."""
    channel = Channel(address, tls, "controller" if role == "controller" else "agent", "t")
    try:
        if role == "controller":
            channel.call(controller_calls.PING, Nothing(), timeout_s=5.0)
        else:
            channel.call(agent_methods.READ_LOGS, ReadLogsRequest(), timeout_s=5.0)
    finally:
        channel.close()


def test_the_right_certificates_are_let_in(up: Up) -> None:
    controller, agent = endpoints(up())
    folder = ClusterPaths.of("t").certificates
    ask(controller, TlsFiles.of(folder, "cli"))
    ask(agent, TlsFiles.of(folder, "controller"), "agent")


def test_a_task_or_an_agent_may_not_command_the_controller_nor_the_user_an_agent(up: Up) -> None:
    controller, agent = endpoints(up())
    folder = ClusterPaths.of("t").certificates
    task = TlsFiles.of(ClusterPaths.of("t").host("localhost") / "certificates", "task-worker-0")
    for files in (task, TlsFiles.of(folder, "agent-localhost"), TlsFiles.of(folder, "controller")):
        with pytest.raises(InternalError, match="may not call"):
            ask(controller, files)
    for files in (task, TlsFiles.of(folder, "cli")):
        with pytest.raises(InternalError, match="may not call"):
            ask(agent, files, "agent")


def test_a_certificate_of_another_authority_is_refused(up: Up, tmp_path: Path) -> None:
    controller, agent = endpoints(up())
    ours = ClusterPaths.of("t").certificates
    ensure_authority(tmp_path / "other", "t")
    forged = ensure_certificate(tmp_path / "other", "t", "cli")
    for address, role in ((controller, "controller"), (agent, "agent")):
        with pytest.raises(PeerUnavailable):
            ask(address, TlsFiles(ours / "ca.pem", forged.cert, forged.key), role)


def greet_without_certificate(host: str, port: int, context: ssl.SSLContext) -> None:
    """Raises what the server's refusal looks like; TLS 1.3 reports a missing certificate with the first read."""
    raw = socket.create_connection((host, port), 5)
    with raw, context.wrap_socket(raw, server_hostname="localhost") as stranger:
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert stranger.recv(1000) == b"", "a stranger was answered"
        raise ssl.SSLError("closed without a word")


def test_no_certificate_and_plain_text_are_refused(up: Up) -> None:
    folder = ClusterPaths.of("t").certificates
    for address in endpoints(up()):
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.set_alpn_protocols(["h2"])
        with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
            greet_without_certificate(host, int(port), context)
        with socket.create_connection((host, int(port)), 5) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.settimeout(5)
            try:
                answer = plain.recv(1000)
            except ConnectionResetError:
                answer = b""
            assert b"HTTP/1.1 200" not in answer


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def test_nothing_listens_beyond_loopback(up: Up) -> None:
    status = up().status()
    rows = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
    ]
    for address in (status.controller.address, status.hosts[0].agent_address):
        port = int(address.rpartition(":")[2])
        local = {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
        assert local
        assert local <= LOOPBACK


def test_no_secret_is_in_a_command_line(up: Up, home: Path) -> None:
    up()
    for line in processes_of(home):
        assert "PRIVATE" not in line
        assert ".key" not in line


def test_a_damaged_message_does_not_hurt_the_controller(up: Up) -> None:
    cluster = up()
    controller, _ = endpoints(cluster)
    channel = Channel(controller, TlsFiles.of(ClusterPaths.of("t").certificates, "cli"), "controller", "t")
    with pytest.raises(OtherVersion, match=r"ApplyRequest\.spec: expected the fields of ClusterSpec, got 'x'"):
        channel.call(controller_calls.APPLY, ApplyRequest("x"), timeout_s=5.0)  # type: ignore[arg-type]
    with pytest.raises(LauncherError):
        channel.call(controller_calls.SUBMIT, SubmitRequest(JobRequest("x.py"), sha256="0"), timeout_s=5.0)
    channel.close()
    assert cluster.status().healthy
