"""Where a task and a job's process differ in the one life of a unit: what its hooks say."""

from __future__ import annotations

import selectors
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.health.beats import Beat
from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.units import state_file
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.job_unit import JobUnit
from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.agent.units.supervisor import Supervisor
from dtfctl.launcher.agent.units.task_unit import TaskUnit
from dtfctl.launcher.identity.keyring import Keyring
from dtfctl.launcher.messages.orders import ADDRESS_IN_USE_EXIT, ClientOrder, HostOrders, TaskOrder
from dtfctl.launcher.system.procfs import boot_id

RUNNING = Record(state="running", incarnation=1, port=4000)


def task(state: HostUnits, record: Record = RUNNING) -> TaskUnit:
    unit = state.tasks["ps/0"] = TaskUnit("ps/0", record, state)
    unit.order = TaskOrder("ps", 0)
    return unit


def process(state: HostUnits, record: Record = RUNNING) -> JobUnit:
    unit = state.jobs["job:j-1:worker/0"] = JobUnit("job:j-1:worker/0", record, state)
    unit.order = ClientOrder("j-1", "worker", 0, slot="ps/0")
    return unit


def events(state: HostUnits) -> list[tuple[str, str]]:
    _, report = state.reports.wait(0, 0.0)
    return [(item.kind, item.subject) for item in report.happenings]


def test_only_a_task_gets_another_port_where_its_own_was_taken(state: HostUnits) -> None:
    ending = Ending(ADDRESS_IN_USE_EXIT)
    assert task(state).record_at_end(ending).port == 0
    assert process(state).record_at_end(ending).port == 4000, "the script's exit code means what the script says"


def test_what_a_task_has_to_say_is_an_event_once(state: HostUnits) -> None:
    unit = task(state)
    unit.watch(state.orders.health, 0.0)

    def beat(*news: str) -> None:
        unit.hear(Beat("ps/0", 1, True, 0, news=news), 0.0)

    beat("3 told to the agent before this one")
    beat("3 told to the agent before this one", "4 now")
    beat("4 now", "5 then")
    _, report = state.reports.wait(0, 0.0)
    told = [(item.kind, item.reason) for item in report.happenings]
    assert told == [("group.rerouted", "now"), ("group.rerouted", "then")]


def test_memory_that_ran_out_ends_a_job_for_good_and_a_task_for_now(state: HostUnits) -> None:
    killed = Ending(137, signal=9)
    record, ending = task(state).on_out_of_memory(RUNNING, killed, "too much")
    assert (record.hung, record.out_of_memory, ending.final) == ("too much", True, False)
    record, ending = process(state).on_out_of_memory(RUNNING, killed, "too much")
    assert (record.hung, record.out_of_memory, ending.final) == ("too much", True, True)
    done = Ending(0)
    assert process(state).on_out_of_memory(RUNNING, done, "too much") == (RUNNING, done), "it had done its work"


def test_what_is_wanted_of_those_nobody_speaks_of_any_more(state: HostUnits) -> None:
    moved, left = task(state), process(state)
    moved.order = left.order = None
    state.expected = frozenset({"ps/0"})
    assert moved.wanted().now, "it runs on another host by now"
    assert (left.wanted().run, left.wanted().now) == (False, False)
    state.expected = frozenset()
    assert not moved.wanted().now, "it was taken out of the cluster: it may end as it likes"
    state.shutdown_grace_s = 3.0
    assert (moved.wanted().grace_s, left.wanted().grace_s) == (3.0, 3.0)
    state.is_cut_off = True
    assert "cut off" in moved.wanted().why and "cut off" in left.wanted().why


def test_restarts_follow_the_hosts_rules_or_the_jobs(state: HostUnits) -> None:
    rules = RestartPolicy(limited=True, attempts=5)
    mine, own = task(state), process(state)
    assert mine.order is not None and own.order is not None
    mine.order = replace(mine.order, earlier_failures=2, earlier_hosts=1)
    assert (mine.policy(rules).earlier, mine.policy(rules).earlier_hosts) == (2, 1), "those of other hosts count"
    own.order = replace(own.order, restart=RestartPolicy(when="never"))
    assert own.policy(rules).when == "never"


def test_a_job_waits_for_its_task_and_a_task_for_all_addresses(state: HostUnits) -> None:
    mine, own = task(state, Record()), process(state, Record())
    assert not mine.may_start() and not own.may_start()
    state.places_known = True
    assert mine.may_start() and not own.may_start()
    mine.record = RUNNING
    assert own.may_start()


def test_what_a_change_is_called_and_who_hears_of_it(state: HostUnits) -> None:
    mine, own = task(state), process(state, Record())
    state.set(own, replace(own.record, state="stopped"))
    assert events(state) == [], "a process that is held until all of its job may start is no news"
    state.set(mine, replace(RUNNING, state="crashed"))
    state.set(own, replace(RUNNING, state="failed"))
    assert events(state) == [("task.crashed", "ps/0"), ("process.failed", "job:j-1:worker/0")]


@pytest.mark.parametrize("processes", [("job:j-1:worker/0", "job:j-2:worker/0"), ()])
def test_a_new_agent_knows_tasks_from_processes_of_jobs(folder: Path, processes: tuple[str, ...]) -> None:
    """By what was stored; in the file of an older version, by the orders."""
    orders = HostOrders(clients=(ClientOrder("j-1", "worker", 0),), tasks=(TaskOrder("ps", 0),))
    names = ["ps/0", "job:j-1:worker/0", *processes[1:]]
    records = {name: Record(state="done", incarnation=1) for name in names}
    state_file.save(folder / state_file.FILE, state_file.Saved(boot_id(), str(folder), orders, records, processes))
    with selectors.DefaultSelector() as selector:
        keyring = Keyring("a", folder / "certificates", folder)
        found = Supervisor("a", folder, folder / "logs", keyring, "127.0.0.1", selector)
        try:
            assert list(found.state.tasks) == ["ps/0"]
            assert list(found.state.jobs) == names[1:]
            assert found.state.jobs["job:j-1:worker/0"].order == orders.clients[0]
            again = state_file.load(folder / state_file.FILE)
            assert again.processes == tuple(names[1:]) and again.records == records
        finally:
            found.close()
