"""Find costs of machines with which simulated steps take as long as measured ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from dtfctl.simulate.strategies import Model, Scenario, simulate
from dtfctl.simulate.world import CROWDED, Machine, Places

Variables: TypeAlias = tuple[int, ...]
SHORT, MANY, MEDIUM, LARGE = (4000,), (4000,) * 4, (3_200_000,), (32_000_000,)
"""Variables of the steps that are measured, in bytes."""
ROWS, INPUTS, OUTPUTS, CLASSES = 64, 784, 1024, 10
LAYER = (4 * INPUTS * OUTPUTS,)
LAYERS = (*LAYER, 4 * OUTPUTS * CLASSES)
"""Weights of one layer and of two, whose gradients are computed; those of all others are there at once."""
KINDS, KINDS_OF_CROWDS = (SHORT, MANY, MEDIUM, LARGE, LAYER, LAYERS), (SHORT, MEDIUM, LAYERS)
KINDS_OVER_PS = (SHORT, MANY, MEDIUM)
CROWDS = (2, 4, 8)
"""Tasks a processor."""


class Took(NamedTuple):
    """What a step took.

    Attributes:
        wall_s: of the slowest task.
        cpu_s: of processors, for all of the tasks.
        spread: of the time that the first one's own thread worked: its standard deviation, of the middle.
    """

    wall_s: float
    cpu_s: float
    spread: float = 0.0


class OverPs(NamedTuple):
    """What a step over a ps took: of processors, each worker's and the ps's for it, and of time, with all workers."""

    worker_s: float
    ps_s: float
    wall_s: float


def fitted(
    machine: Machine, took: Mapping[tuple[int, Variables], Took], over_ps: Mapping[tuple[int, Variables], OverPs]
) -> Machine:
    """Find the costs with which simulated steps take as long as measured ones.

    Args:
        took: of a step, by members and variables: of 1 and 2 members with `KINDS`, and of as many as `CROWDS` says for
            each processor with `KINDS_OF_CROWDS`.
        over_ps: the same over a ps, by workers and variables: of one worker with `KINDS_OVER_PS`, and of 1 for each
            processor and as many as `CROWDS` says with `KINDS_OF_CROWDS`.
    """
    step_s = took[1, SHORT].cpu_s
    machine = replace(machine, step_s=step_s, spread=0.0, wait_s=0.0, inside_s=0.0, hop_wait_s=0.0)

    def fit(name: str, members: int, variables: Variables, what: str, low: float, high: float) -> None:
        nonlocal machine
        alone_s = max(took[1, variables].cpu_s - machine.step_s, 0.0)
        model = Model("", variables, alone_s)
        machine = _fit(machine, name, model, members, what, getattr(took[members, variables], what), low, high)

    # What more arrays of a step cost is what messages do; what one costs beside that, a step does that waits.
    more = len(MANY) - len(SHORT)
    own = simulate(Scenario(Model("", SHORT, 0.0), machine, "all-reduce", 2, Places([0, 0]))).messages
    alone_s = took[1, MANY].cpu_s - took[1, SHORT].cpu_s
    message_s = max((took[2, MANY].cpu_s - took[2, SHORT].cpu_s - 2 * alone_s) / more / own, 1e-7)
    wait_s = max((took[2, SHORT].cpu_s - own * message_s) / 2 - step_s, 0.0)
    machine = replace(machine, message_s=message_s, wait_s=wait_s, again_s=0.0)
    # What processors do is the same however busy the machine is; how long it takes is not.
    fit("inside_s", 2, SHORT, "wall_s", 1e-7, 1e-2)
    fit("cached_bytes_s", 2, MEDIUM, "cpu_s", 5e8, 1e11)
    fit("hop_wait_s", 2, MEDIUM, "wall_s", 1e-7, 1e-2)
    fit("copy_bytes_s", 2, LARGE, "cpu_s", 5e8, 1e11)
    fit("computes_1", 2, LAYER, "cpu_s", 0.2, 20)
    fit("again_s", 2, LAYERS, "cpu_s", 1e-7, 1e-2)
    for each in CROWDS:
        members = each * machine.cores
        fit(f"messages_{each}", members, SHORT, "cpu_s", 0.2, 20)
        fit(f"copies_{each}", members, MEDIUM, "cpu_s", 0.2, 20)
        fit(f"computes_{each}", members, LAYERS, "cpu_s", 0.2, 20)
        fit(f"busy_{each}", members, LAYERS, "wall_s", 0.2, 1)
    alone = {variables: found.cpu_s for (members, variables), found in took.items() if members == 1}
    machine = _over_ps(machine, alone, over_ps)

    def fit_over_ps(name: str, workers: int, variables: Variables, what: str, low: float, high: float) -> None:
        nonlocal machine
        found = over_ps[workers, variables]
        wanted = found.wall_s if what == "wall_s" else workers * (found.worker_s + found.ps_s)
        model = Model("", variables, max(alone[variables] - machine.step_s, 0.0))
        machine = _fit(machine, name, model, workers, what, wanted, low, high, ps=1)

    fit_over_ps("asked_s", 1, SHORT, "wall_s", 1e-7, 1e-2)
    fit_over_ps("asked_hop_s", 1, MEDIUM, "wall_s", 1e-7, 1e-2)
    for each in (1, *CROWDS):
        workers = each * machine.cores
        fit_over_ps(f"asked_messages_{each}", workers, SHORT, "cpu_s", 0.2, 20)
        fit_over_ps(f"asked_copies_{each}", workers, MEDIUM, "cpu_s", 0.2, 20)
        fit_over_ps(f"asked_computes_{each}", workers, LAYERS, "cpu_s", 0.2, 20)
        if each > 1:
            fit_over_ps(f"asked_busy_{each}", workers, LAYERS, "wall_s", 0.2, 1)
    return replace(machine, spread=took[1, LAYER].spread)


def _over_ps(
    machine: Machine, alone_s: Mapping[Variables, float], over_ps: Mapping[tuple[int, Variables], OverPs]
) -> Machine:
    """Find what a step of one worker over a ps costs; of its messages each side sends two and deals with two."""
    short, many, medium = (over_ps[1, variables] for variables in KINDS_OVER_PS)
    by_many_s = many.worker_s + many.ps_s - short.worker_s - short.ps_s - (alone_s[MANY] - alone_s[SHORT])
    variable_s = max(by_many_s / (len(MANY) - len(SHORT)) / 2, 0.0)
    # The two take turns: what they use of processors beyond the time that passes, they look out for each other.
    wait_s = max(short.worker_s + short.ps_s - short.wall_s, 0.0) / 2
    worker_s = max(short.worker_s - alone_s[SHORT] - variable_s - wait_s, 0.0)
    ps_s = max(short.ps_s - variable_s - wait_s, 0.0)
    message_s = min(machine.message_s, worker_s / 2, ps_s / 2)
    bytes_s = machine.cached_bytes_s / (MEDIUM[0] - SHORT[0])
    spared_s = alone_s[MEDIUM] - alone_s[SHORT] - (medium.worker_s - short.worker_s)
    alike: dict[str, Any] = {f"asked_{name}": 1.0 for name in CROWDED}
    return replace(
        machine,
        asked_message_s=message_s,
        asked_wait_s=wait_s,
        asked_s=0.0,
        asked_hop_s=0.0,
        ask_s=worker_s - 2 * message_s,
        serve_s=ps_s - 2 * message_s,
        variable_s=variable_s,
        applied=max((medium.ps_s - short.ps_s) * bytes_s, 0.0),
        spared=max(spared_s * bytes_s, 0.0),
        **alike,
    )


def _fit(
    machine: Machine,
    name: str,
    model: Model,
    members: int,
    what: str,
    wanted: float,
    low: float,
    high: float,
    ps: int = 0,
) -> Machine:
    """Halve the range of one cost until a simulated step takes as much."""
    for _ in range(12):
        middle = (low * high) ** 0.5
        strategy, places = "ps-async" if ps else "all-reduce", Places([0] * (members + ps))
        outcome = simulate(Scenario(model, replace(machine, **{name: middle}), strategy, members, places, ps))
        is_slow = (outcome.step_s if what == "wall_s" else outcome.cpu_s) > wanted
        if is_slow == (name.endswith("_bytes_s") or "busy_" in name):
            low = middle
        else:
            high = middle
    return replace(machine, **{name: (low * high) ** 0.5})
