"""Runs a program on both sides in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.limits import Limits
from benchmarks.processes import Child, ChildError, Servers, Side
from benchmarks.results import Row, judge, same_values, timing
from benchmarks.transports import WITHOUT_GOAL

DEFAULT_TASK = "worker/0"
# Both sides compile once more after their first steps, knowing shapes and what is used most.
WARM_STEPS = 8


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    Attributes:
        rounds: of each side, in turns.
        seconds: one round of one side.
        warm_s: before the first.
    """

    rounds: int = 5
    seconds: float = 0.4
    warm_s: float = 0.25


QUICK = Plan(rounds=3, seconds=0.15, warm_s=0.1)


@dataclass(frozen=True)
class StepCase:
    """A program, run with the same parameters on both sides.

    Attributes:
        name: what `--case` takes.
        what: for the table.
        program, params: a module of `benchmarks.programs`, and its parameters.
        jobs: the cluster it needs; None for one process.
        goal: the least ratio asked for; `goals` has others by transport.
        limit, limit_is: the physical limit of a step in seconds given the transport, and what it is made of.
        measures_limit: whether the limit is a step's products and convolutions alone, measured in a process of its own.
        bytes_moved: between processes, a step.
        most: steps a round at most, for steps that take long.
        tolerance: of the values.
        transports: also measured with each of these forced, where this build has it.
        quick: whether `--quick` runs it.
        full: only `--full` runs it.
        client: "tensorflow" when its client drives both sides' servers.
        most_s: how long all of it may take.
        checked: whether both sides' values are compared.
        busy: processes that want a core each while it is measured.
        warm_s, warm_steps: for how long it is warmed up at least.
        link: what links between hosts are shaped to; empty for as they are.
    """

    name: str
    what: str
    program: str
    params: Mapping[str, Any] = field(default_factory=dict)
    jobs: Mapping[str, int] | None = None
    goal: float | None = None
    goals: Mapping[str, float] = field(default_factory=dict)
    limit: Callable[[Limits, str], float] | None = None
    limit_is: str = ""
    measures_limit: bool = False
    bytes_moved: float = 0.0
    most: int = 100_000
    tolerance: float = 1e-4
    transports: tuple[str, ...] = ()
    quick: bool = True
    full: bool = False
    client: str = ""
    most_s: float = 90.0
    checked: bool = True
    busy: int = 0
    warm_s: float = 0.0
    warm_steps: int = WARM_STEPS
    link: str = ""


class Runner:
    """One side running one case."""

    def __init__(self, side: Side, case: StepCase, driver: Child | None = None) -> None:
        self._own_driver = driver
        self.driver = driver or side.driver()
        self.servers: Servers | None = None
        self.target = ""
        if case.jobs is not None:
            self.servers = side.servers(case.jobs)
            self.target = self.servers.targets[DEFAULT_TASK]
        self.times: list[list[float]] = []
        self.steps = 0
        self.cpu = 0.0
        self.driver.ask({"do": "load", "program": case.program, "target": self.target, "params": dict(case.params)})

    def values(self) -> list[float]:
        return list(self.driver.ask({"do": "values"})["values"])

    def warm(self, seconds: float, most: int, least: int = WARM_STEPS) -> None:
        self.driver.ask({"do": "measure", "seconds": seconds, "most": most, "least": least})

    def round(self, seconds: float, most: int) -> None:
        before = self.servers.cpu_s() if self.servers is not None else 0.0
        got = self.driver.ask({"do": "measure", "seconds": seconds, "most": most})
        after = self.servers.cpu_s() if self.servers is not None else 0.0
        self.times.append(got["times"])
        self.steps += got["steps"]
        self.cpu += got["cpu"] + after - before

    def end(self, clears: bool = True) -> None:
        """End the program. `clears`: end what is left of all others in the same servers, too."""
        self.driver.ask({"do": "unload", "target": self.target if clears else ""})
        if self._own_driver is not None:
            self._own_driver.stop()


def run_case(
    case: StepCase, plan: Plan, limits: Limits, ours: list[Side], peer: Side | str, until: float = float("inf")
) -> list[Row]:
    """A row for each of our sides against the peer, all in turns.

    Args:
        peer: the other side, or why there is none.
        until: when no further round should end, by `time.monotonic`; there is at least one.
    """
    rows = [_row(case, side, peer, limits) for side in ours]
    runners: list[Runner | None] = []
    sides = [*ours, *([peer] if isinstance(peer, Side) else [])]
    errors: dict[str, str] = {}
    busy: list[Child] = []
    client = peer if case.client == "tensorflow" and isinstance(peer, Side) else None
    if case.client and client is None:
        for row in rows:
            row.error = f"needs {case.client} as the client: {peer}"
        return rows
    try:
        for side in sides:
            runners.append(_start(side, case, errors, client))
        values = {}
        for side, runner in zip(sides, runners):
            if runner is not None:
                try:
                    if case.checked:
                        values[side.name] = runner.values()
                    runner.warm(max(plan.warm_s, case.warm_s), case.most, case.warm_steps)
                except ChildError as e:
                    errors[side.name] = str(e)
        if case.measures_limit:
            for side, row in zip(ours, rows):
                row.limit, row.limit_is = _measured_limit(side, case), "products and convolutions alone, by oneDNN"
        busy += [Child([sys.executable, "-c", "while True: pass"], "busy") for _ in range(case.busy)]
        rounds, longest = 0, 0.0
        while rounds < plan.rounds and (not rounds or time.monotonic() + longest < until):
            began = time.monotonic()
            # Another one begins each round: who comes after a certain other is not always the same.
            first = rounds % len(sides)
            turns = list(zip(sides, runners))
            for side, runner in turns[first:] + turns[:first]:
                if runner is None or side.name in errors:
                    continue
                try:
                    runner.round(plan.seconds, case.most)
                except ChildError as e:
                    errors[side.name] = str(e)
            rounds += 1
            longest = max(longest, time.monotonic() - began)
    finally:
        for child in busy:
            child.stop()
        for side, runner in zip(sides, runners):
            if runner is not None:
                try:
                    runner.end()
                except ChildError as e:
                    errors.setdefault(side.name, str(e))
        for side in sides:
            if side.name in errors:
                side.stop()
    taken = {
        side.name: timing(runner.times, runner.steps, runner.cpu / max(runner.steps, 1))
        for side, runner in zip(sides, runners)
        if runner is not None and runner.times and side.name not in errors
    }
    for row in rows:
        row.ours = taken.get(row.ours_name)
        row.peer = taken.get(row.peer_name)
        if rounds < plan.rounds:
            row.note = f"{rounds} of {plan.rounds} rounds: they took long"
        row.error = "\n".join(errors[n] for n in (row.ours_name, row.peer_name) if n in errors)
        if row.ours_name in values and row.peer_name in values:
            row.verified = same_values(values[row.ours_name], values[row.peer_name], case.tolerance)
            if not row.verified:
                row.extra["values"] = {n: values[n][:8] for n in (row.ours_name, row.peer_name)}
        judge(row, case.bytes_moved)
    return rows


def _measured_limit(side: Side, case: StepCase) -> float | None:
    """Measure what a step takes at the least; None where that cannot be."""
    driver = side.own_driver()
    try:
        return float(driver.ask({"do": "limit", "program": case.program, "params": dict(case.params)})["seconds"])
    except ChildError:
        return None
    finally:
        driver.stop()


def _start(side: Side, case: StepCase, errors: dict[str, str], client: Side | None) -> Runner | None:
    try:
        if client is None:
            return Runner(side, case)
        return Runner(side, case, client.own_driver())
    except ChildError as e:
        errors[side.name] = str(e)
        return None


def _row(case: StepCase, side: Side, peer: Side | str, limits: Limits) -> Row:
    transport = side.name.partition("(")[2].rstrip(")")
    return Row(
        case=case.name,
        what=case.what,
        ours_name=side.name,
        peer_name=peer.name if isinstance(peer, Side) else "TensorFlow",
        limit=case.limit(limits, transport) if case.limit is not None else None,
        limit_is=case.limit_is,
        goal=None if transport in WITHOUT_GOAL else case.goals.get(transport, case.goal),
        note="" if isinstance(peer, Side) else peer,
    )
