"""Memory of a task: resident after training, and that steps leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.steps import JOBS
from benchmarks.processes import ChildError, Side
from benchmarks.results import Row, Timing

RESIDENT_GOAL = 120e6
# Growth below this is the allocator, not a leak.
GROWTH_GOAL = 2e6
# The steps of the growth case are run in so many.
PIECES = 50


def _bytes(size: float) -> Timing:
    return Timing(size, size, size, 1, [size])


def _resident(side: Side) -> dict[str, int]:
    """Resident memory of ps and worker after MLP steps on a fresh cluster."""
    servers = side.own_servers({"ps": 1, "worker": 1})
    driver = side.own_driver()
    try:
        target = servers.targets["worker/0"]
        driver.ask({"do": "load", "program": "mlp", "target": target, "params": {"batch": 64, "hidden": 256}})
        driver.ask({"do": "measure", "seconds": 1.0, "most": 500})
        return {name: task.resident_bytes() for name, task in servers.tasks.items()}
    finally:
        driver.stop()
        servers.stop()


def _after_mlp(bench: Bench) -> Iterator[Row]:
    ours = _resident(bench.ours)
    theirs: dict[str, int] = {}
    note = ""
    if isinstance(bench.tensorflow, Side):
        try:
            theirs = _resident(bench.tensorflow)
        except ChildError as e:
            note = str(e)
    else:
        note = bench.tensorflow
    row = Row(
        "memory",
        "resident memory of a worker that has run the MLP step",
        peer_name="TensorFlow",
        ours=_bytes(max(ours.values())),
        unit="bytes",
        goal_is="< 120 MB",
        met=max(ours.values()) < RESIDENT_GOAL,
        note=note,
        extra={"ours": ours, "tensorflow": theirs},
    )
    if theirs:
        row.peer = _bytes(max(theirs.values()))
    yield row


def _growth(bench: Bench) -> Iterator[Row]:
    steps = 10_000 if bench.quick else 100_000
    servers = bench.ours.own_servers(JOBS)
    driver = bench.ours.own_driver()
    try:
        target = servers.targets["worker/0"]
        driver.ask({"do": "load", "program": "ps_step", "target": target, "params": {"elements": 1}})
        everyone = {**servers.tasks, "client": driver}

        def run(pieces: int) -> dict[str, int]:
            # In pieces: the driver's own list of the times of all steps would look like a leak.
            for _ in range(pieces):
                driver.ask({"do": "measure", "seconds": 600.0, "most": steps // PIECES}, 660.0)
            return {name: child.resident_bytes() for name, child in everyone.items()}

        before = run(PIECES // 10)
        after = run(PIECES)
    finally:
        driver.stop()
        servers.stop()
    growth = {name: after[name] - before[name] for name in after}
    yield Row(
        "growth",
        f"growth of a process over {steps:,} scalar ps steps",
        ours=_bytes(float(max(growth.values()))),
        unit="bytes",
        goal_is="none (< 2 MB)",
        met=max(growth.values()) < GROWTH_GOAL,
        extra={"growth": growth, "steps": steps},
    )


CASES: list[Case] = [
    CustomCase("memory", "resident memory of a task that has run the MLP step", _after_mlp),
    CustomCase("growth", "memory growth over 100,000 steps (10,000 with --quick)", _growth, most_s=120.0),
]
