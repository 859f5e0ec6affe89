"""What `dtfctl profile` costs the job that it looks at."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.control_plane import cluster, launcher_client
from benchmarks.results import Row, judge, timing

ROUND_S = 2.0
LEAST_ROUNDS = 16
LEAST_STEPS = 20
"""A round with fewer tells of the machine, which had other things to do, not of steps."""
GOAL = 0.95
BATCHES = {"small": 64, "large": 1024}
JOB = """
import sys, time
from array import array
import numpy as np
import dtfctl.runtime as tf
from dtfctl.runtime.train import progress

batch, hidden = int(sys.argv[2]), int(sys.argv[3])
generator = np.random.default_rng(0)
with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
    images = tf.constant(generator.random((batch, 784), np.float32))
    labels = tf.constant(generator.integers(0, 10, batch))
    logits = tf.layers.dense(tf.layers.dense(images, hidden, activation=tf.nn.relu), 10)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
with tf.Session(tf.distribute.cluster_resolver.TFConfigClusterResolver().master()) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(50):
        session.run(train)
    step, told = 50, 0.0
    with open(sys.argv[1], "wb", buffering=0) as ends:
        while True:
            session.run(train)
            step += 1
            now = time.time()
            ends.write(array("d", [now]).tobytes())
            # Who reports once is expected to go on, and is started again after a minute without a word.
            if now > told + 5.0:
                progress.report(step)
                told = now
"""


def _steps(file: Path, began: float, ended: float) -> list[float]:
    """List how long each step between two times took."""
    ends = array("d")
    content = file.read_bytes()
    ends.frombytes(content[: len(content) // ends.itemsize * ends.itemsize])
    within = [end for end in ends if began <= end <= ended]
    return [after - before for before, after in itertools.pairwise(within)]


def _profiled(bench: Bench, size: str) -> Iterator[Row]:
    """Time steps while they are recorded, and beside them such that nobody looks at, in turns."""
    rounds = max(bench.plan.rounds, LEAST_ROUNDS)
    pairs: list[tuple[list[float], list[float]]] = []
    with cluster("cluster: bench\ntasks: {ps: 1, worker: 1}\n") as dtfctl, launcher_client(dtfctl) as client:
        script, ends = dtfctl.folder / "train.py", dtfctl.folder / "ends"
        script.write_text(JOB)
        begin = {"do": "begin", "script": str(script), "words": [str(ends), str(BATCHES[size]), "256"]}
        job = client.ask(begin, 60.0)["job"]
        for number in range(rounds):
            file = dtfctl.folder / f"{number}.perfetto-trace"
            asked = {"do": "profile", "job": job, "seconds": ROUND_S, "file": str(file)}
            times: dict[bool, list[float]] = {}
            # What comes first is not always the same.
            for is_recorded in (False, True) if number % 2 else (True, False):
                if is_recorded:
                    got = client.ask(asked, ROUND_S + 60.0)
                    times[True] = _steps(ends, got["began"], got["ended"])
                    file.unlink()
                else:
                    began = time.time()
                    time.sleep(ROUND_S)
                    times[False] = _steps(ends, began, time.time())
            if all(len(steps) >= LEAST_STEPS for steps in times.values()):
                pairs.append((times[True], times[False]))
    row = Row(
        "profile",
        f"MLP 784-256-10, batch {BATCHES[size]}, 1 ps + 1 worker: a step while dtfctl profile records",
        peer_name="not recorded",
        ours=timing([recorded for recorded, _ in pairs]),
        peer=timing([alone for _, alone in pairs]),
        goal=GOAL,
    )
    yield judge(row)


CASES: list[Case] = [
    CustomCase(
        f"profile-{size}",
        f"what recording costs steps of an MLP, batch {batch}",
        lambda bench, size=size: _profiled(bench, size),  # type: ignore[misc]
        quick=False,
        most_s=180.0,
    )
    for size, batch in BATCHES.items()
]
