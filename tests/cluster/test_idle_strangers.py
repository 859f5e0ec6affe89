"""Strangers who connect and say nothing: nobody healthy is ended for it, and nobody else has to wait."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator import local_controller
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.client import Channel
from tests.cluster.conftest import agent_pid, controller_pid, pids, spec_of, wait_until
from tests.support.waiting import eventually

Up = Callable[..., Cluster]


@contextlib.contextmanager
def idle(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing, opened anew as they are closed, until the context ends."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60.0)) for _ in range(count)]


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def port_of(path: Path) -> int:
    return int(json.loads(path.read_bytes())["address"].rpartition(":")[2])


def epoch(cluster: Cluster) -> int:
    return cluster.status().controller.epoch


def direct(paths: ClusterPaths) -> Channel:
    """The way by which other machines call the controller."""
    address = f"127.0.0.1:{port_of(paths.controller_info)}"
    return Channel(address, TlsFiles.of(paths.certificates, "cli"), "controller", paths.name)


def test_at_the_controller_and_the_agent(up: Up) -> None:
    cluster = up(spec_of())
    paths = ClusterPaths.of(cluster.name)
    before, controller, agent, first = pids(cluster), controller_pid(cluster), agent_pid(cluster), epoch(cluster)
    with (
        idle(port_of(paths.controller_info), 600),
        idle(port_of(paths.host("localhost") / "agent.json"), 600),
    ):
        assert open_files(controller) < 500 and open_files(agent) < 500, "there is room for so many and no more"
        ends = time.monotonic() + 5.0  # longer than a host may be silent
        while time.monotonic() < ends:
            assert epoch(cluster) == first
            with contextlib.closing(direct(paths)) as channel:
                assert channel.call(controller_calls.PING, Nothing(), timeout_s=60.0).epoch == first
    assert (pids(cluster), controller_pid(cluster), agent_pid(cluster)) == (before, controller, agent)
    kinds = [event.kind for event in cluster.events()]
    assert not {"host.suspect", "host.down", "task.moved"} & set(kinds)
    assert kinds.count("controller.started") == 1


def test_a_controller_that_cannot_be_reached_but_lives_is_left_alone(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = up(spec_of())
    paths = ClusterPaths.of(cluster.name)
    before = controller_pid(cluster)
    found = local_controller.LocalController(paths)
    assert "its loop turned" in found.does_not_answer()
    assert controller_pid(cluster) == before
    os.kill(before, signal.SIGSTOP)
    eventually(lambda: found.does_not_answer() == "")
    assert found.find() is None
    assert cluster.status().controller.epoch == 2


def test_commands_on_its_machine_use_a_socket_for_this_user_alone(up: Up) -> None:
    cluster = up(spec_of())
    paths = ClusterPaths.of(cluster.name)
    found = local_controller.find_controller(paths)
    assert found is not None and found[1] == f"unix:{paths.controller_socket}"
    assert paths.controller_socket.is_socket()
    assert paths.controller_socket.parent.stat().st_mode & 0o777 == 0o700
    cluster.down(grace_s=1.0)
    assert not paths.controller_socket.parent.exists()


def limit_of(pid: int | None) -> int:
    """The soft limit of open files."""
    line = next(line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open"))
    return int(line.split()[3])


LIMITED = """
import resource, sys
from dtfctl.launcher.api import Cluster
from tests.cluster.conftest import spec_of
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 3000))
assert Cluster.up(spec_of("limits", worker=1)).cluster is not None
"""


def test_who_may_have_how_many_files_open(home: Path, tmp_path: Path) -> None:
    """Processes of ours what the system allows them; the user's programs what they would have anyway."""
    script = tmp_path / "job.py"
    script.write_text("import resource; print('limit', resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)")
    subprocess.run([sys.executable, "-c", LIMITED], check=True, timeout=120, cwd=Path(__file__).parents[2])
    cluster = Cluster.open("limits")
    try:
        tasks = [task.pid for task in cluster.status().tasks]
        for pid in (controller_pid(cluster), agent_pid(cluster), *tasks):
            assert limit_of(pid) == 3000, Path(f"/proc/{pid}/cmdline").read_bytes()
        job = cluster.submit(JobRequest(str(script)))
        wait_until(lambda: "limit 1000" in {line.text for line in cluster.logs(f"job:{job}")}, "the job's own limit")
        word = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
        done = subprocess.run(
            [sys.executable, "-m", "dtfctl", "exec", "worker/0", "--", sys.executable, "-c", word],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert "1000" in done.stdout
    finally:
        cluster.down(grace_s=1.0)
