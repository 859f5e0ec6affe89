"""Tasks that reach each other through UCX: who may, when it is chosen, and what is said where it is not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from dtfctl.net import ucx
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.framework.errors import UnauthenticatedError
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined, TaskTls, connect_tcp
from dtfctl.runtime.rendezvous.transports.joined_link import link_over
from dtfctl.runtime.rendezvous.transports.ucx_stream import UcxStream
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig, TlsFiles
from tests.support.ports import free_ports
from tests.support.ucx import OVER_UCX, use_ucx
from tests.unit.services.graphs import GraphBuilder
from tests.unit.services.link_owner import BOUND_S, Owner


@contextmanager
def two_tasks(folder: Path, transport: str) -> Iterator[list[TaskServer]]:
    ensure_authority(folder / "tls", "c")
    ports = free_ports(2)
    cluster = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {0: f"127.0.0.1:{ports[1]}"}}
    servers = []
    for job in cluster:
        files = ensure_certificate(folder / "tls", "c", "task", f"{job}/0")
        config = TaskServerConfig(
            cluster=cluster,
            job_name=job,
            task_index=0,
            incarnation=1,
            listen=cluster[job][0],
            socket_path=folder / f"{job}.sock",
            tls=TlsFiles(files.ca, files.cert, files.key),
            transport=transport,
        )
        servers.append(TaskServer(config))
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop(0)


def run_steps(servers: list[TaskServer], count: int) -> GrpcBackend:
    """Move numbers from a queue of the worker to one of the ps."""
    worker, ps = "/job:worker/task:0", "/job:ps/task:0"
    g = GraphBuilder()
    g.queue("here", worker)
    g.queue("there", ps)
    g.const("one", 1.0, worker)
    g.enqueue("put", "here", "one", worker)
    g.dequeue("x", "here", worker)
    g.enqueue("move", "there", "x", ps)
    g.dequeue("y", "there", ps)
    backend = GrpcBackend(f"unix:{servers[1].config.socket_path}", config_pb2.ConfigProto())
    backend.create(g.graph)
    for _ in range(count):
        backend.run({}, [], ["put"])
        backend.run({}, [], ["move"])
        assert backend.run({}, ["y:0"], []) == [1.0]
    return backend


@pytest.mark.parametrize("kind", OVER_UCX)
def test_a_step_goes_through_ucx(kind: str, tmp_path: Path) -> None:
    use_ucx(kind)
    with two_tasks(tmp_path, "ucx") as servers:
        backend = run_steps(servers, 20)
        assert set(servers[1].transports().values()) == {"ucx"}
        backend.close()


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_it_is_not_chosen_where_there_is_no_rdma(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UCX is there and could use TCP; the other task is said to be on another host."""
    use_ucx(kind)
    monkeypatch.setattr("dtfctl.runtime.services.links.this_place", lambda: "elsewhere")
    with two_tasks(tmp_path, "auto") as servers:
        backend = run_steps(servers, 1)
        assert set(servers[1].transports().values()) == {"tcp"}
        backend.close()


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_it_is_chosen_where_both_ends_find_rdma(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_ucx(kind)
    monkeypatch.setattr("dtfctl.runtime.services.links.this_place", lambda: "elsewhere")
    monkeypatch.setattr(ucx, "finds_rdma", lambda: True)
    with two_tasks(tmp_path, "auto") as servers:
        backend = run_steps(servers, 1)
        assert set(servers[1].transports().values()) == {"ucx"}
        backend.close()


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_a_host_where_ucx_makes_no_worker_is_reached_without_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_ucx(kind)
    monkeypatch.setattr("dtfctl.runtime.services.links.this_place", lambda: "elsewhere")
    monkeypatch.setattr(ucx, "finds_rdma", lambda: True)
    binding = ucx.binding()

    def fail(context: object) -> None:
        raise binding.UCXError("no memory may be locked")

    monkeypatch.setattr(binding, "UCXWorker", fail)
    with two_tasks(tmp_path, "auto") as servers:
        backend = run_steps(servers, 1)
        assert set(servers[1].transports().values()) == {"tcp"}
        backend.close()
    assert "no memory may be locked" in caplog.text


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_what_ucx_says_of_a_way_is_an_error_of_the_connection(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_ucx(kind)
    binding = ucx.binding()

    class Broken:
        def stream_recv(self, place: object) -> object:
            return SimpleNamespace(completed=False)

        def stream_send(self, message: object) -> object:
            raise binding.UCXError("Connection reset by remote peer")

        def close(self) -> None: ...

    ends = SimpleNamespace(create_from_worker_address=lambda *args: Broken())
    monkeypatch.setattr(binding, "UCXEndpoint", ends)
    here, there = map(UcxStream, socket.socketpair())
    here.meet(there.address)
    for _ in range(2):
        with pytest.raises(OSError, match="reset by remote peer"):
            here.send(b"bytes")
    here.close()
    there.close()


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_a_connection_without_keys_carries_nothing(kind: str) -> None:
    use_ucx(kind)
    joined: list[Joined] = []
    door: Door[str] = Door(lambda connection, purpose: joined.append(connection))
    door.listen("127.0.0.1")
    connection = connect_tcp(door.offer("x"), "127.0.0.1", None, "/job:a/task:0")
    with pytest.raises(UnauthenticatedError, match="encrypted"):
        link_over(connection, "/job:a/replica:0/task:0", 1, 2, Owner(), is_ucx=True)
    connection.drop()
    door.close()
    for other in joined:
        other.drop()


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_who_has_other_keys_is_refused(kind: str, tmp_path: Path) -> None:
    """Both come by one connection; what one says inside it the other cannot read."""
    use_ucx(kind)
    ensure_authority(tmp_path / "ca", "c")
    tls = TaskTls(ensure_certificate(tmp_path / "ca", "c", "task", "a/0").identity(), "task.c.dtfctl")
    joined: list[Joined] = []
    came = threading.Semaphore(0)

    def join(connection: Joined, purpose: str) -> None:
        joined.append(connection)
        came.release()

    door: Door[str] = Door(join, tls=tls)
    door.listen("127.0.0.1")
    mine = [connect_tcp(door.offer("a"), "127.0.0.1", tls, "/job:a/task:0") for _ in range(2)]
    assert all(came.acquire(timeout=BOUND_S) for _ in mine)
    # The second one's keys over the first one's socket.
    wrong = replace(mine[0], records=mine[1].records)
    errors: list[Exception] = []

    def take() -> None:
        try:
            link_over(joined[0], "/job:a/replica:0/task:0", 1, 2, Owner(), is_ucx=True)
        except Exception as e:
            errors.append(e)

    thread = threading.Thread(target=take)
    thread.start()
    with pytest.raises((UnauthenticatedError, OSError)):
        link_over(wrong, "/job:a/replica:0/task:0", 1, 2, Owner(), is_ucx=True)
    thread.join(BOUND_S)
    assert [type(e) for e in errors] == [UnauthenticatedError]
    door.close()
    for connection in (mine[1], joined[1]):
        connection.drop()


def test_the_transport_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ucx, "context", ucx.context.__wrapped__)
    monkeypatch.setattr(ucx, "binding", ucx.binding.__wrapped__)
    monkeypatch.setattr(ucx, "is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"pip install 'dtfctl\[ucx\]'"), two_tasks(tmp_path, "ucx"):
        pass


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_without_rdma_the_transport_says_so(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_ucx(kind)
    monkeypatch.delenv(ucx.VARIABLE)
    monkeypatch.setattr(ucx, "context", ucx.context.__wrapped__)
    with pytest.raises(ValueError, match="no InfiniBand or RoCE here"), two_tasks(tmp_path, "ucx"):
        pass


@pytest.mark.parametrize("kind", OVER_UCX[:1])
def test_a_library_without_infiniband_is_told_from_a_host_without(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_ucx(kind)
    assert ucx.look().problem == ""
    monkeypatch.setattr(ucx, "rdma_devices", lambda: ("mlx5_0 InfiniBand",))
    found = ucx.look()
    assert found.devices == ("mlx5_0 InfiniBand",)
    assert "built without InfiniBand" in found.problem


def test_devices_of_the_kernel(tmp_path: Path) -> None:
    for device, port, state, layer in (
        ("mlx5_0", "1", "4: ACTIVE", "InfiniBand"),
        ("mlx5_1", "1", "4: ACTIVE", "Ethernet"),
        ("mlx5_2", "1", "1: DOWN", "InfiniBand"),
    ):
        folder = tmp_path / device / "ports" / port
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{state}\n")
        (folder / "link_layer").write_text(f"{layer}\n")
    (tmp_path / "mlx5_3" / "ports" / "1").mkdir(parents=True)
    assert ucx.rdma_devices(tmp_path) == ("mlx5_0 InfiniBand", "mlx5_1 Ethernet")
    assert ucx.rdma_devices(tmp_path / "none") == ()


def test_what_ucx_says_it_may_use() -> None:
    said = """#            md 0  :  component 1  tcp
#      resource 0  :  md 0  dev 0  flags -- tcp/eth0
#      resource 1  :  md 1  dev 1  flags -- rc_mlx5/mlx5_0:1
"""
    assert ucx.ways_of(said) == ("tcp/eth0", "rc_mlx5/mlx5_0:1")
    assert ucx.finds_rdma_in(ucx.ways_of(said))
    assert not ucx.finds_rdma_in(("tcp/eth0", "posix/memory"))
