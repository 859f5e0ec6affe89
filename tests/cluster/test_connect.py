"""`dtfctl connect` over real tasks: a plaintext client's calls reach the task's master, also after its restart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.framework.errors import AbortedError, UnavailableError
from tests.cluster.conftest import kill, spec_of, task, wait_until
from tests.support.ports import free_ports
from tests.unit.services.graphs import mul_graph

TWO, FIVE = (np.float32(value).reshape(()) for value in (2.0, 5.0))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("connect") / "home"))
        found = Cluster.up(spec_of("net", worker=1)).cluster
        assert found is not None
        try:
            yield found
        finally:
            if found.name in [info.name for info in _clusters()]:
                found.down(grace_s=1.0)


def _clusters() -> list:  # type: ignore[type-arg]
    from dtfctl.launcher.api import clusters

    return clusters()


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dtfctl", "connect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def session(target: str) -> GrpcBackend:
    backend = GrpcBackend(target.removeprefix("grpc://"), config_pb2.ConfigProto())
    backend.create(mul_graph("/job:ps/task:0"))
    return backend


def product(backend: GrpcBackend) -> list[object]:
    return backend.run({"a:0": TWO, "b:0": FIVE}, ["y:0"], [])


def test_a_client_reaches_the_master_until_ctrl_c(cluster: Cluster) -> None:
    port = free_ports(1)[0]
    process = start("net", "--port", str(port))
    try:
        assert first_line(process) == f"grpc://127.0.0.1:{port}"
        backend = session(f"grpc://127.0.0.1:{port}")
        assert product(backend) == [10.0]
        backend.close()
        taken = start("--port", str(port))
        out, err = taken.communicate(timeout=60)
        assert (taken.returncode, out) == (7, "")
        assert "cannot open a port: Address already in use" in err
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "leads to worker/0 of net" in err
    finally:
        process.kill()
        process.wait()


def test_a_task_that_was_started_again_is_reached_again(cluster: Cluster) -> None:
    process = start("-o", "json", "--task", "worker/0")
    try:
        document = json.loads(first_line(process))
        assert (document["version"], document["kind"]) == (1, "Connection")
        backend = session(document["target"])
        assert product(backend) == [10.0]
        before = task(cluster, "worker/0")
        kill(before.pid)
        with pytest.raises((AbortedError, UnavailableError)):
            while True:
                product(backend)
        # A new session waits for the task, as it would without the port between.
        again = session(document["target"])
        assert product(again) == [10.0]
        again.close()
        assert task(cluster, "worker/0").incarnation > before.incarnation
    finally:
        process.kill()
        process.wait()
    port = int(document["target"].rpartition(":")[2])
    wait_until(lambda: not _listens(port), "the port is closed when the command is killed")


def _listens(port: int) -> bool:
    """Whether anything on this machine listens at `port` (/proc/net/tcp: state 0A)."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nope"], 4, "no cluster called 'nope' is up"),
        (["--task", "worker/7"], 4, "there is no task worker/7"),
        (["--task", "all"], 2, "a connection leads to one task"),
        (["--port", "99999"], 2, "--port"),
    ],
)
def test_what_cannot_be_connected_is_said(cluster: Cluster, arguments: list[str], code: int, text: str) -> None:
    process = start(*arguments)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert text in err


def test_it_ends_with_the_cluster(cluster: Cluster) -> None:
    process = start("net")
    try:
        assert first_line(process).startswith("grpc://127.0.0.1:")
        cluster.down(grace_s=1.0)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 4, err
        assert "cluster net was taken down" in err
    finally:
        process.kill()
        process.wait()
