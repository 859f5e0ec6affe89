"""What is killed or stopped comes back; what runs does not notice. Real processes, real signals."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import NoSuchTask, UsageError
from dtfctl.launcher.spec.model import ClusterSpec, Delay, Restart, TaskGroup
from tests.cluster.conftest import (
    agent_pid,
    controller_pid,
    kill,
    peer_notes,
    pids,
    processes_of,
    spec_of,
    task,
    wait_until,
)

Up = Callable[..., Cluster]
QUICK = Delay(first=0.0, then=0.05, factor=1.0)


def crashing_worker(exit_code: int, **restart: object) -> ClusterSpec:
    spec = spec_of(worker=1, restart=replace(Restart(attempts=2, delay=QUICK), **restart))
    return replace(spec, tasks={**spec.tasks, "worker": TaskGroup(1, env={"STUB_EXIT": str(exit_code)})})


def test_a_killed_task_is_started_again_and_the_others_hear_of_it(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    kill(before["worker/1"])
    again = wait_until(lambda: (t := task(cluster, "worker/1")).state == "running" and t.incarnation == 2 and t, "back")
    assert again.restarts == 1
    assert again.exit_code == 137
    after = pids(cluster)
    assert {name for name in before if before[name] != after[name]} == {"worker/1"}
    wait_until(lambda: "PeerUp(job='worker', index=1" in peer_notes(cluster, "ps/0"), "ps/0 hears that it is back")
    notes = peer_notes(cluster, "ps/0")
    assert "PeerDown(job='worker', index=1, incarnation=1, reason='killed by SIGKILL')" in notes
    kinds = [event.kind for event in cluster.events() if event.subject == "worker/1"]
    assert kinds == ["task.starting", "task.running", "task.ended", "task.starting", "task.running"]


def test_what_the_shutdown_of_a_machine_has_ended_is_there_again_after_up(home: Path) -> None:
    """Real tasks, which end in order when they are told to: by whom is what counts."""
    spec = ClusterSpec("shutdown", {"ps": TaskGroup(1), "worker": TaskGroup(1)})
    cluster = Cluster.up(spec).cluster
    assert cluster is not None
    try:
        one = pids(cluster)["worker/0"]
        kill(one, signal.SIGTERM)
        wait_until(lambda: (t := task(cluster, "worker/0")).state == "running" and t.incarnation == 2, "back")
        for line in processes_of(home):
            kill(int(line.split()[0]), signal.SIGTERM)
        wait_until(lambda: not processes_of(home), "all have ended")
        again = Cluster.up(spec)
        assert again.exit_code == 0
        assert {t.name: t.state for t in cluster.status().tasks} == {"ps/0": "running", "worker/0": "running"}
    finally:
        cluster.down()


def test_a_task_started_again_learns_who_is_up(up: Up) -> None:
    cluster = up()
    kill(pids(cluster)["ps/0"])
    wait_until(lambda: "2 PeerUp(job='worker', index=0" in peer_notes(cluster, "ps/0"), "told about worker/0")


def test_a_stopped_process_is_suspect_then_killed_and_started_again(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    kill(before["ps/0"], signal.SIGSTOP)
    again = wait_until(lambda: (t := task(cluster, "ps/0")).state == "running" and t.incarnation == 2 and t, "back")
    assert "no beat" in " ".join(event.reason for event in cluster.events() if event.kind == "task.stopping")
    assert "task.suspect" in [event.kind for event in cluster.events() if event.subject == "ps/0"]
    after = pids(cluster)
    assert (again.restarts, after["worker/0"], after["worker/1"]) == (1, before["worker/0"], before["worker/1"])


def test_a_killed_controller_is_replaced_and_no_task_notices(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    events = list(cluster.events())
    first = controller_pid(cluster)
    kill(first)
    time.sleep(0.3)
    found = Cluster.open()
    assert controller_pid(found) != first
    status = wait_until(lambda: (s := found.status()).running == 3 and s, "the new controller sees the tasks")
    assert {t.name: t.pid for t in status.tasks} == before
    assert [t.restarts for t in status.tasks] == [0, 0, 0]
    assert status.controller.epoch == 2
    assert list(found.events())[: len(events)] == events


def test_what_happens_while_the_controller_is_away_is_told_afterwards(up: Up) -> None:
    cluster = up()
    kill(controller_pid(cluster))
    victim = pids_without_controller(cluster, "worker-0.log")
    kill(victim)
    # The agent starts it again alone.
    log = cluster._connection.paths.logs / "worker-0.log"
    wait_until(lambda: "incarnation 2" in log.read_text(), "started again without a controller")
    found = Cluster.open()
    wait_until(lambda: found.status().running == 3, "seen by the new controller")
    kinds = [event.kind for event in found.events() if event.subject == "worker/0"]
    assert kinds == ["task.starting", "task.running", "task.ended", "task.starting", "task.running"]


def pids_without_controller(cluster: Cluster, log_name: str) -> int:
    """The pid of the task that writes `log_name`: the child of the keeper that has it in its command line."""
    keeper = next(
        int(line.split()[0])
        for line in processes_of(cluster._connection.paths.folder)
        if log_name in line and "/keeper." in line
    )
    return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text())


def test_a_killed_agent_is_replaced_and_no_task_notices(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    first = agent_pid(cluster)
    kill(first)
    wait_until(lambda: (s := cluster.status()).hosts[0].state == "up" and s.hosts[0].agent_pid != first, "a new agent")
    assert pids(cluster) == before
    time.sleep(1.2)  # two beats: the new agent judges the adopted tasks
    status = cluster.status()
    assert [(t.state, t.health, t.restarts) for t in status.tasks] == [("running", "healthy", 0)] * 3


def test_a_task_that_dies_while_its_agent_is_dead_is_started_again(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    kill(agent_pid(cluster))
    kill(before["worker/0"])
    again = wait_until(lambda: (t := task(cluster, "worker/0")).state == "running" and t.incarnation == 2 and t, "back")
    assert again.exit_code == 137
    assert pids(cluster)["ps/0"] == before["ps/0"]


def test_a_stopped_agent_is_replaced_and_no_task_notices(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    first = agent_pid(cluster)
    kill(first, signal.SIGSTOP)
    wait_until(lambda: (s := cluster.status()).hosts[0].state == "up" and s.hosts[0].agent_pid != first, "a new agent")
    assert pids(cluster) == before
    assert "host.suspect" in [event.kind for event in cluster.events()]


def test_controller_and_agent_killed_together(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    kill(agent_pid(cluster))
    kill(controller_pid(cluster))
    found = Cluster.open()
    wait_until(lambda: found.status().running == 3, "adopted")
    assert pids(found) == before


def test_a_killed_keeper_takes_its_task_with_it_and_both_come_back(up: Up) -> None:
    cluster = up()
    first = pids(cluster)["worker/0"]
    stat = Path(f"/proc/{first}/stat").read_text()
    kill(int(stat[stat.rindex(")") + 2 :].split()[1]))
    wait_until(lambda: (t := task(cluster, "worker/0")).state == "running" and t.incarnation == 2, "back")
    assert not Path(f"/proc/{first}").exists() or "Z" in Path(f"/proc/{first}/stat").read_text().split()[2]


def test_a_crash_loop_ends_in_crashed_with_the_last_lines(up: Up) -> None:
    cluster = up(crashing_worker(3))
    looping = wait_until(lambda: (t := task(cluster, "worker/0")).state == "crashed" and t, "gives up")
    assert looping.restarts == 2
    assert looping.exit_code == 3
    assert looping.last_lines == ("this stub is told to fail",)
    assert "exit code 3" in looping.last_error
    assert task(cluster, "ps/0").restarts == 0
    assert any("worker/0 is crashed" in problem for problem in cluster.status().problems)


def test_restart_failed_starts_only_what_gave_up_and_forgets_its_failures(up: Up) -> None:
    cluster = up(crashing_worker(3))
    wait_until(lambda: task(cluster, "worker/0").state == "crashed", "gives up")
    ps = pids(cluster)["ps/0"]
    assert cluster.restart("failed", wait_s=0).tasks == ("worker/0",)
    again = wait_until(lambda: (t := task(cluster, "worker/0")).restarts == 5 and t.state == "crashed" and t, "again")
    assert again.incarnation == 6
    assert pids(cluster)["ps/0"] == ps


def test_restart_failed_of_a_healthy_cluster_does_nothing(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    assert cluster.restart("failed").tasks == ()
    assert pids(cluster) == before


def test_restart_of_one_task_replaces_only_it(up: Up) -> None:
    cluster = up()
    before = pids(cluster)
    assert cluster.restart("worker/1").tasks == ("worker/1",)
    after = pids(cluster)
    assert {name for name in before if before[name] != after[name]} == {"worker/1"}
    assert task(cluster, "worker/1").state == "running"


def test_never_when_makes_an_exit_code_final(up: Up) -> None:
    spec = crashing_worker(3)
    rules = replace(spec.restart, never_when=replace(spec.restart.never_when, exit=(3,)))
    cluster = up(replace(spec, restart=rules))
    failed = wait_until(lambda: (t := task(cluster, "worker/0")).state == "failed" and t, "gives up at once")
    assert failed.restarts == 0


def test_what_is_stopped_stays_stopped(up: Up) -> None:
    cluster = up(spec_of(restart=Restart(delay=QUICK)))
    cluster.stop("worker/0")
    stopped = task(cluster, "worker/0")
    assert (stopped.state, stopped.incarnation) == ("stopped", 1)
    kill(controller_pid(cluster))
    kill(agent_pid_of(cluster))
    found = Cluster.open()
    wait_until(lambda: found.status().running == 2, "the others are adopted")
    assert task(found, "worker/0").state == "stopped"
    found.start("worker/0")
    assert task(found, "worker/0").incarnation == 2


def agent_pid_of(cluster: Cluster) -> int:
    return next(
        int(line.split()[0])
        for line in processes_of(cluster._connection.paths.folder)
        if "dtfctl.launcher.agent" in line
    )


def test_a_task_that_ignores_sigterm_is_killed_after_its_grace(up: Up) -> None:
    spec = spec_of(worker=1)
    cluster = up(replace(spec, tasks={**spec.tasks, "worker": TaskGroup(1, env={"STUB_DEAF": "1"})}))
    cluster.stop("worker/0", grace_s=0.3)
    assert task(cluster, "worker/0").exit_code == 137


def test_a_port_that_was_taken_meanwhile_is_replaced_and_the_peers_are_told(up: Up) -> None:
    cluster = up()
    cluster.stop("worker/0")
    address = task(cluster, "worker/0").address
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        thief.listen()
        cluster.start("worker/0")
        moved = task(cluster, "worker/0").address
    assert moved != address
    wait_until(lambda: f"address='{moved}', incarnation=2" in peer_notes(cluster, "ps/0"), "ps/0 knows the new address")


def test_wrong_selectors_are_errors(up: Up) -> None:
    cluster = up()
    with pytest.raises(NoSuchTask, match="worker/7"):
        cluster.restart("worker/7")
    with pytest.raises(UsageError, match="not a selector"):
        cluster.restart("worker/x")


def test_a_pattern_in_the_log_makes_a_failure_final(up: Up) -> None:
    spec = crashing_worker(3)
    rules = replace(spec.restart, never_when=replace(spec.restart.never_when, log=("told to [a-z]+$",)))
    cluster = up(replace(spec, restart=rules))
    failed = wait_until(lambda: (t := task(cluster, "worker/0")).state == "failed" and t, "gives up at once")
    assert failed.restarts == 0
    assert "its log matches 'told to [a-z]+$'" in failed.last_error


def test_a_task_over_its_memory_limit_is_ended_and_called_so(up: Up) -> None:
    spec = spec_of(worker=1, restart=Restart(attempts=0))
    cluster = up(replace(spec, tasks={**spec.tasks, "worker": TaskGroup(1, memory=2**20)}))
    over = wait_until(lambda: (t := task(cluster, "worker/0")).state == "crashed" and t, "ended")
    assert "out of memory: it used" in over.last_error
    assert "its limit is 1 MiB" in over.last_error
    assert task(cluster, "ps/0").state == "running"
