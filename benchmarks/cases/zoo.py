"""The zoo: steps of the kinds of models that TF1 programs are made of, alone, beside busy processes, over a ps."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.steps import JOBS
from benchmarks.processes import ChildError, Side
from benchmarks.results import Row, Timing, judge
from benchmarks.rounds import StepCase

PROGRAM = "zoo.models"
# What each is trained with, by its name; and what is said of it.
BATCHES = {
    "transformer": 8,
    "bert": 8,
    "graph_attention": 512,
    "sparse_graph_attention": 512,
    "lstm_loop": 64,
    "lstm_unrolled": 32,
    "gru": 64,
    "bidirectional": 64,
    "seq2seq": 32,
    "cnn": 128,
    "small_resnet": 32,
    "resnet20": 32,
    "dcgan": 32,
    "vae": 100,
    "autoencoder": 256,
    "word2vec": 128,
    "deepfm": 256,
    "wide_and_deep": 256,
    "dqn": 32,
    # Each step has other shapes.
    "lengths": 8,
    "sentences": 32,
    "batches": 64,
}
# Also with batches as large, and forward only.
LARGE = {"transformer": 32, "lstm_loop": 256, "vae": 500, "autoencoder": 1024, "word2vec": 1024, "deepfm": 2048}
BUSY = (1, 2)
# Of 1 ps + 2 workers one worker trains.
OVER_A_PS = ("transformer", "lstm_loop", "cnn", "vae", "word2vec", "dqn")
# Trainings take thousands of steps; what the first of them take is `zoo-start`'s.
_WARM_S, _WARM_STEPS = 1.5, 40
_FIRST = 20
# Beside others a step takes as long as they let it.
_MOST_S = 180.0
_TOLERANCE = 2e-3


def _case(model: str, batch: int, busy: int = 0, spread: bool = False, trains: bool = True) -> StepCase:
    where = f" beside {busy} busy" if busy else " over 1 ps" if spread else "" if trains else ", forward"
    name = ["zoo", model.replace("_", "-")]
    name += [str(batch)] * (batch != BATCHES[model]) + [f"busy{busy}"] * bool(busy)
    name += ["ps"] * spread + ["forward"] * (not trains)
    return StepCase(
        name="-".join(name),
        what=f"{model.replace('_', ' ')}, batch {batch}{where}",
        program=PROGRAM,
        params={"model": model, "batch": batch, "trains": trains, "spread": spread},
        jobs=JOBS if spread else None,
        goal=1.0,
        tolerance=_TOLERANCE,
        quick=False,
        measures_limit=not busy and not spread,
        busy=busy,
        warm_s=_WARM_S,
        warm_steps=_WARM_STEPS,
        most_s=_MOST_S,
        # After the first of them the values are known.
        checked=not busy and trains,
    )


def _starts(bench: Bench) -> Iterator[Row]:
    """Measure each model to the end of its first step, from its process and from its graph, then its first 20 steps,
    and the memory.

    From its graph says who imports early and who imports late, too: what we need of ourselves comes when it is used.
    """
    for model, batch in BATCHES.items():
        what = f"{model.replace('_', ' ')}, batch {batch}: "
        rows = [
            Row("zoo-start", what + "process, import, graph and first step", goal=1.0),
            Row("zoo-start", what + "graph and first step", goal=1.0),
            Row("zoo-start", what + f"graph and first {_FIRST} steps", goal=1.0),
            Row("zoo-start", what + "resident memory", unit="bytes"),
        ]
        for row in rows:
            row.peer_name = "TensorFlow"
        memory = rows[-1]
        try:
            for row, timing in zip(rows, _start(bench.ours, model, batch), strict=True):
                row.ours = timing
            if isinstance(bench.tensorflow, Side):
                for row, timing in zip(rows, _start(bench.tensorflow, model, batch), strict=True):
                    row.peer = timing
                assert memory.ours is not None and memory.peer is not None
                memory.goal_is, memory.met = "<= 0.5x", memory.ours.median <= 0.5 * memory.peer.median
                for row in rows[:-1]:
                    judge(row)
            else:
                for row in rows:
                    row.note = bench.tensorflow
        except ChildError as e:
            for row in rows:
                row.error = str(e)
        yield from rows


def _start(side: Side, model: str, batch: int) -> list[Timing]:
    began = time.monotonic()
    driver = side.own_driver()
    try:
        imported = time.monotonic()
        driver.ask({"do": "load", "program": PROGRAM, "target": "", "params": {"model": model, "batch": batch}})
        driver.ask({"do": "measure", "seconds": 0.0, "most": 1})
        ended = time.monotonic()
        driver.ask({"do": "measure", "seconds": 0.0, "most": _FIRST - 1, "least": _FIRST - 1})
        twentieth = time.monotonic()
        driver.ask({"do": "measure", "seconds": 0.0, "most": 10, "least": 10})
        resident = float(driver.resident_bytes())
    finally:
        driver.stop()
    return [Timing(n, n, n, 1, [n]) for n in (ended - began, ended - imported, twentieth - imported, resident)]


CASES: list[Case] = [
    *(_case(model, batch) for model, batch in BATCHES.items()),
    *(_case(model, batch) for model, batch in LARGE.items()),
    *(_case(model, batch, trains=False) for model, batch in BATCHES.items() if model in LARGE),
    *(_case(model, batch, busy=busy) for busy in BUSY for model, batch in BATCHES.items()),
    *(_case(model, BATCHES[model], spread=True) for model in OVER_A_PS),
    CustomCase("zoo-start", "first steps and memory of each model of the zoo", _starts, quick=False, most_s=1200.0),
]
