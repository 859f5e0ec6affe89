"""Trials a minute of `dtfctl tune` and of Ray Tune: the same 50 trials of a small model, two at a time.

usage: python -m benchmarks.micro.tuning RAY_PYTHON

RAY_PYTHON is an interpreter with `ray[tune]`, optuna and numpy. A trial trains a perceptron of 32-WIDTH-4 for 400 steps
with numpy and tells its accuracy five times on the way; both sides propose settings by Optuna's TPE with the same seed.
Each has a cluster of this machine that is up before the clock starts: two workers here, `ray.init(num_cpus=2)` there.
They run in turns, a study from the first trial proposed to the last one ended. By itself Ray starts a process a trial,
as a job of ours is one; with `reuse_actors=True` trials follow each other in one process, which only scripts that leave
nothing behind may do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TRIALS, AT_ONCE, ROUNDS, SEED = 50, 2, 2, 7
PEERS = ("Ray Tune", "Ray Tune, reuse_actors=True")
STEPS, BATCH, TOLD = 400, 64, 5
SPACE = f"""
parameters:
  lr: {{from: 1.0e-3, to: 1.0, scale: log}}
  width: {{from: 8, to: 64, step: 8}}
metric: {{name: accuracy, goal: max}}
trials: {TRIALS}
at_once: {AT_ONCE}
seed: {SEED}
"""


def train(lr: float, width: int, tell: Callable[[int, float], None]) -> None:
    """Train on points whose class is that of the nearest of four centres; accuracy on 512 others is told."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 32))

    def points(count: int) -> tuple[Any, Any]:
        x = rng.normal(size=(count, 32))
        return x, np.argmin(((x[:, None] - centres) ** 2).sum(2), 1)

    held_x, held_y = points(512)
    w1, w2 = rng.normal(size=(32, width)) / 6, rng.normal(size=(width, 4)) / width**0.5
    for step in range(1, STEPS + 1):
        x, y = points(BATCH)
        hidden = np.maximum(x @ w1, 0)
        logits = hidden @ w2
        share = np.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        share[np.arange(BATCH), y] -= 1
        back = share @ w2.T * (hidden > 0)
        w2 -= lr / BATCH * hidden.T @ share
        w1 -= lr / BATCH * x.T @ back
        if step % (STEPS // TOLD) == 0:
            tell(step, float((np.argmax(np.maximum(held_x @ w1, 0) @ w2, 1) == held_y).mean()))


def trial() -> None:
    """Run as a trial of `dtfctl tune`: it needs no dtfctl."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--width", type=int)
    given = parser.parse_args()
    with open(os.environ["DTF_PROGRESS_FILE"], "a", buffering=1) as file:

        def tell(step: int, accuracy: float) -> None:
            print(json.dumps({"step": step, "metrics": {"accuracy": accuracy}, "time": time.time()}), file=file)

        train(given.lr, given.width, tell)


def peer() -> None:
    """Run a study by Ray Tune for each line of the input, and print its seconds and best accuracy."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def trainable(config: dict[str, Any]) -> None:
        train(config["lr"], config["width"], lambda _step, accuracy: tune.report({"accuracy": accuracy}))

    ray.init(num_cpus=AT_ONCE, include_dashboard=False, log_to_driver=False)
    space = {"lr": tune.loguniform(1e-3, 1.0), "width": tune.qrandint(8, 64, 8)}
    print("ready", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            tuner = tune.Tuner(
                tune.with_resources(trainable, {"cpu": 1}),
                param_space=space,
                tune_config=tune.TuneConfig(
                    metric="accuracy",
                    mode="max",
                    num_samples=TRIALS,
                    max_concurrent_trials=AT_ONCE,
                    reuse_actors=line.strip() == "reused",
                    search_alg=OptunaSearch(seed=SEED),
                ),
                run_config=tune.RunConfig(storage_path=folder, verbose=0),
            )
            results = tuner.fit()
        took = time.perf_counter() - begun
        best = results.get_best_result().metrics["accuracy"]
        print(json.dumps({"seconds": took, "best": best, "ended": len(results), "ray": ray.__version__}), flush=True)
    ray.shutdown()


@contextlib.contextmanager
def ray_tune(python: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    command = [python, "-m", "benchmarks.micro.tuning", "--peer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def answer() -> str:
            for line in stdout:
                if line.startswith(("{", "ready")):
                    return line
            raise RuntimeError("Ray's process has ended")

        answer()

        def study(line: str) -> dict[str, Any]:
            stdin.write(line + "\n")
            return dict(json.loads(answer()))

        yield study
        stdin.close()


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup

    (folder / "space.yaml").write_text(SPACE)
    cluster = Cluster.up(ClusterSpec("tuning-bench", {"worker": TaskGroup(AT_ONCE)})).cluster
    assert cluster is not None

    def study() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as kept:
            words = [
                "--cluster",
                "tuning-bench",
                "tune",
                "-o",
                "json",
                "--folder",
                kept,
                str(folder / "space.yaml"),
                __file__,
            ]
            begun = time.perf_counter()
            done = subprocess.run([sys.executable, "-m", "dtfctl", *words], capture_output=True, text=True)
            took = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(done.stderr)
        told = json.loads(done.stdout)
        ended = sum(trial["score"] is not None for trial in told["trials"])
        return {"seconds": took, "best": told["best"]["score"], "ended": ended}

    try:
        yield study
    finally:
        cluster.down()


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as mine, ray_tune(python) as theirs:
        sides: dict[str, Callable[[], dict[str, Any]]] = {
            "dtfctl tune": mine,
            PEERS[0]: partial(theirs, ""),
            PEERS[1]: partial(theirs, "reused"),
        }
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
        for turn in range(ROUNDS):
            for name in sorted(sides, reverse=turn % 2 == 0):
                done = sides[name]()
                if done["ended"] != TRIALS:
                    raise RuntimeError(f"{name} ended {done['ended']} of {TRIALS} trials")
                rounds[name].append(done)
                print(f"{name}: {done}", file=sys.stderr, flush=True)
        rates = {name: [TRIALS / done["seconds"] * 60 for done in each] for name, each in rounds.items()}
        for name, each in rates.items():
            print(f"{name:30} {statistics.median(each):6.0f} trials a minute ({min(each):.0f} to {max(each):.0f})")
        for name in PEERS:
            ratios = [one / other for one, other in zip(rates["dtfctl tune"], rates[name], strict=True)]
            print(f"times {name:24} {statistics.median(ratios):6.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    if "DTF_TRIAL" in os.environ:
        trial()
    elif sys.argv[1:] == ["--peer"]:
        peer()
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
