"""Simulated training: what processors and cables do, and that it grows as it must."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from dtfctl.simulate import collectives
from dtfctl.simulate.collectives import Codec, Group, seconds
from dtfctl.simulate.engine import Cable, Clock, Host
from dtfctl.simulate.fitting import (
    CROWDS,
    KINDS,
    KINDS_OF_CROWDS,
    KINDS_OVER_PS,
    LAYER,
    LAYERS,
    MANY,
    SHORT,
    OverPs,
    Took,
    fitted,
)
from dtfctl.simulate.strategies import STRATEGIES, Model, Outcome, Scenario, simulate
from dtfctl.simulate.world import Machine, Places, World

ALIKE: dict[str, Any] = {f"{what}_{each}": 1.0 for what in ("messages", "copies") for each in (2, 4, 8)}
ALIKE |= {f"busy_{each}": 1.0 for each in (2, 4, 8)} | {f"computes_{each}": 1.0 for each in (1, 2, 4, 8)}
FREE = ("message_s", "hop_s", "inside_s", "between_s", "wire_s", "step_s", "wait_s", "again_s", "hop_wait_s", "ask_s")
ALIKE |= dict.fromkeys((*FREE, "serve_s", "variable_s", "spared", "spread"), 0.0)
PLAIN = Machine(slowdown=1.0, crowded=1.0, **ALIKE)
MODEL = Model("m", (4_000_000,), 0.01, batch=10)


def test_who_works_on_a_host_shares_its_processors() -> None:
    clock, ended = Clock(), []
    host = Host(clock, cores=2)
    for name, work in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        host.work(work, lambda name=name: ended.append((name, round(clock.now, 6))))  # type: ignore[misc]
    clock.run()
    # Three on two processors get two thirds each, until two are done; then one has one for itself.
    assert ended == [("a", 1.5), ("b", 1.5), ("c", 2.5)]
    assert host.used_s == pytest.approx(4.0)


def test_work_beside_work_is_slower() -> None:
    clock, ended = Clock(), []
    host = Host(clock, 2, slowdown=1.5, crowded=2.0)
    for _ in range(2):
        host.work(1.0, lambda: ended.append(clock.now))
    clock.run()
    for _ in range(4):
        host.work(1.0, lambda: ended.append(clock.now - ended[0]))
    clock.run()
    assert ended == pytest.approx([1.5, 1.5, 4.0, 4.0, 4.0, 4.0])


def test_a_cable_carries_one_after_the_other() -> None:
    cable = Cable(100.0)
    assert cable.carry(100, 0.0, 0.0) == (0.0, 1.0)
    assert cable.carry(50, 0.5, 0.5) == (1.0, 1.5)
    assert cable.carry(10, 5.0, 9.0) == (5.0, 9.0), "what comes more slowly leaves so"


@pytest.mark.parametrize("order", ["ring", "halving"])
def test_between_hosts_bytes_take_what_the_links_give(order: str) -> None:
    """Of 4 members each sends 2 * 3/4 of the array, and nothing else takes time."""
    machine = replace(PLAIN, copy_bytes_s=1e15, cached_bytes_s=1e15, link_bytes_s=1e9)
    took = seconds(Group(World(machine, Places(range(4))), range(4), order), 400_000_000)
    assert took == pytest.approx(0.6, rel=0.05)


def test_racks_share_a_cable_and_hierarchical_needs_it_least() -> None:
    machine = replace(PLAIN, link_bytes_s=1e10, rack_bytes_s=1e8)
    places = Places(range(8), (0, 0, 0, 0, 1, 1, 1, 1))
    took = {order: seconds(Group(World(machine, places), range(8), order), 80_000_000) for order in ("pieces", "auto")}
    assert took["auto"] < took["pieces"] / 1.8
    assert Group(World(machine, places), range(8)).choice(80_000_000).name == "hierarchical"


@pytest.mark.parametrize("racks", [False, True])
def test_a_long_ring_takes_what_it_takes_message_by_message(racks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 tasks, 4 on each of 15 hosts, in racks of 5 hosts."""
    hosts = [task // 4 for task in range(60)]
    places = Places(hosts, [host // 5 for host in range(15)] if racks else ())
    machine = Machine(rack_bytes_s=6e8, spread=0.0)

    def took() -> Outcome:
        model = Model("m", (3_900_000,), 0.01)
        return simulate(Scenario(model, machine, "all-reduce", 60, places, algorithm="ring"))

    by_messages = took()
    monkeypatch.setattr(collectives, "LONGEST_RING", 50)
    monkeypatch.setattr(collectives, "SHORT_RINGS", (16, 32))
    by_rounds = took()
    for name, value in asdict(by_messages).items():
        assert getattr(by_rounds, name) == (value if name == "algorithm" else pytest.approx(value, rel=0.05)), name


def test_compression_sends_less_and_works_more() -> None:
    slow = replace(PLAIN, link_bytes_s=1e7)
    places = Places(range(4))
    plain = simulate(Scenario(MODEL, slow, "all-reduce", 4, places))
    coded = simulate(Scenario(MODEL, slow, "all-reduce", 4, places, codec=Codec(0.25, 1e-9, 1e-9)))
    assert coded.bytes == pytest.approx(plain.bytes / 4, rel=0.01)
    assert coded.step_s < plain.step_s and coded.cpu_s > plain.cpu_s


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_workers_on_hosts_of_their_own_scale_and_on_one_they_do_not(strategy: str) -> None:
    def rate(workers: int, hosts: list[int]) -> float:
        ps = 0 if strategy == "all-reduce" else 1
        return simulate(Scenario(MODEL, Machine(), strategy, workers, Places([*hosts, *[0] * ps]), ps)).examples_s

    alone = rate(1, [0])
    assert 2.0 * alone < rate(8, list(range(8))) <= 8 * alone
    assert rate(8, [0] * 8) <= 2 * alone, "the host has two processors"


def test_asynchronous_workers_wait_for_nobody() -> None:
    """One host has three of the workers: in step all are as slow as these."""
    places = Places([0, 0, 0, 0, 1, 2])
    machine = replace(PLAIN, cores=1)
    in_step = simulate(Scenario(MODEL, machine, "ps-sync", 5, places, 1))
    free = simulate(Scenario(MODEL, machine, "ps-async", 5, places, 1))
    assert free.step_s < in_step.step_s


def test_parallel_work_takes_all_processors() -> None:
    took = {}
    for parallel in (0.0, 1.0):
        model = Model("m", (4,), 0.1, parallel)
        took[parallel] = simulate(Scenario(model, replace(PLAIN, cores=4), "all-reduce", 1, Places([0]))).step_s
    assert took == pytest.approx({0.0: 0.1, 1.0: 0.025})


def test_gradients_go_in_packs() -> None:
    assert Model("m", (5, 10, 20, 40), 0.0, pack=30).packs() == [40, 30, 5]
    assert Model("m", (5, 1 << 20, 10), 0.0).packs() == [15, 1 << 20]
    assert Model("m", (5, 1 << 20, 10), 0.0).packs(is_coded=True) == [10, 1 << 20, 5]


@pytest.mark.parametrize(("asked_s", "asked_wait_s"), [(1e-5, 0.0), (1e-7, 4e-5)])
def test_measured_costs_are_found_again(asked_s: float, asked_wait_s: float) -> None:
    """Who looks out uses what nobody needs, and a message that is on its way uses nothing: one hides the other."""
    known = Machine(
        slowdown=1.0,
        crowded=1.0,
        message_s=4e-5,
        inside_s=2e-5,
        copy_bytes_s=4e9,
        cached_bytes_s=9e9,
        step_s=5e-5,
        wait_s=3e-5,
        again_s=2e-4,
        hop_wait_s=3e-4,
        asked_message_s=4e-5,
        asked_s=asked_s,
        asked_hop_s=2e-4,
        asked_wait_s=asked_wait_s,
        ask_s=7e-5,
        serve_s=9e-5,
        variable_s=2e-5,
        messages_2=1.3,
        messages_4=1.5,
        messages_8=2.5,
        copies_2=1.1,
        copies_4=1.6,
        copies_8=1.4,
        busy_2=0.95,
        busy_4=0.8,
        busy_8=0.7,
        computes_1=1.1,
        computes_2=1.2,
        computes_4=1.3,
        computes_8=1.5,
        asked_messages_1=1.1,
        asked_messages_2=1.2,
        asked_messages_4=1.5,
        asked_messages_8=1.9,
        asked_copies_1=1.2,
        asked_copies_2=1.3,
        asked_copies_4=1.4,
        asked_copies_8=2.2,
        asked_computes_1=1.1,
        asked_computes_2=1.1,
        asked_computes_4=1.3,
        asked_computes_8=1.4,
        asked_busy_2=0.9,
        asked_busy_4=0.95,
        asked_busy_8=0.85,
        spread=0.0,
    )
    took: dict[tuple[int, tuple[int, ...]], Took] = {}
    for members in (1, 2, *(2 * each for each in CROWDS)):
        for variables in KINDS if members <= 2 else KINDS_OF_CROWDS:
            # What a worker does alone, gradients have, too: so much that one over a ps can spare some of it.
            compute_s = 1e-2 if variables in (LAYER, LAYERS) else 1e-6 * sum(variables) / 4000
            model = Model("", variables, compute_s)
            found = simulate(Scenario(model, known, "all-reduce", members, Places([0] * members)))
            took[members, variables] = Took(found.step_s, found.cpu_s, 0.02)
    # These are reduced one by one, and not in a pack as a strategy's are.
    more_s = took[1, MANY].cpu_s - took[1, SHORT].cpu_s
    took[2, MANY] = Took(0.0, took[2, SHORT].cpu_s + 2 * more_s + (len(MANY) - 1) * 2 * known.message_s)
    over_ps: dict[tuple[int, tuple[int, ...]], OverPs] = {}
    for workers in (1, *(2 * each for each in (1, *CROWDS))):
        for variables in KINDS_OVER_PS if workers == 1 else KINDS_OF_CROWDS:
            alone_s = took[1, variables].cpu_s
            model = Model("", variables, alone_s - known.step_s)
            # Copies are found first, and what computing takes beside them after that.
            slows: dict[str, Any] = (
                {} if variables == LAYERS else {f"asked_computes_{each}": 1.0 for each in (1, 2, 4, 8)}
            )
            machine, places = replace(known, **slows), Places([0] * (workers + 1))
            found = simulate(Scenario(model, machine, "ps-async", workers, places, 1))
            copied_s = variables[0] / known.cached_bytes_s
            own_s = len(variables) * known.variable_s + 2 * known.asked_message_s + known.asked_wait_s
            ps_s = known.serve_s + own_s + known.applied * copied_s
            over_ps[workers, variables] = OverPs(found.cpu_s / workers - ps_s, ps_s, found.step_s)
    refound = fitted(Machine(slowdown=1.0, crowded=1.0), took, over_ps)
    assert refound.spread == 0.02
    for name, value in asdict(known).items():
        if name != "spread":
            assert getattr(refound, name) == pytest.approx(value, rel=0.15), name


def test_no_step_takes_as_long_as_the_others_and_all_wait_for_the_slowest() -> None:
    """Of 8 workers whose times have a deviation of a tenth, the slowest takes 14 % more than the middle one."""
    machine, places = replace(PLAIN, cores=8, copy_bytes_s=1e15, cached_bytes_s=1e15), Places([0] * 8)
    model = Model("m", (4,), 0.1)
    uneven = simulate(Scenario(model, replace(machine, spread=0.1), "all-reduce", 8, places))
    assert simulate(Scenario(model, machine, "all-reduce", 8, places)).step_s == pytest.approx(0.1, rel=1e-3)
    assert 0.105 < uneven.step_s < 0.125
    assert uneven == simulate(Scenario(model, replace(machine, spread=0.1), "all-reduce", 8, places)), "but as often"


def test_who_waits_looks_out_on_a_processor_that_nobody_needs() -> None:
    places, model = Places([0, 0]), Model("m", (4,), 0.01)
    blind = simulate(Scenario(model, PLAIN, "all-reduce", 2, places))
    looking = simulate(Scenario(model, replace(PLAIN, wait_s=0.002), "all-reduce", 2, places))
    assert looking.step_s == pytest.approx(blind.step_s)
    assert looking.cpu_s == pytest.approx(blind.cpu_s + 0.004)


def test_processors_of_a_crowd_are_not_always_busy() -> None:
    clock, ended = Clock(), []
    host = Host(clock, 2, busy=0.8)
    for _ in range(4):
        host.work(1.0, lambda: ended.append(clock.now))
    clock.run()
    assert ended == pytest.approx([2.5] * 4)
    assert host.used_s == pytest.approx(4.0)


def test_tasks_that_share_processors_find_nothing_in_their_caches() -> None:
    machine = Machine(cores=4, messages_2=2.0, messages_4=3.0, messages_8=5.0, copies_2=1.0, copies_4=1.0, copies_8=2.0)
    assert [machine.shared(tasks, 1).message_s / machine.message_s for tasks in (1, 4, 8, 16, 32, 99)] == pytest.approx(
        [1, 1, 2, 3, 5, 5]
    )
    assert machine.shared(4, 1).copy_bytes_s == pytest.approx(machine.cached_bytes_s)
    assert machine.shared(4, 1e12).copy_bytes_s == pytest.approx(machine.copy_bytes_s)
    assert machine.shared(32, 1e12).copy_bytes_s == pytest.approx(machine.copy_bytes_s / 2)


def test_a_sum_is_applied_by_each_worker() -> None:
    """Which takes half again as long as copying it, after all-reducing it."""
    free = replace(PLAIN, copy_bytes_s=1e9, cached_bytes_s=1e9)
    model, places = Model("m", (40_000_000,), 0.0), Places([0, 1])
    reduced_s = seconds(Group(World(free, places), range(2)), model.bytes)
    assert simulate(Scenario(model, free, "all-reduce", 2, places)).step_s == pytest.approx(reduced_s + 0.06, rel=1e-4)


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match="none of all-reduce, ps-sync, ps-async"):
        simulate(Scenario(MODEL, PLAIN, "tpu", 2, Places([0, 0])))
    with pytest.raises(ValueError, match="needs a ps task"):
        simulate(Scenario(MODEL, PLAIN, "ps-sync", 2, Places([0, 0])))
