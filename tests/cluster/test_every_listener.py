"""Everything at which a process of a running cluster listens is in the table of docs/security.md, and bears a siege."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator.tunnel import Tunnel
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.system.procfs import command_line, identify
from tests.cluster.conftest import controller_pid, pids, processes_of, wait_until
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
FILES = 1024
UP = f"""
import resource, sys
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import Dashboard, Metrics
from tests.cluster.conftest import spec_of
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
result = Cluster.up(spec_of("besieged", worker=1, metrics=Metrics(int(sys.argv[1])), dashboard=Dashboard(0)))
assert result.exit_code == 0, result.problems
"""
JOB = """
import itertools, os, time
import dtfctl.runtime as tf
with tf.device("/job:ps/task:0"):
    values = [tf.Variable(tf.zeros([64]), name=f"v{n}") for n in range(40)]
saver = tf.train.Saver(sharded=True, max_to_keep=2)
with tf.Session(os.environ["DTF_TARGET"]) as session:
    session.run(tf.global_variables_initializer())
    for number in itertools.count():
        saver.save(session, os.path.join(os.environ["DTF_CHECKPOINT_DIR"], "model"), global_step=number)
        with open(os.environ["SAVED"], "a") as file:
            file.write("x")
        time.sleep(0.05)
"""
PROGRAMS = {
    "launcher.controller": "controller",
    "launcher.agent": "agent",
    "dtfctl.task": "task",
    "dtfctl.seed": "seed",
    "dtfctl.plaintext_port": "`dtfctl connect`",
    "dtfctl.dashboard": "dashboard",
    "keeper.py": "keeper",
}
NOT_NOW = {
    ("command, controller", "`run/ssh-*.sock`"),
    ("a host that hands packages on", "TCP"),
    ("`dtfctl dashboard`", "TCP"),
    ("`dtfctl tensorboard`", "TCP"),
    ("a job of `dtfctl serve`", "TCP"),
    ("a job of `dtfctl serve`", "`inside`"),
}
"""Rows of what is there at other times: a host behind a jump host, a first `up` of several hosts, a page of a host,
a model that is served."""
MOST_BESIDES = 300
"""Descriptors that strangers leave a process."""
PLAIN = b"PRI * HTTP/2.0\r\n\r\n"
HELLO_BEGUN = bytes.fromhex("16030100c8010000c40303")  # of TLS: the rest never comes


@dataclass(frozen=True)
class Door:
    pid: int
    process: str
    where: str
    """As in the table."""
    address: tuple[str, int] | str | None
    """Where anybody can connect; None: nobody but this user gets that far, or it takes no connections."""


def process_of(pid: int) -> str:
    """Of keeper and seed before what they start: their command lines name both."""
    words = command_line(pid)
    for part in ("keeper.py", *PROGRAMS):
        if part in words:
            return PROGRAMS[part]
    return "job"


def doors(pids: list[int]) -> list[Door]:
    """Every socket at which one of the processes can be spoken to, by any other."""
    owners: dict[str, list[int]] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(fd)
                    if target.startswith("socket:["):
                        owners.setdefault(target[8:-1], []).append(pid)
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for row in _rows(table):
            if row[9] in owners and (row[3] == "0A" or table.startswith("udp")):
                port = int(row[1].partition(":")[2], 16)
                for pid in owners[row[9]]:
                    where = table.removesuffix("6").upper()
                    found.append(Door(pid, process_of(pid), where, ("127.0.0.1", port) if where == "TCP" else None))
    for row in _rows("unix"):
        datagrams = row[4] == "0002"
        if len(row) > 7 and row[6] in owners and (datagrams or int(row[3], 16) & 0x10000):
            where = _name(row[7]) + " for datagrams" * datagrams
            address = "\0" + row[7][1:] if row[7].startswith("@") else None
            found += [Door(pid, process_of(pid), where, address) for pid in owners[row[6]]]
    return found


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]


def _name(path: str) -> str:
    """How the table names a unix socket."""
    if path.startswith("@"):
        return "`@" + re.sub(r"[0-9a-f]{32}$", "*", path[1:]) + "`"
    name = Path(path).name
    return "`" + re.sub(r"^(ps|worker)-\d+", "JOB-INDEX", name if name != "controller.sock" else f"run/{name}") + "`"


def table() -> Counter[tuple[str, str]]:
    """Process and place of each row of the page."""
    lines = (ROOT / "docs/security.md").read_text().partition("## Who listens where\n")[2].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")][2:]
    return Counter((row[0].strip(), row[1].strip().partition(",")[0]) for row in rows)


@dataclass
class Running:
    cluster: Cluster
    paths: ClusterPaths
    tunnel: Tunnel
    saved: Path

    @property
    def pids(self) -> list[int]:
        """Of every process of the cluster, its job and its tunnel."""
        known = {int(line.split()[0]) for line in processes_of(self.paths.folder)}
        known |= {pid for pid in pids(self.cluster).values() if pid}
        known |= {client.pid for job in self.cluster.status().jobs for client in job.clients if client.pid}
        return sorted(pid for pid in known if identify(pid))

    @property
    def doors(self) -> list[Door]:
        return doors(self.pids)

    def saves(self) -> int:
        return self.saved.stat().st_size if self.saved.exists() else 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    base = tmp_path_factory.mktemp("besieged")
    (base / "job.py").write_text(JOB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(base / "home"))
        subprocess.run([sys.executable, "-c", UP, str(free_ports(1)[0])], check=True, timeout=300, cwd=ROOT)
        cluster = Cluster.open("besieged")
        try:
            with cluster.connect("worker/0") as tunnel:
                made = Running(cluster, ClusterPaths.of("besieged"), tunnel, base / "saved")
                cluster.submit(JobRequest(str(base / "job.py"), env={"SAVED": str(made.saved)}))
                wait_until(lambda: made.saves() > 0, "the job saves")
                yield made
        finally:
            cluster.down(grace_s=1.0)


def test_the_page_names_every_listener_and_no_other(running: Running) -> None:
    named = table()
    assert named.keys() >= NOT_NOW and len(named) > 10
    for process in {process for process, _ in named} | set(PROGRAMS.values()) | {"job"}:
        wanted = Counter({row: count for row, count in named.items() if row[0] == process and row not in NOT_NOW})
        every = [door for door in running.doors if door.process == process]
        for pid in {door.pid for door in every} or {0}:
            found = Counter((door.process, door.where) for door in every if door.pid == pid)
            assert found == wanted, f"docs/security.md has other rows for a {process}"


def speak(door: Door, number: int) -> socket.socket:
    """A stranger who says nothing, the beginning of TLS, or what no TLS begins with."""
    assert door.address is not None
    sock = socket.socket(socket.AF_UNIX if isinstance(door.address, str) else socket.AF_INET)
    try:
        sock.settimeout(60.0)
        sock.connect(door.address)
        with contextlib.suppress(ConnectionError):  # sent away meanwhile
            sock.sendall((b"", HELLO_BEGUN, PLAIN)[number % 3])
    except BaseException:
        sock.close()
        raise
    return sock


def assert_healthy(running: Running, before: dict[str, int | None], controller: int) -> None:
    for pid in {door.pid for door in running.doors}:
        used = len(os.listdir(f"/proc/{pid}/fd"))
        assert used < FILES - MOST_BESIDES, f"{used} descriptors: {command_line(pid)}"
    another = Cluster.open("besieged")
    assert (pids(another), another.status().controller.epoch, controller_pid(another)) == (before, 1, controller)
    assert "dtfctl_cluster_healthy 1" in another.metrics(timeout_s=60.0)
    saved = running.saves()
    wait_until(lambda: running.saves() > saved + 1, "the job goes on saving")


def besiege(running: Running, each: int, hang_ups: int, at_once: int) -> None:
    """Strangers at so many doors at once; then some who connect and hang up."""
    before, controller = pids(running.cluster), controller_pid(running.cluster)
    open_to_all = [door for door in running.doors if door.address is not None]
    assert len(open_to_all) >= 12
    for first in range(0, len(open_to_all), at_once):
        besieged = open_to_all[first : first + at_once]
        with contextlib.ExitStack() as stack:
            for door in besieged:
                for number in range(each):
                    with contextlib.suppress(ConnectionError, BlockingIOError):
                        stack.enter_context(speak(door, number))
            assert_healthy(running, before, controller)
        for door in besieged:
            for _ in range(hang_ups):
                with contextlib.suppress(ConnectionError, BlockingIOError):
                    speak(door, 0).close()
    assert_healthy(running, before, controller)
    status = running.cluster.status()
    assert status.jobs[-1].state == "running" and not any(task.restarts for task in status.tasks)
    assert not {"host.suspect", "host.down", "task.moved"} & {event.kind for event in running.cluster.events()}


@pytest.fixture
def many_files() -> Iterator[None]:
    """For this process, which is all of the strangers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_strangers_at_every_door_at_once(running: Running, many_files: None) -> None:
    besiege(running, 128, 100, at_once=100)


@pytest.mark.nightly
def test_thousands_of_strangers_at_each_door(running: Running, many_files: None) -> None:
    besiege(running, 4000, 4000, at_once=1)
