"""Many hosts that are cut off, lose power, are drained and come back, with a fake clock: whatever happens, a start
never repeats a number, what was stopped or given up stays so, and in the end every task runs once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings, strategies as st

from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.lease import Lease
from dtfctl.launcher.agent.units.lifecycle import (
    Order,
    Record,
    advance,
    ended,
    next_time,
    ready,
)
from dtfctl.launcher.agent.units.start_budget import StartBudget
from dtfctl.launcher.controller.decisions import moves, reconcile
from dtfctl.launcher.controller.decisions.moves import Standing
from dtfctl.launcher.controller.decisions.placement import place
from dtfctl.launcher.controller.state.store import Failure, TaskRow
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import Report, TaskReport
from dtfctl.launcher.model import ALIVE, GAVE_UP, TaskState, TaskStatus
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, Restart, TaskGroup
from tests.support.examples import examples

HOSTS = ("a", "b", "c", "z")
DOWN_AFTER_S = 5.0
LEASE_S = 15.0


def named(*names: str) -> tuple[HostName, ...]:
    return tuple(HostName(name) for name in names)


SPEC = ClusterSpec(
    "c",
    {"ps": TaskGroup(1), "worker": TaskGroup(3)},
    host_groups={"m": HostGroup(named("a", "b", "c"), slots=2), "s": HostGroup(named("z"), slots=2, spare=True)},
    restart=Restart(move_after=2),
)
NAMES = SPEC.task_names


@dataclass
class FakeAgent:
    """A host: what it was ordered, and its processes."""

    records: dict[str, Record] = field(default_factory=dict)
    orders: HostOrders = field(default_factory=HostOrders)
    lease: Lease = field(default_factory=Lease)
    budget: StartBudget = field(default_factory=StartBudget)
    is_cut: bool = False
    has_power: bool = True
    is_late: bool = False
    """What it is ordered reaches it when it has done its work of a turn: meanwhile it went on by itself."""
    worked_on: int = 0
    """The revision of the orders of which its records are the outcome."""

    def order_of(self, name: str) -> Order:
        """As `Agent._order_of`."""
        order = next((order for order in self.orders.tasks if order.name == name), None)
        if order is None:
            return Order(run=False, now=name in self.orders.expected)
        if self.lease.has_ended:
            return Order(run=False, grace_s=2.0)
        return Order(order.run, order.incarnation_floor, order.restart_request, order.grace_s)


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.rows = {name: TaskRow(name, host) for name, host in place(SPEC).items()}
        self.agents = {name: FakeAgent() for name in HOSTS}
        self.heard = dict.fromkeys(HOSTS, self.now)
        self.seen: dict[str, dict[str, TaskReport]] = {name: {} for name in HOSTS}
        self.told: dict[str, HostOrders] = {}
        """The newest orders of each host, whether they have reached it or not."""
        self.held = dict.fromkeys(HOSTS, 0)
        """The revision of the orders that its last report was the outcome of."""
        self.drained: set[str] = set()
        self.starts: dict[str, list[int]] = {}
        self.start_times: dict[str, list[float]] = {name: [] for name in HOSTS}
        self.controller_up = True

    def lost(self) -> set[str]:
        return {name for name in HOSTS if self.now - self.heard[name] > DOWN_AFTER_S}

    def standings(self) -> dict[str, Standing]:
        found = {}
        for name in HOSTS:
            if name in self.lost():
                found[name] = Standing(is_down=True, takes_new=False, why="lost")
            elif name in self.drained:
                found[name] = Standing(takes_new=False, keeps_running=False, why="drained")
            else:
                found[name] = Standing()
        return found

    def report(self, host: str) -> None:
        """What the controller hears of a host, and notes."""
        agent = self.agents[host]
        self.heard[host] = self.now
        self.held[host] = agent.worked_on
        self.seen[host] = {}
        for name, record in agent.records.items():
            job, _, index = name.partition("/")
            status = TaskStatus(job, int(index), record.state, incarnation=record.incarnation, address=f"{host}:{name}")
            self.seen[host][name] = TaskReport(status, record.restart_handled)
            row = self.rows.get(name)
            if row is None:
                continue
            row = replace(row, incarnation=max(row.incarnation, record.incarnation))
            if row.host == host and record.state in GAVE_UP and record.restart_handled >= row.restart_request:
                row = replace(row, gave_up=row.restart_request)
            self.rows[name] = row

    def turn(self, step_s: float = 0.5) -> None:
        self.now += step_s
        if self.controller_up:
            for host, agent in self.agents.items():
                if agent.has_power and not agent.is_cut:
                    self.report(host)
            where = {
                name: report.status
                for name, row in self.rows.items()
                if (report := self.seen[row.host].get(name)) is not None
            }
            for move in moves.moves(SPEC, self.rows, self.standings(), where, behind=self.behind()):
                self.rows[move.row.name] = move.row
            reports = {host: Report(host, tasks=tuple(seen.values())) for host, seen in self.seen.items()}
            desired = reconcile.Desired("c", SPEC, tuple(self.rows.values()))
            orders = reconcile.reconcile(desired, reconcile.Observed(reports, frozenset(self.lost())))
            for host, new in orders.items():
                known = self.told.get(host, HostOrders())
                if replace(new, revision=known.revision) != known:
                    self.told[host] = replace(new, revision=known.revision + 1)
        for host, agent in self.agents.items():
            if agent.has_power and not agent.is_late:
                self.deliver(host, agent)
        for host, agent in self.agents.items():
            if agent.has_power:
                self.work(host, agent)
                self.deliver(host, agent)

    def behind(self) -> set[str]:
        """As `HostManager.behind`."""
        return {host for host in HOSTS if host not in self.told or self.held[host] != self.told[host].revision}

    def deliver(self, host: str, agent: FakeAgent) -> None:
        if self.controller_up and not agent.is_cut and host not in self.lost():
            agent.orders = self.told[host]
            agent.lease.renew(self.now, LEASE_S, agent.lease.term)

    def work(self, host: str, agent: FakeAgent) -> None:
        agent.worked_on = agent.orders.revision
        if agent.lease.look(self.now) == "ask":
            # A controller that is only dead can be told from one that is cut off.
            agent.lease.answer(self.now, reachable=not agent.is_cut)
        for name in {*agent.records, *(order.name for order in agent.orders.tasks)}:
            record, order = agent.records.get(name, Record()), agent.order_of(name)
            if not record.is_alive and all(task.name != name for task in agent.orders.tasks):
                agent.records.pop(name, None)
                continue
            after, action = advance(record, order, self.now)
            if action == "start":
                if not agent.budget.take(self.now):
                    continue
                self.starts.setdefault(name, []).append(after.incarnation)
                self.start_times[host].append(self.now)
                after = ready(after)
            elif action is not None:
                after = self.after_end(agent, after, order, Ending(143, 15))
            agent.records[name] = after

    def after_end(self, agent: FakeAgent, record: Record, order: Order, ending: Ending) -> Record:
        return ended(record, order, reconcile.restart_policy(SPEC), ending, now=self.now, rand=0.5)

    def fail(self, name: str) -> None:
        for host, agent in self.agents.items():
            record = agent.records.get(name)
            if record is None or not record.is_alive:
                continue
            agent.records[name] = self.after_end(agent, record, agent.order_of(name), Ending(1))
            if not agent.is_cut and self.controller_up:
                row = self.rows[name]
                self.rows[name] = replace(row, failures=(*row.failures, Failure(host, self.now)))

    def settle(self) -> None:
        self.controller_up = True
        for agent in self.agents.values():
            agent.is_cut, agent.has_power, agent.is_late = False, True, False
        for _ in range(40):
            self.turn()
            times = [t for agent in self.agents.values() for r in agent.records.values() if (t := next_time(r))]
            self.now = max([self.now, *(t for t in times if t < self.now + 60.0)])

    def copies(self, name: str) -> list[str]:
        return [host for host, agent in self.agents.items() if (r := agent.records.get(name)) and r.is_alive]


FAULTS = st.one_of(
    st.tuples(st.sampled_from(["cut", "mend", "power off", "power on", "drain", "undrain"]), st.sampled_from(HOSTS)),
    st.tuples(st.sampled_from(["late", "prompt", "fail and drain"]), st.sampled_from(HOSTS)),
    st.tuples(st.sampled_from(["fail", "stop", "start", "restart"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["controller", "wait", "wait long"]), st.just("")),
)


def happen(world: World, what: str, name: str) -> None:
    if what in ("cut", "mend"):
        world.agents[name].is_cut = what == "cut"
    elif what in ("late", "prompt"):
        world.agents[name].is_late = what == "late"
    elif what == "fail and drain":
        for task in list(world.agents[name].records):
            world.fail(task)
        world.drained.add(name)
    elif what == "power off":
        agent = world.agents[name]
        agent.has_power = False
        # After a boot nothing runs, but what was on the disk is known.
        agent.records = {
            task: replace(record, state="pending" if record.is_alive else record.state, retry_at=None, kill_at=None)
            for task, record in agent.records.items()
        }
    elif what == "power on":
        world.agents[name].has_power = True
    elif what == "drain":
        world.drained.add(name)
    elif what == "undrain":
        world.drained.discard(name)
    elif what == "fail":
        world.fail(name)
    elif what in ("stop", "start"):
        world.rows[name] = replace(world.rows[name], run=what == "start")
    elif what == "restart":
        row = world.rows[name]
        world.rows[name] = replace(row, run=True, restart_request=row.restart_request + 1, failures=())
    elif what == "controller":
        world.controller_up = not world.controller_up
    for _ in range({"wait": 4, "wait long": 50}.get(what, 1)):
        world.turn()


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(FAULTS, max_size=25))
@example([("drain", "a"), ("drain", "b"), ("drain", "z")])
@example([("drain", "z"), ("drain", "b"), ("drain", "c")])
@example([("late", "a"), ("fail and drain", "a")])
def test_whatever_befalls_the_hosts_every_task_runs_once_in_the_end(faults: list[tuple[str, str]]) -> None:
    world = World()
    for _ in range(3):
        world.turn()
    for what, name in faults:
        happen(world, what, name)
        for task in NAMES:
            numbers = [world.agents[host].records[task].incarnation for host in world.copies(task)]
            assert len(numbers) == len(set(numbers)), f"two live copies of {task} have the same number"
    world.settle()
    for name, row in world.rows.items():
        copies = world.copies(name)
        if not row.run or row.is_final:
            assert copies == [], f"{name} runs though it was stopped or given up"
        else:
            assert copies == [row.host], f"{name} runs on {copies}, wanted on {row.host}"
        assert not row.move_to or row.host in world.drained
    for name, numbers in world.starts.items():
        assert len(numbers) == len(set(numbers)), f"a number of {name} was used twice: {numbers}"
    places = [row.host for row in world.rows.values()]
    assert all(places.count(host) <= 2 for host in HOSTS), "a host has more tasks than slots"


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(FAULTS, max_size=15), st.sampled_from(NAMES))
def test_what_is_stopped_or_given_up_stays_so_on_whatever_host(faults: list[tuple[str, str]], name: str) -> None:
    world = World()
    world.turn()
    world.rows[name] = replace(world.rows[name], run=False)
    for _ in range(3):
        world.turn()
    before = len(world.starts.get(name, []))
    for what, target in faults:
        if target != name:
            happen(world, what, target)
    world.settle()
    assert len(world.starts.get(name, [])) == before
    assert world.copies(name) == []


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=4, unique=True), st.integers(0, 60))
def test_no_storm_and_no_false_start_when_hosts_are_lost(lost: list[str], turns: int) -> None:
    world = World()
    for _ in range(3):
        world.turn()
    assert sum(len(numbers) for numbers in world.starts.values()) == len(NAMES)
    for host in lost:
        happen(world, "cut", host)
    for _ in range(turns):
        world.turn()
    world.settle()
    starts = sum(len(numbers) for numbers in world.starts.values()) - len(NAMES)
    assert starts <= 2 * len(NAMES), "each task was moved at most once and started again at most once"
    for times in world.start_times.values():
        assert all(sum(start <= t < start + 1.0 for t in times) <= 10 for start in times)


def test_a_moved_task_has_a_higher_number_than_what_the_lost_host_starts_by_itself() -> None:
    world = World()
    for _ in range(3):
        world.turn()
    host = world.rows["worker/0"].host
    world.agents[host].is_cut = True
    world.fail("worker/0")
    for _ in range(16):
        world.turn()
        alive = {h: world.agents[h].records["worker/0"].incarnation for h in world.copies("worker/0")}
        assert len(set(alive.values())) == len(alive)
    moved_to = world.rows["worker/0"].host
    assert moved_to != host
    assert max(alive, key=lambda h: alive[h]) == moved_to
    world.settle()
    assert world.copies("worker/0") == [moved_to]


def test_a_task_that_its_host_starts_again_by_itself_is_not_given_the_same_number_elsewhere() -> None:
    world = World()
    for _ in range(3):
        world.turn()
    host = world.rows["worker/0"].host
    world.agents[host].is_late = True
    world.fail("worker/0")  # its agent starts it again in the next turn, before it hears of anything new
    world.drained.add(host)
    for _ in range(12):
        world.turn()
        assert len(world.copies("worker/0")) <= 1
    numbers = world.starts["worker/0"]
    assert len(numbers) == len(set(numbers))
    assert world.copies("worker/0") == [world.rows["worker/0"].host] != [host]


def test_a_drained_hosts_task_is_never_alive_twice() -> None:
    world = World()
    world.turn()
    host = world.rows["worker/0"].host
    world.drained.add(host)
    for _ in range(20):
        world.turn()
        assert all(len(world.copies(name)) <= 1 for name in NAMES)
    assert all(row.host != host for row in world.rows.values())


STATES: list[TaskState] = ["pending", "starting", "running", "stopping", "done", "failed", "crashed", "stopped"]


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(HOSTS), st.sampled_from((*NAMES, "worker/9", "chief/0"))),
        st.tuples(st.sampled_from(STATES), st.integers(0, 9)),
        max_size=12,
    )
)
def test_from_any_observed_state_it_converges(found: dict[tuple[str, str], tuple[TaskState, int]]) -> None:
    """Agents may have anything: copies on wrong hosts, tasks nobody knows."""
    world = World()
    for (host, name), (state, incarnation) in found.items():
        kill_at = world.now if state == "stopping" else None
        world.agents[host].records[name] = Record(state, incarnation, kill_at=kill_at)
    world.settle()
    for name, row in world.rows.items():
        record = world.agents[row.host].records[name]
        gave_up = record.state in GAVE_UP
        assert world.copies(name) == ([] if gave_up else [row.host])
    for host, agent in world.agents.items():
        for name, record in agent.records.items():
            assert record.state not in ALIVE or world.rows[name].host == host
