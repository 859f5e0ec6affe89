"""Where spares stand in."""

from __future__ import annotations

import pytest

from dtfctl.launcher.controller.decisions.moves import Standing, moves
from dtfctl.launcher.controller.decisions.placement import fill, place, rooms
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.model import LinkStatus
from dtfctl.launcher.spec import load_spec, parse_spec
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, TaskGroup
from tests.unit.cli.harness import ROOT

GROUPS = (
    "hosts: {main: {names: 'a,b', slots: 1}, other: {names: c, slots: 1}, spares: {names: z, slots: 1, spare: true}}"
)


@pytest.mark.parametrize(
    ("hosts", "worker_goes_to"),
    [("main", "z"), ("[main, spares]", "z")],
)
def test_a_spare_takes_what_a_lost_host_had(hosts: str, worker_goes_to: str) -> None:
    spec = parse_spec(f"cluster: c\n{GROUPS}\ntasks: {{worker: {{count: 2, hosts: {hosts}}}, ps: {{hosts: other}}}}\n")
    placed = place(spec)
    assert placed == {"worker/0": "a", "worker/1": "b", "ps/0": "c"}
    left = {name: host for name, host in placed.items() if host != "b"}
    assert fill(spec, rooms(spec, closed={"b"}), left, ["worker/1"]) == {"worker/1": worker_goes_to}


def test_a_spare_that_one_group_names_is_for_that_group_alone() -> None:
    tasks = "{worker: {count: 2, hosts: [main, spares]}, ps: {hosts: other}}"
    spec = parse_spec(f"cluster: c\n{GROUPS}\ntasks: {tasks}\n")
    assert fill(spec, rooms(spec, closed={"c"}), {}, ["ps/0"]) == {}
    unnamed = parse_spec(f"cluster: c\n{GROUPS}\ntasks: {tasks.replace('[main, spares]', 'main')}\n")
    assert fill(unnamed, rooms(unnamed, closed={"c"}), {}, ["ps/0"]) == {"ps/0": "z"}


def link(source: str, target: str, bytes_s: float) -> LinkStatus:
    return LinkStatus(source, target, 1e-4, bytes_s, 1.0)


def test_a_ps_goes_where_ways_are_good() -> None:
    spec = parse_spec("cluster: c\nhosts: {all: {names: 'a,b,c', slots: 1}}\ntasks: {ps: 1, worker: 2}\n")
    assert place(spec)["ps/0"] == "a", "where nothing is known, in the order of the file"
    slow = [link("a", "b", 9e6), link("b", "a", 8e7), link("a", "c", 9e6), link("b", "c", 9e7), link("c", "b", 9e7)]
    placed = place(spec, links=slow)
    assert placed == {"ps/0": "b", "worker/0": "a", "worker/1": "c"}
    assert place(spec, placed, links=[])["ps/0"] == "b", "what runs stays"


def test_a_ps_goes_where_most_hosts_are() -> None:
    hosts = "{one: {names: a, slots: 1, rack: r1}, two: {names: 'b,c', slots: 1, rack: r2}}"
    spec = parse_spec(f"cluster: c\nhosts: {hosts}\ntasks: {{ps: 1, worker: 2}}\n")
    assert place(spec) == {"ps/0": "b", "worker/0": "a", "worker/1": "c"}


def test_the_spares_of_the_rack_example_are_of_use() -> None:
    spec = load_spec(ROOT / "cluster-examples" / "rack.yaml")
    lost = {host.name for host in spec.hosts if host.group == "compute"}
    found = fill(spec, rooms(spec, closed=lost), {}, ["worker/0", "worker/1"])
    groups = {host.name: host.group for host in spec.hosts}
    assert {name: groups[host] for name, host in found.items()} == {"worker/0": "reserve", "worker/1": "reserve"}


SPOT = HostGroup(tuple(HostName(name) for name in "abcd"), min=2)


def test_workers_of_a_host_that_is_away_do_not_crowd_the_others() -> None:
    spec = ClusterSpec("c", {"ps": TaskGroup(1), "worker": TaskGroup(4)}, host_groups={"spot": SPOT})
    placed = place(spec)
    assert sorted(host for name, host in placed.items() if name.startswith("worker")) == ["a", "b", "c", "d"]
    rows = {name: TaskRow(name, host) for name, host in placed.items()}
    down = {placed["ps/0"]: Standing(is_down=True, takes_new=False, why="lost")}
    needed = {"ps/0", "worker/3"}
    found = {move.row.name for move in moves(spec, rows, down, {}, needed=needed)}
    lost = {name for name, host in placed.items() if host in down}
    assert found == lost & needed, "what jobs cannot do without, and nothing else"
    moved = {move.row.name: move.row.host for move in moves(spec, rows, down, {}, needed=needed)}
    assert place(spec, {**placed, **moved}, closed=down) == {**placed, **moved}, "and it stays there"


def test_slots_are_exceeded_only_by_what_jobs_cannot_do_without() -> None:
    group = HostGroup(tuple(HostName(name) for name in "ab"), min=1, slots=2)
    spec = ClusterSpec("c", {"ps": TaskGroup(1), "worker": TaskGroup(3)}, host_groups={"spot": group})
    placed = place(spec)
    rows = {name: TaskRow(name, host) for name, host in placed.items()}
    down = {placed["ps/0"]: Standing(is_down=True, takes_new=False, why="lost")}
    assert [move.row.name for move in moves(spec, rows, down, {}, needed={"ps/0"})] == ["ps/0"]
    assert moves(spec, rows, down, {}) == []
