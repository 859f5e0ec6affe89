"""Many hosts: tasks move away from what is lost or set aside, and nothing of the old survives. Real agents and tasks,
several "hosts" on this machine; what needs real networks is in the lab."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.health.quarantine import ONE_INCIDENT_S
from dtfctl.launcher.errors import NoSuchHost, PartlyDone, UsageError
from dtfctl.launcher.messages.controller import LogsReply, LogsRequest
from dtfctl.launcher.messages.controller_calls import READ_LOGS
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator.controller_client import FOLLOW_S, Connection
from dtfctl.launcher.spec.model import (
    BadHostWhen,
    ClusterSpec,
    Delay,
    Health,
    Quarantine,
    Restart,
    TaskGroup,
)
from tests.cluster.conftest import kill, processes_of, wait_until
from tests.doubles.hosts import ManyHostCluster, hosts, live_copies

QUICK = Restart(attempts=20, delay=Delay(first=0.0, then=0.05, factor=1.0), move_after=1000)
NEVER = Quarantine(failures=1000)
Make = Callable[..., ManyHostCluster]


@pytest.fixture
def make(home: Path) -> Iterator[Make]:
    made: list[ManyHostCluster] = []

    def build(spec: ClusterSpec, *, wait: bool = True) -> ManyHostCluster:
        cluster = ManyHostCluster(spec.cluster)
        made.append(cluster)
        cluster.up(spec, wait=wait)
        return cluster

    yield build
    for cluster in made:
        cluster.close()
    assert not processes_of(home)


def spec_of(worker: int = 3, ps: int = 1, slots: int | None = 2, **changes: object) -> ClusterSpec:
    """ps and workers over a, b, c, with spare z."""
    groups = {"main": hosts("a", "b", "c", slots=slots), "extra": hosts("z", slots=slots, spare=True)}
    spec = ClusterSpec(
        "m", {"ps": TaskGroup(ps), "worker": TaskGroup(worker)}, host_groups=groups, restart=QUICK, quarantine=NEVER
    )
    return replace(spec, **changes)


def test_what_a_lost_host_had_runs_on_the_spare_and_a_mended_host_has_nothing_of_it(make: Make) -> None:
    cluster = make(spec_of())
    before = cluster.incarnations()
    assert "z" not in cluster.places().values()
    lost = {name for name, host in cluster.places().items() if host == "b"}
    cluster.cut("b")
    cluster.wait(lambda s: all(t.state == "running" and t.host != "b" for t in s.tasks), "all run elsewhere")
    after = cluster.incarnations()
    assert {name for name in before if after[name] != before[name]} == lost
    assert all(after[name] > before[name] + 100 for name in lost), "higher than what the lost host may start"
    assert cluster.host("b").state == "down"
    assert {cluster.places()[name] for name in lost} <= {"a", "c", "z"}
    assert sum(len(copies) for copies in live_copies(cluster, list(before)).values()) == 4 + len(lost)
    cluster.mend("b")
    cluster.wait(lambda s: next(h for h in s.hosts if h.name == "b").state == "up", "b is back")
    cluster.wait(
        lambda s: all(len(copies) == 1 for copies in live_copies(cluster, list(before)).values()), "the old are gone"
    )
    assert cluster.incarnations() == after, "what was moved stays where it is"
    assert [event.kind for event in cluster.events("host.") if event.subject == "host:b"][-4:-1] != []


def test_a_host_without_power_comes_back_to_the_pool(make: Make) -> None:
    cluster = make(spec_of(worker=2, slots=1))
    victim = cluster.places()["worker/0"]
    cluster.power_off(victim)
    cluster.wait(lambda s: all(t.state == "running" and t.host != victim for t in s.tasks), "moved")
    assert cluster.places()["worker/0"] == "z"
    cluster.power_on(victim)
    cluster.wait(lambda s: next(h for h in s.hosts if h.name == victim).state == "up", "back")
    # It is the only free one now.
    cluster.power_off("z")
    cluster.wait(lambda s: next(t for t in s.tasks if t.name == "worker/0").host == victim, "uses the returned host")
    cluster.wait(lambda s: all(t.state == "running" for t in s.tasks), "all run")


def test_without_a_place_elsewhere_tasks_wait_for_their_host(make: Make) -> None:
    groups = {"main": hosts("a", "b", slots=2)}
    cluster = make(spec_of(worker=3, host_groups=groups))
    before = cluster.incarnations()
    lost = {name for name, host in cluster.places().items() if host == "b"}
    cluster.cut("b")
    status = cluster.wait(lambda s: {t.name for t in s.tasks if t.state == "lost"} == lost and s, "lost")
    assert any("lost" in problem and "b" in problem for problem in status.problems)
    cluster.mend("b")
    cluster.wait(lambda s: all(t.state == "running" for t in s.tasks), "they go on")
    assert cluster.incarnations() == before, "nobody had to start again"


def test_a_drained_host_is_emptied_gently_and_takes_nothing_until_it_is_undrained(make: Make) -> None:
    cluster = make(spec_of())
    moved = {name for name, host in cluster.places().items() if host == "a"}
    before = cluster.incarnations()
    assert cluster.engine.call(lambda: cluster.engine.hosts.desire(["a"], "drain", "new disks")) == ["a"]
    cluster.wait(lambda s: all(t.state == "running" and t.host != "a" for t in s.tasks), "a is empty")
    after = cluster.incarnations()
    assert {name for name in before if after[name] != before[name]} == moved
    assert all(after[name] == before[name] + 1 for name in moved), "stopped first, then started elsewhere"
    assert (cluster.host("a").state, cluster.host("a").note) == ("drained", "new disks")
    assert "task.moved" in [event.kind for event in cluster.events("task.")]
    cluster.stop_controller()
    cluster.start_controller()
    cluster.wait(lambda s: all(t.state == "running" for t in s.tasks), "adopted")
    assert (cluster.host("a").state, cluster.incarnations()) == ("drained", after)
    cluster.engine.call(lambda: cluster.engine.hosts.desire(["a"], "undrain", ""))
    cluster.wait(lambda s: next(h for h in s.hosts if h.name == "a").state == "up", "back in the pool")
    with pytest.raises(NoSuchHost, match="no host 'x'"):
        cluster.engine.call(lambda: cluster.engine.hosts.desire(["x"], "drain", ""))
    with pytest.raises(UsageError):
        cluster.engine.call(lambda: cluster.engine.hosts.desire(["a"], "burn", ""))


def test_what_a_job_wrote_is_read_where_it_ran_before_it_moved(make: Make, tmp_path: Path) -> None:
    cluster = make(spec_of(worker=1))
    go, script = tmp_path / "go", tmp_path / "talks.py"
    script.write_text(
        f"#!{sys.executable}\nimport pathlib, time\nprint('began', flush=True)\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.05)\nprint('done', flush=True)\n"
    )
    job = cluster.api().submit(JobRequest(str(script), framework="command"))

    def output(*, follow: bool = False) -> list[str]:
        return [item.text for item in cluster.api().logs(f"job:{job}", follow=follow)]

    wait_until(lambda: output() == ["began"], "it has said so")
    first = cluster.places()["worker/0"]
    cluster.engine.call(lambda: cluster.engine.hosts.desire([first], "drain", "new disks"))
    wait_until(lambda: output() == ["began", "began"], "it has begun elsewhere")
    assert cluster.places()["worker/0"] != first
    go.touch()
    wait_until(lambda: cluster.api().job(job).state == "succeeded", "it has ended")
    assert output() == ["began", "began", "done"]
    cluster.stop_controller()
    cluster.start_controller()
    assert output() == ["began", "began", "done"]


def test_a_task_that_fails_twice_on_a_host_is_tried_on_another(make: Make) -> None:
    cluster = make(spec_of(restart=replace(QUICK, move_after=2)))
    host = cluster.places()["worker/0"]
    for incarnation in (1, 2):
        cluster.wait(
            lambda s, n=incarnation: (
                (t := next(t for t in s.tasks if t.name == "worker/0")).state == "running"
                and t.incarnation >= n
                and t.pid
            ),
            "runs",
        )
        cluster.kill_task("worker/0")
        cluster.wait(
            lambda s, n=incarnation: next(t for t in s.tasks if t.name == "worker/0").incarnation > n, "starts again"
        )
    cluster.wait(
        lambda s: (t := next(t for t in s.tasks if t.name == "worker/0")).state == "running" and t.host != host, "moved"
    )
    assert "failed 2 times" in next(e.reason for e in cluster.events("task.mov") if e.subject == "worker/0")


def test_a_log_rule_puts_the_blame_on_the_host_and_a_probe_ends_its_quarantine(make: Make) -> None:
    rules = replace(QUICK, bad_host_when=BadHostWhen(log=("Xid [0-9]+",)))
    spec = spec_of(worker=1, restart=rules, quarantine=Quarantine(failures=1000, lasts=3.0))
    spec = replace(spec, tasks={**spec.tasks, "worker": TaskGroup(1, env={"STUB_SAYS": "Xid 79"})})
    cluster = make(spec)
    host = cluster.places()["worker/0"]
    (cluster.paths.host(host) / "tasks" / "worker-0" / "fail").touch()
    cluster.wait(
        lambda s: (t := next(t for t in s.tasks if t.name == "worker/0")).state == "running" and t.host != host, "moved"
    )
    quarantined = next(event for event in cluster.events("host.quarantined"))
    assert (quarantined.subject, "Xid" in quarantined.reason) == (f"host:{host}", True)
    cluster.wait(lambda s: next(h for h in s.hosts if h.name == host).state == "up", "probed and released")
    assert "host.released" in [event.kind for event in cluster.events("host.")]


def test_a_host_with_more_failures_than_the_others_is_set_aside_until_it_is_released(make: Make) -> None:
    often = Restart(attempts=1000, delay=Delay(first=0.0, then=0.1, max=0.2), move_after=1000)
    spec = spec_of(worker=2, slots=1, restart=often, quarantine=Quarantine(failures=3, lasts=600.0))
    cluster = make(spec)
    host = cluster.places()["worker/0"]

    others = {name: place for name, place in cluster.places().items() if name != "worker/0"}
    for number in range(3):
        assert cluster.host(host).state == "up", f"after {number} failures"
        if number:
            time.sleep(ONE_INCIDENT_S + 0.1)  # what fails within seconds has one cause
        before = cluster.task("worker/0")
        kill(before.pid)
        cluster.wait(
            lambda s, life=before.incarnation: (
                (t := next(t for t in s.tasks if t.name == "worker/0")).incarnation > life and t.state == "running"
            ),
            "runs again",
        )
    cluster.wait(lambda s: next(h for h in s.hosts if h.name == host).state == "quarantined", "set aside")
    note = cluster.host(host).note
    assert note.startswith("for ") and "3 failures of tasks on it within" in note
    places = cluster.places()
    assert places.pop("worker/0") != host, "what has ended there starts elsewhere"
    assert places == others
    released = cluster.engine.call(lambda: cluster.engine.hosts.desire([host], "release", ""))
    assert released == [host]
    assert cluster.host(host).state == "up"
    assert [event.reason for event in cluster.events("host.released")] == ["by the user"]
    assert cluster.engine.call(lambda: cluster.engine.hosts.desire([host], "release", "")) == []


def test_scale_starts_and_stops_only_what_differs_and_the_others_hear_of_it(make: Make) -> None:
    cluster = make(spec_of(worker=2, slots=None))
    before = cluster.incarnations()
    pids = {task.name: task.pid for task in cluster.status().tasks}
    lines = cluster.engine.call(lambda: cluster.engine.tasks.scale({"worker": 4}, False)).lines
    assert [line.split(" on ")[0] for line in lines] == ["start worker/2", "start worker/3"]
    cluster.wait(lambda s: len(s.tasks) == 5 and all(t.state == "running" for t in s.tasks), "five run")
    assert {name: number for name, number in cluster.incarnations().items() if name in before} == before
    place = cluster.paths.host(cluster.places()["ps/0"]) / "tasks" / "ps-0" / "peers.jsonl"
    cluster.wait(lambda s: "PeerUp(job='worker', index=3" in place.read_text(), "ps/0 hears of worker/3")
    lines = cluster.engine.call(lambda: cluster.engine.tasks.scale({"worker": 1}, False)).lines
    assert lines == ("stop worker/1", "stop worker/2", "stop worker/3")
    cluster.wait(lambda s: len(live_copies(cluster, ["worker/1", "worker/2", "worker/3"])) == 0, "they are gone")
    cluster.wait(lambda s: "PeerGone(job='worker', index=3" in place.read_text(), "ps/0 hears that it is gone")
    left = cluster.status().tasks
    assert {task.name: task.pid for task in left} == {name: pids[name] for name in ("ps/0", "worker/0")}
    with pytest.raises(UsageError, match="no tasks called 'chief'"):
        cluster.engine.call(lambda: cluster.engine.tasks.scale({"chief": 1}, False))


def test_up_with_other_hosts_and_settings_changes_only_what_differs(make: Make) -> None:
    cluster = make(spec_of(worker=2, slots=1))
    before = cluster.incarnations()
    away = cluster.places()["worker/1"]
    left = [name for name in ("a", "b", "c") if name != away]
    groups = {"main": hosts(*left, slots=1), "extra": hosts("y", slots=1)}
    changes = cluster.up(spec_of(worker=2, slots=1, host_groups=groups, env={}))
    assert changes == (f"move worker/1 from {away} to y",)
    cluster.wait(lambda s: all(t.state == "running" and t.host != away for t in s.tasks), "moved")
    after = cluster.incarnations()
    assert {name for name in before if after[name] != before[name]} == {"worker/1"}
    cluster.wait(lambda s: sorted(h.name for h in s.hosts) == sorted([*left, "y"]), "the others' agents are gone")
    assert not cluster.processes(away)
    spec = spec_of(worker=2, slots=1, host_groups=groups)
    changed = replace(spec, tasks={**spec.tasks, "worker": TaskGroup(2, env={"A": "1"})})
    assert cluster.up(changed) == tuple(f"restart worker/{n}: its env changed" for n in (0, 1))
    cluster.wait(lambda s: [t.incarnation for t in s.tasks] == [1, after["worker/0"] + 1, after["worker/1"] + 1], "new")


def test_half_of_the_hosts_die_and_nothing_storms(make: Make) -> None:
    groups = {"main": hosts("a", "b", "c", "d", slots=2)}
    spec = spec_of(worker=7, host_groups=groups, health=Health(down_after=4.0))
    spec = replace(spec, tasks={**spec.tasks, "worker": TaskGroup(7, min=3)})
    cluster = make(spec)
    before = cluster.incarnations()
    for host in ("c", "d"):
        cluster.power_off(host)
    cluster.wait(lambda s: sum(t.state == "lost" for t in s.tasks) == 4, "half are lost")
    survivors = {name for name, host in cluster.places().items() if host in "ab"}
    assert {n: i for n, i in cluster.incarnations().items() if n in survivors} == {n: before[n] for n in survivors}
    usable = cluster.engine.read(cluster.engine.status)[2]
    assert usable is (sum(name.startswith("worker") for name in survivors) >= 3 and "ps/0" in survivors)
    for host in ("c", "d"):
        cluster.power_on(host)
    cluster.wait(lambda s: all(t.state == "running" for t in s.tasks), "all run again")


def test_a_controller_that_starts_while_a_host_is_lost_moves_its_tasks(make: Make) -> None:
    cluster = make(spec_of(worker=2, slots=1))
    victim = cluster.places()["worker/1"]
    cluster.stop_controller()
    cluster.power_off(victim)
    cluster.start_controller()
    cluster.wait(lambda s: all(t.state == "running" and t.host != victim for t in s.tasks), "moved", 90.0)
    assert cluster.task("worker/1").incarnation > 100


def test_what_others_wrote_is_read_while_agents_do_not_answer(make: Make) -> None:
    """The controller answers before who asked gives it up: two agents stand still, at first unnoticed."""
    groups = {"main": hosts("a", "b", "c", slots=1)}
    cluster = make(spec_of(worker=2, host_groups=groups))
    there = {name for name, host in cluster.places().items() if host == "c"}
    cluster.cut("a")
    cluster.cut("b")
    connection = Connection(cluster.paths)

    def read() -> LogsReply:
        reply = connection.channel().call(READ_LOGS, LogsRequest("all"), timeout_s=FOLLOW_S)
        assert not reply.final
        assert "c" not in reply.unreachable
        return reply

    try:
        wait_until(lambda: there == {chunk.next.process for chunk in read().chunks if chunk.data}, "what c has is read")
        cluster.wait(lambda s: [h.state for h in s.hosts] == ["down", "down", "up"], "both are given up")
        reply = read()
        assert there == {chunk.next.process for chunk in reply.chunks}
        assert reply.unreachable == ("a", "b")
        with pytest.raises(PartlyDone, match="no answer from a, b"):
            list(cluster.api().logs("all"))
    finally:
        connection.close()
