"""Rows 6 to 9, 13, 14, 20, 25 and 28: hosts and their links, on real sshd hosts in network namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import PartlyDone
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import (
    ClusterSpec,
    Health,
    HostGroup,
    HostName,
    Restart,
    Sync,
    TaskGroup,
)
from tests.cluster.conftest import STUB_COMMAND, task, wait_until
from tests.faults.conftest import Measured
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
Up = Callable[..., Cluster]


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    return make_lab(4)


@pytest.fixture
def lab_up(home: Path, lab: Lab) -> Iterator[Up]:
    """Bring up a cluster of stub tasks; afterwards every host is as it was, and nothing runs on any."""

    def bring_up(spec: ClusterSpec, command: tuple[str, ...] | None = STUB_COMMAND) -> Cluster:
        result = Cluster.up(spec, task_command=command) if command else Cluster.up(spec)
        assert result.exit_code == 0, result
        assert result.cluster is not None
        return result.cluster

    yield bring_up
    for name in lab.names:
        lab.mend(name)
        lab.thaw(name)
    for name in lab.names:
        if not lab.is_up(name):
            lab.boot(name)
    Cluster.down_by_name("t", grace_s=0.5)
    left = {name: lab.left_over(name) + lab.processes(name, "stub_task") for name in lab.names}
    assert not any(left.values()), f"left on the hosts: {left}"


def with_spare(lab: Lab, **changes: Any) -> ClusterSpec:
    """Three hosts with a task each, and a spare one."""
    *first, last = [HostName(host.address) for host in lab.hosts]
    groups = {"main": HostGroup(tuple(first), slots=1), "spare": HostGroup((last,), slots=1, spare=True)}
    return cluster_of(lab, host_groups=groups, **changes)


def name_of(lab: Lab, cluster: Cluster, task_name: str) -> str:
    """The lab's name of a task's host."""
    address = task(cluster, task_name).host
    return next(host.name for host in lab.hosts if address in (host.address, host.name))


def event_time(cluster: Cluster, kind: str, subject: str, after: int) -> float:
    """When it first happened after event number `after`."""

    def found() -> float | None:
        return next(
            (e.time for e in cluster.events() if e.seq > after and (e.kind, e.subject) == (kind, subject)), None
        )

    moment = wait_until(found, f"{kind} of {subject}")
    assert isinstance(moment, float)
    return moment


def newest(cluster: Cluster) -> int:
    return max(event.seq for event in cluster.events())


def stubs(lab: Lab, name: str) -> list[int]:
    return [pid for pid in lab.processes(name, "stub_task.py") if pid not in lab.processes(name, "/keeper.")]


def runs_elsewhere(cluster: Cluster, task_name: str, host: str, incarnation: int) -> bool:
    now = task(cluster, task_name)
    return now.state == "running" and now.host != host and now.incarnation > incarnation


@pytest.mark.fault(6)
def test_tasks_of_a_host_whose_link_is_down_run_on_the_spare(lab: Lab, lab_up: Up, measured: Measured) -> None:
    cluster = lab_up(with_spare(lab))
    before, after = incarnations(cluster), newest(cluster)
    lost = task(cluster, "worker/1")
    name = name_of(lab, cluster, "worker/1")
    begun = time.time()
    lab.cut(name)
    wait_until(lambda: runs_elsewhere(cluster, "worker/1", lost.host, lost.incarnation), "it runs on the spare")
    measured("running on the spare s", event_time(cluster, "task.running", "worker/1", after) - begun)
    measured("suspect s", event_time(cluster, "host.suspect", f"host:{lost.host}", after) - begun)
    measured("down s", event_time(cluster, "host.down", f"host:{lost.host}", after) - begun)
    now = incarnations(cluster)
    assert {task_name for task_name in before if before[task_name] != now[task_name]} == {"worker/1"}
    alarms = [e for e in cluster.events() if e.seq > after and e.kind == "host.down" and lost.host not in e.subject]
    measured("false alarms", len(alarms))
    assert alarms == []
    lab.mend(name)
    wait_until(lambda: not stubs(lab, name), "the old incarnation is ended", 60.0)
    wait_until(lambda: host_state(cluster, lost.host) == "up", "the host is back in the pool", 60.0)
    assert task(cluster, "worker/1").host != lost.host


def incarnations(cluster: Cluster) -> dict[str, int]:
    """Pids would not do: every host counts its own."""
    return {item.name: item.incarnation for item in cluster.status().tasks}


def host_state(cluster: Cluster, name: str) -> str:
    return next(host.state for host in cluster.status().hosts if host.name == name)


@pytest.mark.fault(7)
def test_a_host_that_lost_power_is_back_after_its_boot(lab: Lab, lab_up: Up, measured: Measured) -> None:
    cluster = lab_up(with_spare(lab))
    lost = task(cluster, "worker/1")
    name = name_of(lab, cluster, "worker/1")
    lab.poweroff(name)
    wait_until(lambda: runs_elsewhere(cluster, "worker/1", lost.host, lost.incarnation), "it runs on the spare", 60.0)
    lab.boot(name)
    begun = time.monotonic()
    wait_until(lambda: host_state(cluster, lost.host) == "up", "the host is back", 60.0)
    measured("usable again s", time.monotonic() - begun)
    assert stubs(lab, name) == []
    assert cluster.status().running == 3


@pytest.mark.fault(8)
@pytest.mark.parametrize("cut", ["both-ways", "one-way", "ports"])
def test_a_host_cut_off_from_the_controller_stops_its_tasks(lab: Lab, lab_up: Up, measured: Measured, cut: str) -> None:
    """`ports`: the controller's machine still refuses connections at once, as it does where the controller has died."""
    lease = 8.0
    cluster = lab_up(with_spare(lab, health=Health(lease=lease)))
    lost = task(cluster, "worker/1")
    name = name_of(lab, cluster, "worker/1")
    begun = time.monotonic()
    if cut == "ports":
        agent = next(host.agent_address for host in cluster.status().hosts if host.name == lost.host)
        for port in (22, int(agent.rpartition(":")[2])):
            lab.drop_port(name, port, from_=lab.gateway)
    else:
        (lab.deaf if cut == "one-way" else lab.split)(name, lab.gateway)
    wait_until(lambda: runs_elsewhere(cluster, "worker/1", lost.host, lost.incarnation), "its task is replaced", 60.0)
    wait_until(lambda: not stubs(lab, name), "the cut-off side stops its task", 60.0)
    measured("self-stop after the lease s", time.monotonic() - begun - lease)
    lab.mend(name)
    wait_until(lambda: host_state(cluster, lost.host) == "up", "the host is back", 60.0)
    assert stubs(lab, name) == []
    starts = [e.incarnation for e in cluster.events() if (e.kind, e.subject) == ("task.starting", "worker/1")]
    assert len(starts) == len(set(starts))


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "hangs"])
def test_no_lease_ends_because_of_a_controller_that(lab: Lab, lab_up: Up, by: signal.Signals) -> None:
    lease = 6.0
    cluster = lab_up(cluster_of(lab, ps=1, worker=1, health=Health(lease=lease)))
    before = {item.name: item.pid for item in cluster.status().tasks}
    pid = cluster.status().controller.pid
    os.kill(pid, by)
    time.sleep(2.5 * lease)
    if by == signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    assert {item.name: item.pid for item in cluster.status().tasks} == before
    assert not [event for event in cluster.events() if event.kind == "host.lease-ended"]


WATCH = """
import os, time
import numpy as np
import dtfctl.runtime as tf
index, host = int(os.environ["DTF_TASK_INDEX"]), int(os.uname().nodename[-1])
with tf.device("/job:ps/task:0"):
    seen = tf.get_variable("seen", [2], tf.int32, initializer=tf.zeros_initializer(), use_resource=False)
write = tf.scatter_update(seen, [index], [host])
last = None
with tf.train.MonitoredTrainingSession(os.environ["DTF_TARGET"], is_chief=index == 0) as session:
    while True:
        value = int(session.run(write)[1])
        if index == 0 and value != last:
            print("worker 1 writes from host", value, flush=True)
            last = value
        time.sleep(0.02)
"""


@pytest.mark.fault(20)
def test_a_thawed_worker_changes_nothing_and_is_ended(lab: Lab, lab_up: Up, tmp_path: Path, measured: Measured) -> None:
    cluster = lab_up(with_spare(lab), command=None)
    script = tmp_path / "watch.py"
    script.write_text(WATCH)
    job_id = cluster.submit(JobRequest(str(script)))
    lost = task(cluster, "worker/1")
    name = name_of(lab, cluster, "worker/1")

    def said() -> list[int]:
        lines = []
        with contextlib.suppress(PartlyDone):  # what the frozen host has is missing
            for line in cluster.logs(f"job:{job_id}"):
                if "writes from host" in line.text:
                    lines.append(line.text)
        return [int(line.rpartition(" ")[2]) for line in lines]

    wait_until(lambda: said()[-1:] == [int(name[-1])], "worker/1 writes", 60.0)
    lab.freeze(name)
    wait_until(lambda: runs_elsewhere(cluster, "worker/1", lost.host, lost.incarnation), "it is replaced", 60.0)
    wait_until(lambda: said()[-1:] == [int(lab.names[-1][-1])], "the replacement writes", 60.0)
    before = len(said())
    begun = time.monotonic()
    lab.thaw(name)
    wait_until(lambda: not lab.processes(name, "dtfctl.task"), "the old task is ended", 60.0)
    measured("gone s", time.monotonic() - begun)
    wait_until(lambda: not lab.processes(name, "watch.py"), "and its job's process", 60.0)
    later = said()[before:]
    measured("writes accepted", later.count(int(name[-1])))
    assert int(name[-1]) not in later
    cluster.cancel([job_id], grace_s=0.5)


@pytest.mark.fault(9)
def test_a_broken_link_between_two_tasks_is_named_and_nothing_restarts(
    lab: Lab, lab_up: Up, tmp_path: Path, measured: Measured
) -> None:
    cluster = lab_up(with_spare(lab), command=None)
    script = tmp_path / "watch.py"
    script.write_text(WATCH)
    job_id = cluster.submit(JobRequest(str(script)))
    wait_until(lambda: task(cluster, "worker/1").steps > 20, "it works", 60.0)
    worker, ps = name_of(lab, cluster, "worker/1"), name_of(lab, cluster, "ps/0")
    begun = time.monotonic()
    lab.split(worker, ps)

    def named() -> bool:
        return any("worker/1" in problem and "ps/0" in problem for problem in cluster.status().problems)

    wait_until(named, "the link's fault is named", 60.0)
    measured("named s", time.monotonic() - begun)
    time.sleep(6.0)  # longer than the silence after which anything is given up
    restarts = sum(item.restarts for item in cluster.status().tasks)
    measured("restarts", restarts)
    assert restarts == 0
    lab.mend(worker)
    lab.mend(ps)
    wait_until(lambda: not named(), "the link is whole", 60.0)
    cluster.cancel([job_id], grace_s=0.5)


@pytest.mark.fault(13)
def test_hosts_that_let_nobody_in_are_named_and_the_others_run(home: Path, lab: Lab, measured: Measured) -> None:
    name = lab.names[0]
    config = lab.root / name / "sshd_config"
    whole = config.read_text()
    lab.forbid_login(name)
    try:
        spec = cluster_of(
            lab,
            name="locked",
            tasks={"worker": TaskGroup(4, min=3)},
            host_groups={"all": HostGroup(tuple(HostName(host.address) for host in lab.hosts), slots=1)},
            ssh=ssh_of(lab, retries=0),
        )
        begun = time.monotonic()
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        measured("up s", time.monotonic() - begun)
        assert (result.exit_code, result.running) == (5, 3)
        assert result.cluster is not None
        status = result.cluster.status()
        assert any(lab.address_of(name) in problem for problem in status.problems), status.problems
        assert lab.left_over(name) == []
        assert not (lab.home(name) / ".dtfctl" / "clusters" / "locked").exists(), "nothing half-made"
        Cluster.down_by_name("locked", grace_s=0.5)
    finally:
        config.write_text(whole)
        lab.crash(name)
        lab.boot(name)


@pytest.mark.fault(14)
def test_a_wrong_host_key_is_never_connected_to(home: Path, lab: Lab, measured: Measured) -> None:
    name = lab.names[-1]
    known = lab.known_hosts.read_text()
    line = next(number for number, text in enumerate(known.splitlines(), 1) if text.startswith(f"{name},"))
    lab.rekey(name)
    try:
        spec = cluster_of(lab, ps=0, worker=1, hosts=[name], name="rekeyed", ssh=ssh_of(lab, retries=0))
        begun = time.monotonic()
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        measured("refused s", time.monotonic() - begun)
        assert result.exit_code == 6
        assert result.cluster is not None
        said = " ".join(result.cluster.status().problems)
        assert f"{lab.known_hosts.name}:{line}" in said, said
        assert not (lab.home(name) / ".dtfctl" / "clusters" / "rekeyed").exists()
        Cluster.down_by_name("rekeyed", grace_s=0.5)
    finally:
        lab.trust_key(name)


@pytest.mark.fault(25)
def test_when_half_of_the_hosts_die_the_rest_see_no_storm(lab: Lab, lab_up: Up, measured: Measured) -> None:
    hosts = tuple(HostName(host.address) for host in lab.hosts)
    spec = cluster_of(
        lab, tasks={"worker": TaskGroup(24, min=20)}, host_groups={"all": HostGroup(hosts, slots=24)}, restart=Restart()
    )
    cluster = lab_up(spec)
    after = newest(cluster)
    for name in lab.names[:2]:
        lab.poweroff(name)
    dead = [lab.address_of(name) for name in lab.names[:2]]
    wait_until(lambda: all(host_state(cluster, host) == "down" for host in dead), "they are given up")
    wait_until(lambda: cluster.status().running == 24, "all run on the other half", 90.0)
    started = [e for e in cluster.events() if e.seq > after and e.kind == "task.starting"]
    where = {item.name: item.host for item in cluster.status().tasks}
    rate = Counter((where[e.subject], int(e.time)) for e in started)
    measured("starts on one host in one second", max(rate.values()))
    assert len(started) == len({e.subject for e in started}), "each was started once"


@pytest.mark.fault(28)
def test_a_slow_link_delays_no_other_host(home: Path, lab: Lab, tmp_path: Path, measured: Measured) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "blob").write_bytes(os.urandom(2**18))  # 256 KiB: ten seconds at 200 kbit/s
    slow = lab.names[0]
    spec = cluster_of(
        lab,
        tasks={"worker": TaskGroup(4)},
        host_groups={"all": HostGroup(tuple(HostName(host.address) for host in lab.hosts), slots=1)},
        sync=(Sync(str(folder), "~/data"),),
    )
    # The bundle is there, as it is from the second time on: it is the user's own files that are slow.
    Cluster.up(replace(spec, sync=()), task_command=STUB_COMMAND)
    Cluster.down_by_name("t", grace_s=0.5)
    lab.slow(slow, "200kbit")
    try:
        begun = time.time()
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        assert result.cluster is not None
        assert (result.exit_code, result.running) == (0, 4), result.cluster.status().problems
        ready = {e.subject: e.time for e in result.cluster.events() if e.kind == "host.up"}
        late = ready.pop(f"host:{lab.address_of(slow)}")
        measured("others up s", max(ready.values()) - begun)
        assert len(ready) == 3
        assert max(ready.values()) < late, "only the slow host is late"
    finally:
        lab.mend(slow)
        Cluster.down_by_name("t", grace_s=0.5)
