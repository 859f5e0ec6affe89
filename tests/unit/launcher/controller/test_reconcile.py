"""Orders, hosts and jobs together: from any history of faults the simulated cluster reaches what is wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.health.monitor import HealthLimits, Monitor
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.units.lifecycle import (
    Order,
    Record,
    advance,
    ended,
    next_time,
    ready,
)
from dtfctl.launcher.controller.decisions import job_queue, placement, reconcile
from dtfctl.launcher.controller.state import job_lifecycle
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.controller.workloads.statuses import Host, task_statuses
from dtfctl.launcher.messages.deltas import remembered
from dtfctl.launcher.messages.orders import ClientOrder, HostOrders, Peer, TaskOrder
from dtfctl.launcher.messages.reports import ClientReport, Report, TaskReport
from dtfctl.launcher.model import Framework, JobRequest, TaskStatus
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, TaskGroup
from dtfctl.values import replace as replace_peer
from tests.support.examples import examples

SPEC = ClusterSpec(
    "c",
    {"ps": TaskGroup(1), "worker": TaskGroup(2)},
    host_groups={"all": HostGroup((HostName("a"), HostName("b")))},
)
NO_LINK: Any = None
"""Nothing is sent here."""
NAMES = ("ps/0", "worker/0", "worker/1")


class World:
    """A controller and two hosts without processes, network or clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rows = [TaskRow(name, host) for name, host in placement.place(SPEC).items()]
        self.jobs: list[job_lifecycle.JobRecord] = []
        self.orders: dict[str, HostOrders] = {}
        self.records: dict[str, dict[str, Record]] = {"a": {}, "b": {}}
        self.starts: dict[str, list[int]] = {}
        self.controller_up = True

    def reports(self) -> dict[str, Report]:
        found = {}
        for host, records in self.records.items():
            tasks, clients = [], []
            for name, record in records.items():
                if name.startswith("job:"):
                    _, job_id, task = name.split(":")
                    job, _, index = task.partition("/")
                    code = record.exit_code
                    order = next((o for o in self.orders[host].clients if o.name == name), None)
                    clients.append(
                        ClientReport(
                            job_id,
                            job,
                            int(index),
                            record.state,
                            exit_code=code,
                            generation=record.restart_handled if record.incarnation else 0,
                            held=0 if order is None else order.generation,
                            addresses=(f"{host}:{order.generation}",) if order is not None and order.ports else (),
                        )
                    )
                else:
                    job, _, index = name.partition("/")
                    handled = record.restart_handled
                    address = f"{host}:{name}"
                    status = TaskStatus(job, int(index), record.state, incarnation=record.incarnation, address=address)
                    tasks.append(TaskReport(status, handled))
            found[host] = Report(host, tasks=tuple(tasks), clients=tuple(clients))
        return found

    def controller_turn(self) -> None:
        if not self.controller_up:
            return
        reports = self.reports()
        tasks = task_statuses(self.rows, {name: seen_host(report) for name, report in reports.items()})
        view = job_lifecycle.JobView(
            {
                job.id: {c.name: c for report in reports.values() for c in report.clients if c.job_id == job.id}
                for job in self.jobs
            },
            {row.name: row.host for row in self.rows},
        )
        self.jobs = [job_lifecycle.step(job, view, {task.name: task for task in tasks}, self.now) for job in self.jobs]
        self.jobs = job_queue.schedule(self.jobs, tasks, {}, self.now)
        desired = reconcile.Desired("c", SPEC, tuple(self.rows), tuple(self.jobs))
        self.orders = reconcile.reconcile(desired, reconcile.Observed(reports))

    def hosts_turn(self) -> None:
        for host, records in self.records.items():
            orders = self.orders.get(host, HostOrders())
            wanted: dict[str, TaskOrder | ClientOrder] = {order.name: order for order in orders.tasks}
            wanted |= {order.name: order for order in orders.clients}
            for name in {*records, *wanted}:
                record, order = records.get(name, Record()), wanted.get(name)
                if order is None and not record.is_alive:
                    records.pop(name, None)
                    continue
                at = lifecycle_order(order)
                record, action = advance(record, at, self.now)
                if action == "start":
                    self.starts.setdefault(name, []).append(record.incarnation)
                    record = ready(record)
                elif action is not None:
                    policy = order.restart if isinstance(order, ClientOrder) else orders.restart
                    record = ended(record, at, policy, Ending(143, 15), now=self.now, rand=0.5)
                records[name] = record
        self.check_groups()

    def check_groups(self) -> None:
        """Processes of two starts of a group never run at once: they would meet."""
        alive: dict[str, set[int]] = {}
        for records in self.records.values():
            for name, record in records.items():
                job = next((job for job in self.jobs if name.startswith(f"job:{job.id}:")), None)
                if job is not None and job.framework.has_ports and record.is_alive:
                    alive.setdefault(job.id, set()).add(record.restart_handled)
        assert all(len(generations) == 1 for generations in alive.values()), alive

    def turn(self) -> None:
        self.controller_turn()
        self.hosts_turn()

    def settle(self) -> None:
        """Let time pass until nothing changes any more."""
        self.controller_up = True
        for _ in range(60):
            self.turn()
            times = [t for records in self.records.values() for r in records.values() if (t := next_time(r))]
            self.now = max([self.now + 0.1, *times])

    def end(self, name: str, code: int) -> None:
        for host, records in self.records.items():
            record = records.get(name)
            if record is None or not record.is_alive:
                continue
            orders = self.orders[host]
            order = next((o for o in (*orders.tasks, *orders.clients) if o.name == name), None)
            policy = order.restart if isinstance(order, ClientOrder) else orders.restart
            ending = Ending(code, 9 if code == 137 else None)
            records[name] = ended(record, lifecycle_order(order), policy, ending, now=self.now, rand=0.5)


def lifecycle_order(order: TaskOrder | ClientOrder | None) -> Order:
    if order is None:
        return Order(run=False)
    if isinstance(order, TaskOrder):
        return Order(order.run, order.incarnation_floor, order.restart_request)
    return Order(order.run, restart_request=order.generation)


def seen_host(report: Report) -> Host:
    host = Host(NO_LINK, Monitor(HealthLimits()))
    host.report, host.state = report, "up"
    host.tasks = {task.name: task for task in report.tasks}
    return host


FAULTS = st.one_of(
    st.tuples(st.just("kill"), st.sampled_from(NAMES)),
    st.tuples(st.just("kill client"), st.sampled_from(NAMES[1:])),
    st.tuples(st.just("stop"), st.sampled_from(NAMES)),
    st.tuples(st.just("start"), st.sampled_from(NAMES)),
    st.tuples(st.just("restart"), st.sampled_from(NAMES)),
    st.tuples(st.just("submit"), st.sampled_from(["dtf", "torch", "tensorflow"])),
    st.tuples(st.just("fail client"), st.sampled_from(NAMES[1:])),
    st.tuples(st.just("cancel"), st.just("")),
    st.tuples(st.just("controller"), st.just("")),
    st.tuples(st.just("wait"), st.just("")),
)


def happen(world: World, what: str, name: str) -> None:
    at = next((at for at, row in enumerate(world.rows) if row.name == name), 0)
    if what == "kill":
        world.end(name, 137)
    elif what == "kill client" and world.jobs:
        world.end(f"job:{world.jobs[-1].id}:{name}", 137)
    elif what == "fail client" and world.jobs:
        world.end(f"job:{world.jobs[-1].id}:{name}", 3)
    elif what in ("stop", "start"):
        world.rows[at] = replace(world.rows[at], run=what == "start")
    elif what == "restart":
        row = world.rows[at]
        world.rows[at] = replace(row, run=True, restart_request=row.restart_request + 1)
    elif what == "submit":
        number = len(world.jobs) + 1
        request = JobRequest("t.py", framework=cast(Framework, name or "dtf"), retries=1)
        record = job_lifecycle.JobRecord(f"j-{number}", request, "t.py", "/", "/", world.now, seq=number)
        world.jobs.append(record)
    elif what == "cancel" and world.jobs:
        world.jobs[-1] = job_lifecycle.cancel(world.jobs[-1], 1.0)
    elif what == "controller":
        world.controller_up = not world.controller_up
    else:
        world.now += 1.0
    world.turn()


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(FAULTS, max_size=25))
def test_whatever_happened_the_cluster_reaches_what_is_wanted(faults: list[tuple[str, str]]) -> None:
    world = World()
    world.turn()
    for what, name in faults:
        happen(world, what, name)
    world.settle()
    for row in world.rows:
        state = world.records[row.host][row.name].state
        assert state in ({"running", "crashed"} if row.run else {"stopped", "crashed"}), row.name
    for starts in world.starts.values():
        assert starts == sorted(set(starts)), "an incarnation was used twice"
    active = [job for job in world.jobs if job.is_active]
    assert len(active) <= 1
    if all(row.run for row in world.rows) and not any(
        record.state == "crashed" for records in world.records.values() for record in records.values()
    ):
        waiting = [job for job in world.jobs if job.state == "queued"]
        assert active or not waiting, "a job waits though everything runs"
    clients = [name for records in world.records.values() for name in records if name.startswith("job:")]
    allowed = {f"job:{job.id}:{task}" for job in active for task in NAMES}
    assert set(clients) <= allowed, "a process of a job that has ended is left"


def test_two_faultless_jobs_run_one_after_the_other() -> None:
    world = World()
    world.settle()
    happen(world, "submit", "")
    happen(world, "submit", "")
    world.settle()
    assert [job.state for job in world.jobs] == ["running", "queued"]
    for task in ("worker/0", "worker/1"):
        world.end(f"job:j-1:{task}", 0)
    world.settle()
    assert [job.state for job in world.jobs] == ["succeeded", "running"]


def test_what_a_new_controller_has_not_heard_of_yet_is_not_forgotten() -> None:
    ps, other = Peer("ps", 0, "a:1", 3, up=True), Peer("worker", 0, "b:2", 1, up=True)
    before = HostOrders(peers=(ps, other), expected=("ps/0", "worker/0", "worker/1"))
    unheard = HostOrders(epoch=2, peers=(replace_peer(other, incarnation=2),), expected=before.expected)
    assert remembered(before, unheard).peers == (replace_peer(other, incarnation=2), ps)
    scaled = HostOrders(epoch=2, peers=(other,), expected=("worker/0", "worker/1"))
    assert remembered(before, scaled) == scaled, "it is out of the cluster"
    here = HostOrders(epoch=2, tasks=(TaskOrder("ps", 0),), peers=(other,), expected=before.expected)
    assert remembered(before, here) == here, "it is to run on this host now"
