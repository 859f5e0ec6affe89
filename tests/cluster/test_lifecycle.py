"""A local cluster comes up, can be found, refuses what does not fit, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher import api
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, LauncherError, NoSuchCluster
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Logs, Ports, Restart, Security, TaskGroup
from dtfctl.launcher.system.files import try_lock, unlock
from tests.cluster.conftest import STUB_COMMAND, controller_pid, processes_of, spec_of, wait_until

Up = Callable[..., Cluster]


def ports_of(cluster: Cluster) -> list[int]:
    status = cluster.status()
    addresses = [task.address for task in status.tasks]
    addresses += [status.controller.address, status.hosts[0].agent_address]
    return [int(address.rpartition(":")[2]) for address in addresses]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_up_runs_every_task_and_down_leaves_only_logs(home: Path, up: Up) -> None:
    cluster = up()
    status = cluster.status()
    assert [(task.name, task.state, task.restarts) for task in status.tasks] == [
        ("ps/0", "running", 0),
        ("worker/0", "running", 0),
        ("worker/1", "running", 0),
    ]
    assert status.healthy
    ports = ports_of(cluster)
    assert all(listens(port) for port in ports)

    assert cluster.down() == ()

    assert processes_of(home) == []
    assert not any(listens(port) for port in ports)
    files = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    assert {path.parts[:3] for path in files} == {("clusters", "t", "logs")}
    assert api.clusters() == []


def test_everything_of_a_cluster_is_for_its_user_only(home: Path, up: Up) -> None:
    up()
    paths = ClusterPaths.of("t")
    for folder in (home, paths.folder, paths.certificates, paths.host("localhost")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    keys = list(paths.certificates.glob("*.key"))
    assert keys
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_up_of_an_unchanged_cluster_changes_nothing(up: Up) -> None:
    before = up().status()
    result = Cluster.up(spec_of(), task_command=STUB_COMMAND)
    assert result.changes == ()
    assert result.cluster is not None
    assert [task.pid for task in result.cluster.status().tasks] == [task.pid for task in before.tasks]


def test_up_with_other_tasks_starts_and_stops_what_differs(up: Up) -> None:
    cluster = up()
    before = {task.name: task.pid for task in cluster.status().tasks}
    assert Cluster.up(spec_of(worker=3), task_command=STUB_COMMAND).changes == ("start worker/2 on localhost",)
    assert {task.name: task.pid for task in cluster.status().tasks if task.name in before} == before
    assert cluster.scale({"worker": 1}) == ("stop worker/1", "stop worker/2")
    assert {task.name: task.pid for task in cluster.status().tasks} == {n: before[n] for n in ("ps/0", "worker/0")}


def test_up_with_what_cannot_change_is_a_conflict_and_changes_nothing(up: Up) -> None:
    cluster = up()
    with pytest.raises(Conflict, match="`security` cannot change"):
        Cluster.up(spec_of(worker=3, security=Security(tls="none")), task_command=STUB_COMMAND)
    assert len(cluster.status().tasks) == 3


def test_up_with_another_restart_policy_is_taken_over_without_a_restart(up: Up) -> None:
    before = up().status()
    result = Cluster.up(spec_of(restart=Restart(attempts=9)), task_command=STUB_COMMAND)
    assert result.changes == ("change restart",)
    assert result.cluster is not None
    assert [task.pid for task in result.cluster.status().tasks] == [task.pid for task in before.tasks]


def test_a_second_up_at_the_same_time_is_a_conflict(home: Path) -> None:
    paths = ClusterPaths.of("t")
    paths.folder.mkdir(parents=True)
    lock = try_lock(paths.lock)
    assert lock is not None
    with pytest.raises(Conflict, match="another `up` or `down`"):
        Cluster.up(spec_of(), task_command=STUB_COMMAND)
    unlock(lock)


def test_dry_run_starts_nothing(home: Path) -> None:
    result = Cluster.up(spec_of(), dry_run=True)
    assert result.changes == ("start ps/0 on localhost", "start worker/0 on localhost", "start worker/1 on localhost")
    assert api.clusters() == []
    assert processes_of(home) == []


def test_commands_without_a_cluster_say_so(home: Path) -> None:
    with pytest.raises(NoSuchCluster, match="no cluster is up"):
        Cluster.open()
    with pytest.raises(NoSuchCluster, match="no cluster called 'x'"):
        Cluster.open("x")


def test_several_clusters_run_at_once_and_the_newest_is_the_default(up: Up) -> None:
    up(spec_of("one", worker=1))
    up(spec_of("two", worker=1))
    assert Cluster.open().name == "two"
    assert Cluster.open("one").status().healthy
    assert [info.name for info in api.clusters()] == ["two", "one"]
    Cluster.open("two").down()
    assert Cluster.open().name == "one"


def test_a_fixed_port_that_is_taken_is_an_error_that_names_its_holder(up: Up, home: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = Cluster.up(spec_of(ps=0, worker=1, ports=Ports(port, port)), task_command=STUB_COMMAND)
    assert result.exit_code == 1
    assert result.cluster is not None
    (task,) = result.cluster.status().tasks
    assert task.state == "failed"
    assert f"port {port} is taken by pid {os.getpid()}" in task.last_error
    assert task.restarts == 0


@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.5, 0.7])
def test_up_that_is_killed_at_any_moment_can_be_taken_down_or_completed(home: Path, after_s: float) -> None:
    code = (
        "from dtfctl.launcher.api import Cluster; from tests.cluster.conftest import *; "
        "Cluster.up(spec_of(), task_command=STUB_COMMAND)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if api.clusters():
        Cluster.down_by_name("t", grace_s=1.0)
    assert processes_of(home) == []
    result = Cluster.up(spec_of(), task_command=STUB_COMMAND)
    assert result.running == 3


def test_up_completes_what_a_killed_up_began(home: Path) -> None:
    controller_client.prepare(ClusterPaths.of("t"))  # as far as a killed `up` may have come: no controller yet
    assert [info.alive for info in api.clusters()] == [False]
    result = Cluster.up(spec_of(), task_command=STUB_COMMAND)
    assert result.running == 3


def test_down_works_when_the_controller_is_dead(home: Path, up: Up) -> None:
    cluster = up()
    os.kill(controller_pid(cluster), signal.SIGKILL)
    assert Cluster.down_by_name() == ("t", ())
    assert processes_of(home) == []


def test_a_long_path_still_has_room_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("DTFCTL_HOME", str(home / ("x" * 120)))
    runtime = tmp_path / "r"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    result = Cluster.up(spec_of(worker=1), task_command=STUB_COMMAND)
    assert result.running == 2
    assert result.cluster is not None
    result.cluster.down()
    assert list(runtime.iterdir()) == []


def test_a_spec_survives_the_way_to_the_controller(up: Up) -> None:
    spec = spec_of("full", env={"A": "1"}, restart=Restart(attempts=2))
    up(spec)
    assert Cluster.up(replace(spec), task_command=STUB_COMMAND).changes == ()


def test_logs_go_where_the_file_says(up: Up, tmp_path: Path) -> None:
    cluster = up(spec_of(logs=Logs(dir=str(tmp_path / "elsewhere"))))
    assert "serves at" in (tmp_path / "elsewhere" / "t" / "ps-0.log").read_text()
    assert any("serves at" in line.text for line in cluster.logs("ps/0"))


def test_without_tls_tasks_get_no_certificates(up: Up) -> None:
    cluster = up(spec_of(worker=1, security=Security(tls="none")))
    (config,) = ClusterPaths.of(cluster.name).host("localhost").glob("runs/worker-0/*/config.json")
    assert json.loads(config.read_bytes())["tls"] is None


def test_a_task_that_wants_more_gpus_than_there_are_says_so_and_the_others_run(home: Path) -> None:
    spec = spec_of(worker=1)
    spec = replace(spec, tasks={**spec.tasks, "worker": TaskGroup(1, gpus=99)})
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (1, 1)
    assert result.cluster is not None
    ps, worker = result.cluster.status().tasks
    assert (ps.state, worker.state) == ("running", "failed")
    assert "needs 99 GPUs" in worker.last_error


def test_what_asks_while_a_cluster_goes_down_brings_nothing_back(home: Path, up: Up) -> None:
    cluster = up()
    over = threading.Event()
    asked = []

    def ask() -> None:
        mine = Cluster.open("t")
        while not over.is_set():
            try:
                asked.append(mine.status())
            except LauncherError:
                pass
            except Exception as error:
                unexplained.append(error)

    unexplained: list[Exception] = []
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(asked) > 5, "somebody asks")
    cluster.down(grace_s=1.0)
    time.sleep(1.0)  # as long as an agent takes to start
    over.set()
    for thread in threads:
        thread.join()
    # One that was about to start when the cluster went away finds nothing and ends; one that came back would stay.
    wait_until(lambda: processes_of(home) == [], "nothing is left")
    assert api.clusters() == []
    assert unexplained == []
