"""Steps of training, as strategies make them, in a simulated world."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.strategies.collective_all_reduce import packs_of
from dtfctl.simulate.collectives import Codec, Group
from dtfctl.simulate.engine import Then
from dtfctl.simulate.world import Machine, Places, World, all_of

STRATEGIES = ("all-reduce", "ps-sync", "ps-async")
TOUCHED = 3
"""How often a task touches a step's bytes."""
UPDATED = 1.5
"""What a byte of a sum takes to apply, of what copying one takes: it and the variable are read, and that is written.
One worker alone applies each gradient as it is computed, within its compute time."""
WARM, MEASURED = 1, 2
"""Steps of each worker that are not counted, and those that are."""


@dataclass(frozen=True)
class Model:
    """What a worker's step is.

    Attributes:
        name: for a person.
        variables: bytes of each, of 32-bit floats; gradients are as long.
        compute_s: of a processor, for a step of one worker.
        parallel: the share of it that all processors of a host can do together.
        batch: examples in a worker's step.
        pack: gradients are reduced together up to so many bytes; 0: what is short, as strategies do by themselves.
    """

    name: str
    variables: tuple[int, ...]
    compute_s: float
    parallel: float = 0.0
    batch: int = 1
    pack: int = 0

    @property
    def bytes(self) -> int:
        """Add up the variables."""
        return sum(self.variables)

    def packs(self, *, is_coded: bool = False) -> list[int]:
        """List what is reduced together, in bytes, as strategies do.

        Args:
            is_coded: arrays are compressed.
        """
        sizes = [(dtypes.float32, size) for size in self.variables]
        return [sum(self.variables[i] for i in pack) for pack in packs_of(sizes, self.pack, is_coded=is_coded)]


@dataclass(frozen=True)
class Scenario:
    """What is simulated.

    Attributes:
        places: of the workers, and of the ps after them.
        algorithm: of all-reduces.
    """

    model: Model
    machine: Machine
    strategy: str
    workers: int
    places: Places
    ps: int = 0
    algorithm: str = "auto"
    codec: Codec | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        step_s: between two steps of a worker.
        examples_s: of all workers.
        cpu_s: of processors, in a step of all workers.
        messages, bytes: in a step of all workers; the bytes are those between hosts.
        algorithm: of the all-reduce; empty where there is none.
    """

    step_s: float
    examples_s: float
    cpu_s: float
    messages: float
    bytes: float
    algorithm: str = ""


def simulate(scenario: Scenario) -> Outcome:
    """Let workers train for some steps.

    Raises:
        ValueError: the strategy is none of `STRATEGIES`, or has no ps and needs one.
    """
    if scenario.strategy not in STRATEGIES:
        raise ValueError(f"strategy {scenario.strategy!r} is none of {', '.join(STRATEGIES)}")
    if scenario.strategy != "all-reduce" and scenario.ps < 1:
        raise ValueError(f"strategy {scenario.strategy} needs a ps task")
    machine = scenario.machine if scenario.strategy == "all-reduce" else scenario.machine.over_ps()
    machine = machine.shared(*_sharing(scenario))
    world = World(machine, scenario.places)
    training = _AllReduce(world, scenario) if scenario.strategy == "all-reduce" else _Ps(world, scenario)
    ends: list[list[float]] = [[] for _ in range(scenario.workers)]

    def begin(worker: int) -> None:
        training.step(worker, lambda: over(worker))

    def over(worker: int) -> None:
        ends[worker].append(world.clock.now)
        if len(ends[worker]) < WARM + MEASURED:
            begin(worker)

    for worker in range(scenario.workers):
        begin(worker)
    world.clock.run()
    if any(len(end) < WARM + MEASURED for end in ends):
        raise RuntimeError("simulated workers wait for each other for ever")
    step_s = sum((end[-1] - end[WARM - 1]) / MEASURED for end in ends) / len(ends)
    rounds = WARM + MEASURED
    name = training.group.choice(training.longest).name if isinstance(training, _AllReduce) else ""
    examples_s = scenario.workers * scenario.model.batch / step_s
    cpu_s = sum(host.used_s for host in world.hosts) / rounds
    return Outcome(step_s, examples_s, cpu_s, world.sent / rounds, world.between_hosts / rounds, name)


def _sharing(scenario: Scenario) -> tuple[int, float]:
    """Count the workers of the fullest host, and what they touch in a step: variables, gradients, and their sums."""
    tasks = max(Counter(scenario.places.hosts[: scenario.workers]).values())
    return tasks, TOUCHED * scenario.model.bytes * tasks


class _Computing:
    """Computes gradients: what one processor does alone, and what all do together. No step takes exactly as long.

    Args:
        exchanges: they are exchanged in the same step.
        more_s: of a processor, of a step beside that.
    """

    def __init__(self, world: World, model: Model, exchanges: bool, more_s: float = 0.0) -> None:
        self._world, self._model = world, model
        machine = world.machine
        self._more_s = machine.step_s + more_s
        self._wait_s = machine.wait_s if exchanges else 0.0
        self._compute_s = model.compute_s * (machine.computes_1 if exchanges else 1.0)
        self._spread = machine.spread
        self._draw = random.Random(0)

    def step(self, task: int, then: Then) -> None:
        """Have a worker compute."""
        world, parallel, cores = self._world, self._model.parallel, self._world.machine.cores
        compute_s = self._compute_s * max(self._draw.gauss(1.0, self._spread), 0.0)

        def together() -> None:
            done = all_of(cores, then)
            for _ in range(cores):
                world.work(task, compute_s * parallel / cores, done)

        world.look_out(task, self._wait_s)
        alone_s = max(self._more_s + compute_s * (1 - parallel), 0.0)
        world.work(task, alone_s, together if parallel else then)


class _AllReduce:
    """All workers add up their gradients, and each applies the sum."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._model = scenario.model
        self._packs = scenario.model.packs(is_coded=scenario.codec is not None)
        self.longest = max(self._packs)
        is_alone = scenario.workers == 1
        again_s = 0.0 if is_alone else (len(self._packs) - 1) * world.machine.again_s
        self._computing = _Computing(world, scenario.model, not is_alone, again_s)
        self.group = Group(world, range(scenario.workers), scenario.algorithm, scenario.codec)
        self._steps = [0] * scenario.workers
        self._going: dict[int, list[Callable[[int, Then], None]]] = {}

    def step(self, worker: int, then: Then) -> None:
        number = self._steps[worker]
        self._steps[worker] += 1
        if number not in self._going:
            self._going.pop(number - 2, None)
            self._going[number] = [self.group.begin(pack).join for pack in self._packs]
        going = self._going[number]

        def reduce() -> None:
            if self.group.layout.hosts and len(self.group.tasks) == 1:
                then()
                return

            def apply() -> None:
                self._world.work(worker, UPDATED * self._model.bytes / self._world.machine.copy_bytes_s, then)

            done = all_of(len(going), apply)
            for join in going:
                join(worker, done)

        self._computing.step(worker, reduce)


class _Ps:
    """Workers fetch variables from ps tasks and send these their gradients; each for itself, or all in step."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._scenario = scenario
        machine = world.machine
        # It is the ps that applies what a worker alone does within its compute time.
        variables_s = len(scenario.model.variables) * machine.variable_s
        spared_s = machine.spared * scenario.model.bytes / machine.copy_bytes_s
        self._serve_s = machine.serve_s + variables_s / scenario.ps
        more_s = machine.ask_s + variables_s - spared_s
        self._computing = _Computing(world, scenario.model, True, more_s)
        self._ps: Sequence[int] = range(scenario.workers, scenario.workers + scenario.ps)
        self._piece = scenario.model.bytes / scenario.ps
        self._arrived = 0
        self._waiting: list[Then] = []

    def step(self, worker: int, then: Then) -> None:
        world = self._world

        def push() -> None:
            applied = all_of(len(self._ps), lambda: self._over(then))
            for ps in self._ps:
                self._push(worker, ps, applied)

        def calculate() -> None:
            self._computing.step(worker, push)

        fetched = all_of(len(self._ps), calculate)

        def fetch(ps: int) -> None:
            def answer() -> None:
                world.look_out(ps, world.machine.wait_s)
                world.work(ps, self._serve_s, lambda: world.send(ps, worker, self._piece, lambda: None, fetched))

            world.send(worker, ps, 0, lambda: None, answer)

        for ps in self._ps:
            fetch(ps)

    def _push(self, worker: int, ps: int, applied: Then) -> None:
        world = self._world

        def apply() -> None:
            # In step, a gradient is added to those of others.
            world.work(ps, world.machine.applied * self._piece / world.machine.copy_bytes_s, lambda: answer())

        def answer() -> None:
            world.send(ps, worker, 0, lambda: None, applied)

        world.send(worker, ps, self._piece, lambda: None, apply)

    def _over(self, then: Then) -> None:
        if self._scenario.strategy == "ps-async":
            then()
            return
        self._waiting.append(then)
        if len(self._waiting) < self._scenario.workers:
            return
        waiting, self._waiting = self._waiting, []
        world, machine = self._world, self._world.machine

        def on() -> None:
            for go in waiting:
                go()

        applied = all_of(len(self._ps), on)
        for ps in self._ps:
            world.work(ps, machine.step_s + UPDATED * self._piece / machine.copy_bytes_s, applied)
