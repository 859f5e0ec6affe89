"""Where references are counted otherwise than here, or say nothing, all that users see is as it is here.

3.14 and free-threaded builds differ from the Pythons the tests run on in what a value counts that nobody else holds.
Processes with tests/support/reference_counts on their path count as these do, from before anything is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNTS = ROOT / "tests" / "support" / "reference_counts"
WARNING = "values are copied before they are changed"
# What a sole owner may count there; -1 where nobody is taken for one.
SOLE = {"blind": -1, "borrowing": 1, "free-threaded": -1}
PROGRAM = """
import numpy as np
from dtfctl.runtime.memory import ownership
import dtfctl.runtime as tf

v = tf.get_variable("v", [300, 1000], initializer=tf.zeros_initializer(), use_resource=True)
update = tf.train.GradientDescentOptimizer(-1.0).apply_gradients([(tf.ones([300, 1000]), v)])
double = tf.identity(2.0 * v)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    held = []
    for i in range(6):
        held.append(session.run(v))
        session.run(update)
        # What was fetched is the user's own, whatever he does with it.
        assert (held[-1] == i).all()
        held[-1][:] = -1.0
        fetched = session.run(double)
        fetched += 1.0
        assert (session.run(double) == 2.0 * (i + 1)).all()
    assert (session.run(v) == 6.0).all()
print(ownership._SOLE)
"""
# Training, assignments, fetches, reads beside writes, in this process and between processes, against numpy.
AUDITS = (
    "tests/unit/train/test_optimizers.py",
    "tests/unit/services/test_random_operations.py",
    "tests/unit/services/test_torn_reads.py",
)
CHOSEN = "test_optimizers or (random_operations and 60) or (torn_reads and 8 and (assign or sparse))"


def run(kind: str, *args: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(COUNTS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Nor does it report to who runs these tests, or end with them: what fails in there fails here.
    theirs = ("DTF_NIGHTLY", "DTF_TEST_EVENTS", "DTF_TEST_COSTS", "DTF_CHECKS_UNTIL")
    env = {k: v for k, v in os.environ.items() if k not in theirs}
    return subprocess.run(
        [sys.executable, *args],
        env={**env, "PYTHONPATH": path, "DTF_TEST_COUNTS": kind},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLE)
def test_programs_give_the_same(kind: str) -> None:
    done = run(kind, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(SOLE[kind])], "it did not count otherwise"
    assert (WARNING in done.stderr) == (SOLE[kind] < 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a hundred tests in one: on a machine with a load of 30 they were at 120 s, and got 300
@pytest.mark.parametrize("kind", ["blind", pytest.param("borrowing", marks=pytest.mark.nightly)])
def test_the_audits_find_nothing(kind: str) -> None:
    done = run(kind, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *AUDITS, "-k", CHOSEN)
    assert done.returncode == 0, done.stdout[-6000:]
