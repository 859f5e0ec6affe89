"""Where spares stand in."""

from __future__ import annotations

import pytest

from dtfctl.launcher.controller.decisions.placement import fill, place, rooms
from dtfctl.launcher.spec import load_spec, parse_spec
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


def test_the_spares_of_the_rack_example_are_of_use() -> None:
    spec = load_spec(ROOT / "cluster-examples" / "rack.yaml")
    lost = {host.name for host in spec.hosts if host.group == "compute"}
    found = fill(spec, rooms(spec, closed=lost), {}, ["worker/0", "worker/1"])
    groups = {host.name: host.group for host in spec.hosts}
    assert {name: groups[host] for name, host in found.items()} == {"worker/0": "reserve", "worker/1": "reserve"}
