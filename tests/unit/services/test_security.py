"""Who may connect: tasks by certificate, this user by socket."""

from __future__ import annotations

import ssl
import stat
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from dtfctl.launcher.identity import certificates
from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from dtfctl.protocol import config_pb2, worker_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.framework.errors import DeadlineExceededError, InvalidArgumentError, OpError
from dtfctl.runtime.services.proxy import MasterProxy
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig, TlsFiles
from tests.support.ports import free_ports
from tests.support.strangers import answer_at_shared_port, needs_second_user, own_answer
from tests.unit.services.graphs import mul_graph, waiting_graph

ONE = np.float32(1.0).reshape(())
STATUS = "/dtf.WorkerService/GetStatus"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    folder = tmp_path / "tls"
    ensure_authority(folder, "c")
    return folder


def make_server(
    authority: Path, cluster: dict[str, dict[int, str]], job: str, folder: Path, peer_timeout_s: float = 10.0
) -> TaskServer:
    files = ensure_certificate(authority, "c", "task", f"{job}/0")
    return TaskServer(
        TaskServerConfig(
            cluster=cluster,
            job_name=job,
            task_index=0,
            incarnation=1,
            listen=cluster[job][0],
            socket_path=folder / f"{job}.sock",
            tls=TlsFiles(files.ca, files.cert, files.key),
            peer_timeout_s=peer_timeout_s,
        )
    )


@pytest.fixture
def two_tasks(authority: Path, tmp_path: Path):  # type: ignore[no-untyped-def]
    ports = free_ports(2)
    cluster = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {0: f"127.0.0.1:{ports[1]}"}}
    servers = [make_server(authority, cluster, job, tmp_path) for job in cluster]
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.stop(0)


def test_a_step_over_tasks_with_certificates_through_the_socket(two_tasks: list[TaskServer]) -> None:
    path = two_tasks[1].config.socket_path
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    backend = GrpcBackend(f"unix:{path}", config_pb2.ConfigProto())
    backend.create(mul_graph("/job:ps/task:0"))
    assert backend.run({"a:0": ONE * 2, "b:0": ONE * 3}, ["y:0"], []) == [6.0]
    assert len(backend.list_devices()) == 2
    backend.close()
    two_tasks[1].stop(0)
    assert not path.exists()


def test_the_socket_offers_nothing_meant_for_tasks(two_tasks: list[TaskServer]) -> None:
    path = two_tasks[1].config.socket_path
    with grpc.insecure_channel(f"unix:{path}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(STATUS)(b"", timeout=60.0)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]


def test_plaintext_and_strangers_are_refused(two_tasks: list[TaskServer], tmp_path: Path) -> None:
    address = two_tasks[0].config.listen
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(STATUS)(b"", timeout=60.0)
    other = tmp_path / "other"
    ensure_authority(other, "c")
    files = ensure_certificate(other, "c", "task", "evil/0")
    assert refused(two_tasks[0], files.cert, files.key) is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_of_another_role_does_not_admit_to_the_worker(
    two_tasks: list[TaskServer], authority: Path
) -> None:
    files = ensure_certificate(authority, "c", "cli")
    assert refused(two_tasks[0], files.cert, files.key) is grpc.StatusCode.PERMISSION_DENIED
    task = ensure_certificate(authority, "c", "task", "ps/0")
    assert refused(two_tasks[0], task.cert, task.key) is None


def refused(server: TaskServer, cert: Path, key: Path) -> grpc.StatusCode | None:
    """The status of a request to the worker with that certificate; None when it is answered."""
    tls = server.config.tls
    assert tls is not None
    credentials = grpc.ssl_channel_credentials(tls.ca.read_bytes(), key.read_bytes(), cert.read_bytes())
    options = (("grpc.ssl_target_name_override", "ps-0.task.c.dtfctl"),)
    with grpc.secure_channel(server.config.listen, credentials, options) as channel:
        try:
            answer = channel.unary_unary(STATUS)(b"", timeout=60.0)
        except grpc.RpcError as e:
            return e.code()  # type: ignore[attr-defined, no-any-return]
    assert worker_pb2.TaskStatus.FromString(answer).task == "/job:ps/replica:0/task:0"
    return None


def call_as(server: TaskServer, files: certificates.TlsFiles, method: str, request: Any) -> grpc.StatusCode | None:
    """The status of a request to the worker by the holder of a certificate; None when it is answered."""
    pem = files.identity().pem()
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)
    options = (("grpc.ssl_target_name_override", "ps-0.task.c.dtfctl"),)
    with grpc.secure_channel(server.config.listen, credentials, options) as channel:
        try:
            channel.unary_unary(f"/dtf.WorkerService/{method}")(request.SerializeToString(), timeout=60.0)
        except grpc.RpcError as e:
            return e.code()  # type: ignore[attr-defined, no-any-return]
    return None


def test_a_task_cannot_speak_for_another(two_tasks: list[TaskServer], authority: Path) -> None:
    ps, _ = two_tasks
    worker, other = (ensure_certificate(authority, "c", "task", name) for name in ("worker/0", "worker/1"))
    link = worker_pb2.OpenLinkRequest(task="/job:worker/replica:0/task:0", incarnation=1, to_incarnation=1)
    session = worker_pb2.CreateWorkerSessionRequest(
        session="s", master_task="/job:worker/replica:0/task:0", master_incarnation=1, incarnation=1
    )
    for method, request in (("OpenLink", link), ("CreateSession", session)):
        assert call_as(ps, other, method, request) is grpc.StatusCode.PERMISSION_DENIED
        assert call_as(ps, worker, method, request) is None


@pytest.mark.slow
def test_nobody_takes_the_place_of_another_task(authority: Path, tmp_path: Path) -> None:
    """A task that listens where another should be is not talked to, though the authority knows it."""
    ports = free_ports(2)
    cluster = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {0: f"127.0.0.1:{ports[1]}"}}
    honest = ensure_certificate(authority, "c", "task", "ps/0")
    stolen = ensure_certificate(authority, "c", "task", "worker/1")
    for of_ps, of_other in ((honest.cert, stolen.cert), (honest.key, stolen.key)):
        of_ps.write_bytes(of_other.read_bytes())
    ps, worker = (make_server(authority, cluster, job, tmp_path, peer_timeout_s=2.0) for job in cluster)
    ps.start()
    worker.start()
    try:
        backend = GrpcBackend(f"unix:{worker.config.socket_path}", config_pb2.ConfigProto())
        with pytest.raises(OpError, match="/job:ps"):
            backend.create(mul_graph("/job:ps/task:0"))
            backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], [])
    finally:
        worker.stop(0)
        ps.stop(0)


def test_a_certificate_is_renewed_under_running_steps(two_tasks: list[TaskServer], authority: Path) -> None:
    ps, worker = two_tasks
    backend = GrpcBackend(f"unix:{worker.config.socket_path}", config_pb2.ConfigProto())
    backend.create(mul_graph("/job:ps/task:0"))

    def step() -> None:
        assert backend.run({"a:0": ONE * 2, "b:0": ONE * 3}, ["y:0"], []) == [6.0]

    step()
    before = shown_by(ps)
    certificates.renew_authority(authority)
    for name in ("ps/0", "worker/0"):
        certificates.renew_certificate(authority, "c", "task", name)
    step()
    assert shown_by(ps) != before
    for server in two_tasks:
        server._peers.renew_channels()
    step()
    assert worker._peers.status("/job:ps/replica:0/task:0", 60.0).result().incarnation == 1
    again = GrpcBackend(f"unix:{worker.config.socket_path}", config_pb2.ConfigProto())
    again.create(mul_graph("/job:ps/task:0"))
    assert again.run({"a:0": ONE * 2, "b:0": ONE * 4}, ["y:0"], []) == [8.0]
    again.close()
    step()
    backend.close()


def shown_by(server: TaskServer) -> str:
    """The certificate that a server shows to who comes now."""
    host, _, port = server.config.listen.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_taken_addresses_are_named(two_tasks: list[TaskServer], authority: Path, tmp_path: Path) -> None:
    cluster = two_tasks[0].config.cluster
    (tmp_path / "again").mkdir()
    again = make_server(authority, cluster, "ps", tmp_path / "again")
    with pytest.raises(OSError, match=cluster["ps"][0]):
        again.start()


def test_a_socket_left_by_a_dead_task_is_replaced_a_live_one_is_not(
    two_tasks: list[TaskServer], authority: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    cluster = {"worker": {0: f"127.0.0.1:{port}"}}
    third = make_server(authority, cluster, "worker", tmp_path)
    with pytest.raises(OSError, match=r"worker\.sock"):
        third.start()
    third.stop(0)
    assert (tmp_path / "worker.sock").exists()
    folder = tmp_path / "dead"
    folder.mkdir()
    (folder / "worker.sock").touch()
    fourth = make_server(authority, {"worker": {0: f"127.0.0.1:{free_ports(1)[0]}"}}, "worker", folder)
    fourth.start()
    fourth.stop(0)


def test_a_plaintext_port_is_opened_only_when_asked_for(two_tasks: list[TaskServer]) -> None:
    port = two_tasks[1].listen_plaintext()
    backend = GrpcBackend(f"127.0.0.1:{port}", config_pb2.ConfigProto())
    backend.create(mul_graph("/job:ps/task:0"))
    assert backend.run({"a:0": ONE * 2, "b:0": ONE * 5}, ["y:0"], []) == [10.0]
    backend.close()


def test_a_proxy_leads_plaintext_clients_to_a_master_with_certificates(
    two_tasks: list[TaskServer], authority: Path
) -> None:
    files = ensure_certificate(authority, "c", "cli")
    proxy = MasterProxy(two_tasks[1].config.listen, files.identity(), "worker-0.task.c.dtfctl")
    address = f"127.0.0.1:{proxy.start()}"
    backend = GrpcBackend(address, config_pb2.ConfigProto())
    backend.create(mul_graph("/job:ps/task:0"))
    assert backend.run({"a:0": ONE * 2, "b:0": ONE * 5}, ["y:0"], []) == [10.0]
    with pytest.raises(InvalidArgumentError, match="You must feed a value for placeholder tensor 'b'"):
        backend.run({"a:0": ONE}, ["y:0"], [])
    backend.close()
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(STATUS)(b"", timeout=60.0)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
    proxy.stop()


def test_a_step_given_up_behind_the_proxy_is_cancelled(two_tasks: list[TaskServer], authority: Path) -> None:
    files = ensure_certificate(authority, "c", "cli")
    proxy = MasterProxy(two_tasks[1].config.listen, files.identity(), "worker-0.task.c.dtfctl")
    backend = GrpcBackend(f"127.0.0.1:{proxy.start()}", config_pb2.ConfigProto())
    backend.create(waiting_graph("/job:ps/task:0"))
    with pytest.raises(DeadlineExceededError):
        backend.run({}, ["x:0"], [], config_pb2.RunOptions(timeout_in_ms=300))
    deadline = time.monotonic() + 60.0
    while any(server.worker.open_steps for server in two_tasks):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    backend.close()
    proxy.stop()


@pytest.mark.slow
@needs_second_user
def test_ports_without_certificates_serve_this_user_alone(two_tasks: list[TaskServer], authority: Path) -> None:
    """From a local port, too, that a process of this user has towards somewhere else."""
    files = ensure_certificate(authority, "c", "cli")
    proxy = MasterProxy(two_tasks[1].config.listen, files.identity(), "worker-0.task.c.dtfctl")
    (port,) = free_ports(1)
    alone = TaskServer(
        TaskServerConfig(
            {"worker": {0: f"127.0.0.1:{port}"}}, "worker", 0, 1, f"127.0.0.1:{port}", None, None, authority
        )
    )
    alone.start()
    try:
        for target in (proxy.start(), two_tasks[1].listen_plaintext(), port):
            for _ in range(5):
                assert answer_at_shared_port(target) == "closed"
                assert own_answer(target)
    finally:
        alone.stop(0)
        proxy.stop()
